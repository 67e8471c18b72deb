//! A stored session, told to a client from its beginning.

use std::collections::VecDeque;

use protocol::{Seq, SessionId};
use runtime_api::{Error, Handle};

use crate::outlet::Outlet;
use crate::projection::{Projection, Step};

/// Events of one read.
const PAGE: usize = 500;

/// Shows everything that a session's log shows, and returns the position of the last of it. The
/// projection goes on from there.
///
/// # Errors
/// As [`runtime_api::Runtime::recorded`].
pub(crate) async fn show(
    session: &SessionId,
    handle: &Handle,
    outlet: &Outlet,
    projection: &mut Projection,
) -> Result<Seq, Error> {
    let mut last = Seq(0);
    loop {
        let events: VecDeque<_> = handle.recorded(session, last, PAGE).await?.into();
        if events.is_empty() {
            projection.goes_live();
            return Ok(last);
        }
        for event in events {
            last = event.seq.unwrap_or(last);
            for step in projection.take(&event) {
                // What was asked, chosen and over then is so no more, or is told with the answer.
                if let Step::Show(update) = step {
                    outlet.update(session, *update).await;
                }
            }
        }
    }
}
