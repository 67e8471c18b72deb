//! The transcript of a session.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use http_kit::Problem;
use protocol::MessageId;
use runtime_api::{MessagesAfter, MessagesPage};
use serde_json::json;

use crate::door::Shared;
use crate::error::refused;
use crate::operation::{Operation, Tag};
use crate::place::{AtSession, is_id};
use crate::query::{Query, shown};
use crate::wire::Messages;

/// Messages of one answer.
const MESSAGES_MAX: u64 = 1_000;

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/v1/sessions/{sessionId}/messages", list)
            .named("listMessages", Tag::History, "Lists messages, oldest first")
            .says(
                "The transcript as people read it, with whole results of tools. `hasMore` tells \
                 whether to ask again with `after`: an answer may hold fewer messages than asked \
                 for, where they are large.",
            )
            .query(
                "after",
                json!({"type": "string", "minLength": 1, "maxLength": 64}),
                "The id of the message to begin after.",
            )
            .query(
                "limit",
                json!({"type": "integer", "format": "int32", "minimum": 1,
                       "maximum": MESSAGES_MAX, "default": MESSAGES_MAX}),
                "At most how many messages.",
            )
            .of_session()
            .answers::<Messages>(
                StatusCode::OK,
                "The messages.",
                json!({"messages": [{
                    "id": "06f4zk3r9c5e7g1j3m6p8s0v2x", "role": "user",
                    "content": [{"type": "text", "text": "List the TODOs"}],
                    "createdAt": "2026-12-01T09:00:01.000Z"
                }], "hasMore": true}),
            ),
    ]
}

async fn list(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    mut query: Query,
) -> Result<Json<Messages>, Problem> {
    let after = query.take("after")?;
    let limit = query.take_number("limit", 1..=MESSAGES_MAX)?.unwrap_or(MESSAGES_MAX);
    let after = match after {
        None => MessagesAfter::Start,
        Some(message) if is_id(&message) => MessagesAfter::Message(MessageId::new(message)),
        Some(other) => {
            let what = format!("after: is {}, expected the id of a message", shown(&other));
            return Err(Problem::validation(what));
        }
    };
    door.session(&id).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page = door.handle.messages(&id, after, limit).await.map_err(refused)?;
    let MessagesPage { messages, has_more } = page;
    Ok(Json(Messages { messages, has_more }))
}
