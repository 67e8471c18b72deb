//! What all sessions of a store have spent today.

use std::collections::HashMap;
use std::sync::Arc;

use driver_api::{Store, StoreError};
use protocol::{EventBody, Seq, SessionId, Timestamp};
use runtime_api::Allowance;

use super::purse::{Amount, Purse};
use super::stored;

/// How late a row may come after rows of a later instant, in milliseconds: its instant is that of
/// its making, it shows when its commit is done, and clocks of processes differ a little.
const LATE_MS: i64 = 60_000;

/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The day's purse, and what the logs say about it. The logs are read on from where they were
/// read before, so that a look costs only what came since.
#[derive(Debug)]
pub(crate) struct Day {
    purse: Arc<Purse>,
    sum: tokio::sync::Mutex<Sum>,
}

#[derive(Debug, Default)]
struct Sum {
    /// Midnight UTC before the rows.
    midnight: i64,
    spent: Amount,
    /// The instant of the newest row that was read.
    newest: Timestamp,
    /// Rows of the last while that were read, with their instants.
    read: HashMap<(SessionId, Seq), Timestamp>,
}

impl Default for Day {
    fn default() -> Self {
        let purse = Purse::new("day", None, Allowance::default(), Amount::default());
        Self { purse, sum: tokio::sync::Mutex::default() }
    }
}

impl Day {
    /// Returns the purse.
    pub(crate) fn purse(&self) -> &Arc<Purse> {
        &self.purse
    }

    /// Returns what was spent since midnight UTC, by every process on this store.
    pub(crate) async fn spent(
        &self,
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<Amount, StoreError> {
        let midnight = now.0 - now.0.rem_euclid(DAY_MS);
        let mut sum = self.sum.lock().await;
        if sum.midnight != midnight {
            *sum = Sum { midnight, newest: Timestamp(midnight), ..Sum::default() };
        }
        let from = Timestamp((sum.newest.0 - LATE_MS).max(midnight));
        for (session, row) in stored::usage_rows(store, from).await? {
            sum.newest = sum.newest.max(row.at);
            if sum.read.insert((session, row.seq), row.at).is_some() {
                continue;
            }
            if let Ok(EventBody::Usage(used)) = EventBody::decode(row.kind, &row.body) {
                sum.spent.usd += used.cost_usd.unwrap_or_default();
                let tokens = used.usage.prompt_tokens() + used.usage.output_tokens;
                sum.spent.tokens = sum.spent.tokens.saturating_add(tokens);
            }
        }
        let oldest = sum.newest.0 - LATE_MS;
        sum.read.retain(|_, at| at.0 >= oldest);
        Ok(sum.spent)
    }
}
