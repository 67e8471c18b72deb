//! What every store promises: one case each, run by [`crate::store_suite!`].
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are the bodies of tests"
)]

mod content;
mod kind;
mod lease;
mod letter;
mod log;
mod session;

use std::any::Any;
use std::sync::Arc;

use driver_api::{Lease, LogRow, NewSession, SessionHead, Store};
use futures_util::future::BoxFuture;
use protocol::{EventKind, FrameId, Seq, SessionId, Timestamp};

pub use content::*;
pub use kind::*;
pub use lease::*;
pub use letter::*;
pub use log::*;
pub use session::*;

/// A new disk: every call of `open` starts another process that uses it.
pub struct Disk {
    open: Box<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>,
    _kept: Box<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

impl Disk {
    /// Makes a disk from a function that starts a process on it. `kept` lives as long as the disk:
    /// a temporary folder, for example.
    pub fn new(
        open: impl Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync + 'static,
        kept: impl Any + Send + Sync,
    ) -> Self {
        Self { open: Box::new(open), _kept: Box::new(kept) }
    }

    /// Starts a process.
    pub async fn open(&self) -> Arc<dyn Store> {
        (self.open)().await
    }
}

/// Makes a test of every case. The argument is a function that gives a new [`Disk`].
///
/// ```text
/// testkit::store_suite!(my_disk);
/// ```
#[macro_export]
macro_rules! store_suite {
    ($disk:expr) => {
        $crate::store_suite! { $disk =>
            a_created_session_is_found
            an_id_is_taken_once
            an_unknown_session_is_not_found
            lists_are_newest_first
            lists_keep_to_filter_and_limit
            lists_of_the_busy_leave_the_idle_out
            pages_of_a_list_leave_nobody_out
            a_probe_changes_nothing
            appends_are_dense_and_readable
            a_gap_is_refused_whole
            an_empty_append_changes_nothing
            a_stale_lease_is_fenced
            a_claim_renews_the_lease
            a_living_owner_keeps_its_session
            a_release_frees_the_session
            an_ended_owner_is_replaced
            reads_come_in_pages
            a_cut_removes_the_tail
            a_snapshot_replaces_the_older
            a_removed_session_is_gone
            a_large_body_comes_back
            the_head_is_replaced_with_an_append
            any_text_comes_back
            any_number_comes_back
            every_kind_comes_back
            ten_thousand_rows_come_back
            many_sessions_append_at_once
            appends_of_one_session_keep_their_order
            a_closed_store_fails_and_loses_nothing
            letters_reach_the_owner_in_order
            only_the_owner_reads_letters
            letters_outlive_the_process
            a_letter_waits_once
            a_session_takes_so_many_letters
            a_letter_has_a_size
            letters_go_with_their_session
            rows_of_a_kind_come_from_all_sessions
            rows_of_a_kind_come_in_pages
            removed_rows_of_a_kind_are_gone
        }
    };
    ($disk:expr => $($case:ident)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::store_suite::$case(&$disk()).await;
            }
        )*
    };
}

/// The instant at which the sessions of the suite begin.
const START: Timestamp = Timestamp(1_796_000_000_000);

/// Makes an id.
pub fn id(name: &str) -> SessionId {
    SessionId::new(format!("ses-{name}"))
}

/// Makes a row with a body of its own.
pub fn row(seq: u64) -> LogRow {
    row_with(seq, format!("{{\"text\":\"event number {seq}\"}}"))
}

/// Makes a row with a body.
pub fn row_with(seq: u64, body: impl Into<String>) -> LogRow {
    LogRow {
        seq: Seq(seq),
        frame: FrameId(seq * 3),
        at: START.plus_ms(seq.cast_signed()),
        kind: EventKind::AssistantMessage,
        body: body.into(),
    }
}

/// Makes rows of the seqs from `first` to `last`.
pub fn rows(first: u64, last: u64) -> Vec<LogRow> {
    (first..=last).map(row).collect()
}

/// Makes a session without rows.
pub fn session(name: &str) -> NewSession {
    NewSession {
        id: id(name),
        cwd: "/work".to_owned(),
        at: START,
        head: SessionHead { model: "scripted/demo".to_owned(), ..SessionHead::default() },
        rows: Vec::new(),
    }
}

async fn created(store: &dyn Store, name: &str) -> Lease {
    store.create(session(name)).await.unwrap()
}

async fn all(store: &dyn Store, name: &str) -> Vec<LogRow> {
    store.read(&id(name), Seq(1), usize::MAX).await.unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_store::MemoryDisk;

    fn disk() -> Disk {
        let disk = MemoryDisk::new();
        let open = disk.clone();
        Disk::new(
            move || {
                let store: Arc<dyn Store> = open.process();
                Box::pin(std::future::ready(store))
            },
            disk,
        )
    }

    crate::store_suite!(disk);

    #[test]
    fn every_case_is_listed() {
        let (list, _) = include_str!("store_suite.rs").split_once("const START").unwrap();
        let sources = [
            include_str!("store_suite/content.rs"),
            include_str!("store_suite/kind.rs"),
            include_str!("store_suite/lease.rs"),
            include_str!("store_suite/letter.rs"),
            include_str!("store_suite/log.rs"),
            include_str!("store_suite/session.rs"),
        ];
        let cases = sources.iter().flat_map(|source| source.lines()).filter_map(|line| {
            line.strip_prefix("pub async fn ")?.split_once("(disk: &Disk)").map(|(name, _)| name)
        });
        let listed: Vec<&str> = list.lines().map(str::trim).collect();
        let mut count = 0;
        for case in cases {
            assert!(listed.contains(&case), "{case} is not in the list of store_suite!");
            count += 1;
        }
        assert!(count > 30);
    }
}
