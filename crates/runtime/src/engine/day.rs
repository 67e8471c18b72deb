//! What all sessions of a store have spent today.

use std::collections::HashSet;
use std::sync::Arc;

use driver_api::{Store, StoreError};
use protocol::{EventBody, EventKind, Seq, SessionId, Timestamp};
use runtime_api::Allowance;

use super::purse::{Amount, Purse};

/// How many rows are read at a time.
const PAGE: usize = 1_000;

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
    /// The instant of the last row that was read.
    last: Timestamp,
    /// Rows of that instant that were read.
    read: HashSet<(SessionId, Seq)>,
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
            *sum = Sum { midnight, last: Timestamp(midnight), ..Sum::default() };
        }
        loop {
            // Rows of the same instant come again: ask for as many more.
            let limit = PAGE + sum.read.len();
            let rows = store.rows_of(EventKind::Usage, sum.last, limit).await?;
            let is_last = rows.len() < limit;
            for (session, row) in rows {
                if row.at > sum.last {
                    sum.last = row.at;
                    sum.read.clear();
                }
                if !sum.read.insert((session, row.seq)) {
                    continue;
                }
                if let Ok(EventBody::Usage(used)) = EventBody::decode(row.kind, &row.body) {
                    sum.spent.usd += used.cost_usd.unwrap_or_default();
                    let tokens = used.usage.prompt_tokens() + used.usage.output_tokens;
                    sum.spent.tokens = sum.spent.tokens.saturating_add(tokens);
                }
            }
            if is_last {
                return Ok(sum.spent);
            }
        }
    }
}
