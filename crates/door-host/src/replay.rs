//! What is replayed of a session: the recorded events after a number, as many as are kept.

use std::sync::Arc;

use jsonrpc::ErrorObject;
use protocol::{FrameId, Seq, SessionId};
use runtime_api::{Handle, SessionInfo, Shown};

use crate::error::refused;

/// Events that are read of the log at once.
const PAGE: usize = 1_000;

/// What a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Events after this one of the log.
    after: Seq,
    /// Up to this number.
    until: FrameId,
    /// What is left out, as first and last number.
    pub(crate) gap: Option<(u64, u64)>,
}

/// Finds what is replayed after a number: at most `kept` events, the newest.
///
/// # Errors
/// Those of the runtime.
pub(crate) async fn find(
    handle: &Handle,
    info: &SessionInfo,
    after: FrameId,
    kept: usize,
) -> Result<Replay, ErrorObject> {
    let (id, until, last) = (&info.id, info.last_frame, info.last_seq);
    let wanted = first_after(handle, id, after, last).await?;
    // Not every event is shown, so that the newest ones may begin earlier than they are many.
    let mut window = u64::try_from(kept).unwrap_or(u64::MAX);
    loop {
        let from = wanted.0.max(last.saturating_sub(window));
        let mut replay = Replay { after: Seq(from), until, gap: None };
        let mut numbers = Vec::new();
        while let Some(page) = replay.page(handle, id, PAGE).await? {
            numbers.extend(page.iter().map(|event| (event.seq.unwrap_or_default(), event.frame)));
        }
        let is_whole = from == wanted.0;
        if numbers.len() < kept && !is_whole {
            window = window.saturating_mul(2);
            continue;
        }
        let cut = numbers.len().saturating_sub(kept);
        let first = numbers.get(cut);
        let is_cut = cut > 0
            || (!is_whole && {
                let oldest = handle.recorded(id, wanted, 1).await.map_err(refused)?;
                oldest.first().map(|event| event.frame) != first.map(|(_, frame)| *frame)
            });
        let begin = match cut.checked_sub(1).and_then(|place| numbers.get(place)) {
            Some((seq, _)) => *seq,
            None => Seq(from),
        };
        let gap = first.filter(|_| is_cut).map(|(_, frame)| (after.0 + 1, frame.0 - 1));
        return Ok(Replay { after: begin, until, gap });
    }
}

/// Returns a place in the log before the first shown event whose number is greater than `after`.
async fn first_after(
    handle: &Handle,
    id: &SessionId,
    after: FrameId,
    last: u64,
) -> Result<Seq, ErrorObject> {
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = low + (high - low) / 2;
        let next = handle.recorded(id, Seq(middle), 1).await.map_err(refused)?;
        match next.first() {
            Some(event) if event.frame <= after => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(Seq(low))
}

impl Replay {
    /// Reads the next events; none when all were read.
    ///
    /// # Errors
    /// Those of the runtime.
    pub(crate) async fn page(
        &mut self,
        handle: &Handle,
        id: &SessionId,
        limit: usize,
    ) -> Result<Option<Vec<Arc<Shown>>>, ErrorObject> {
        let mut page = handle.recorded(id, self.after, limit.min(PAGE)).await.map_err(refused)?;
        page.retain(|event| event.frame <= self.until);
        let Some(last) = page.last() else { return Ok(None) };
        self.after = last.seq.unwrap_or_default();
        Ok(Some(page))
    }
}
