//! Prompts.

use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::v1::{Error, PromptRequest, PromptResponse, StopReason};
use protocol::PromptId;
use runtime_api::Interrupt;
use tokio_util::sync::CancellationToken;

use super::session_id;
use crate::connection::Connection;
use crate::error::refused;
use crate::live::Live;
use crate::projection::Ended;
use crate::prompt;

/// How long a stopped turn may take to end before its prompt is answered without: longer than the
/// 15 s that the runtime gives it.
const STOP_WAIT: Duration = Duration::from_secs(20);

/// Sends a prompt and waits until it is over. A client that cancels it gets `cancelled` and never
/// an error.
pub(super) async fn prompt(
    connection: &Arc<Connection>,
    wanted: PromptRequest,
    cancel: &CancellationToken,
) -> Result<PromptResponse, Error> {
    let live = connection.session(&session_id(&wanted.session_id))?;
    let prompt = prompt::of(wanted.prompt)?;
    if cancel.is_cancelled() {
        return Ok(PromptResponse::new(StopReason::Cancelled));
    }
    let accepted = live.ties.handle.prompt(&live.id, prompt).await;
    let accepted = match accepted {
        Err(_) if cancel.is_cancelled() => return Ok(PromptResponse::new(StopReason::Cancelled)),
        accepted => accepted.map_err(refused)?,
    };
    match ended(&live, &accepted.prompt_id, cancel).await {
        Some(Ended::Well(stop)) => Ok(PromptResponse::new(stop)),
        _ if cancel.is_cancelled() => Ok(PromptResponse::new(StopReason::Cancelled)),
        Some(Ended::Failed(words)) => Err(Error::new(-32603, words)),
        None => Err(Error::new(-32603, "the session was closed before the turn was over")),
    }
}

async fn ended(live: &Live, id: &PromptId, cancel: &CancellationToken) -> Option<Ended> {
    let ended = live.ended(id);
    tokio::pin!(ended);
    tokio::select! {
        ended = &mut ended => return ended,
        () = cancel.cancelled() => {}
    }
    let which = Interrupt::Prompt(id.clone());
    if let Err(error) = live.ties.handle.interrupt(&live.id, which).await {
        tracing::debug!(session = %live.id, %error, "stop a prompt");
    }
    match tokio::time::timeout(STOP_WAIT, ended).await {
        Ok(ended) => ended,
        Err(_) => {
            tracing::warn!(session = %live.id, "a stopped turn does not end");
            None
        }
    }
}
