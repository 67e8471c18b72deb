//! Prompts, and stopping them.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http_kit::{Json as JsonBody, Problem};
use native_wire::{ATTACHMENTS_MAX, Attachment, PROMPT_BYTES_MAX, parts};
use protocol::PromptId;
use runtime_api::Prompt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::BODY_BYTES_MAX;
use super::session::{KEY_SAYS, key_schema};
use crate::door::Shared;
use crate::error::{Code, refused};
use crate::idempotency::{Key, once};
use crate::limited::{List, Object, Text};
use crate::operation::{Operation, Tag};
use crate::place::AtSession;
use crate::wire::{Accepted, Interrupted};

/// Something to say to the agent.
#[derive(Clone, Debug, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with text")]
struct SendPrompt {
    /// What is said. One that begins with `/name` of a listed command runs that command.
    text: Text<1, PROMPT_BYTES_MAX>,
    /// What comes with it, after the text.
    attachments: Option<List<Object<Attachment>, ATTACHMENTS_MAX>>,
}

impl SendPrompt {
    fn into_prompt(self) -> Result<Prompt, Problem> {
        let parts = parts(self.text.into_string(), self.attachments);
        Ok(Prompt { parts: parts.map_err(Problem::validation)?, ..Prompt::default() })
    }
}

/// How to stop.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
struct Interrupt {
    /// Whether the prompts that wait are dropped as well. Does not go with `promptId`.
    #[serde(default)]
    clear_queue: bool,
    /// The prompt to stop, or to withdraw where it waits; whatever runs where absent.
    prompt_id: Option<Text<1, 64>>,
}

impl Interrupt {
    fn which(self) -> Result<runtime_api::Interrupt, Problem> {
        match (self.prompt_id, self.clear_queue) {
            (None, false) => Ok(runtime_api::Interrupt::Running),
            (None, true) => Ok(runtime_api::Interrupt::All),
            (Some(id), false) => {
                Ok(runtime_api::Interrupt::Prompt(PromptId::new(id.into_string())))
            }
            (Some(_), true) => {
                let what = "clearQueue: does not go with promptId, which names one prompt";
                Err(Problem::validation(what))
            }
        }
    }
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/v1/sessions/{sessionId}/prompt", prompt)
            .named("sendPrompt", Tag::Prompts, "Sends a prompt")
            .says(
                "Answered once the prompt is recorded: it then runs at once, or waits behind the \
                 one that runs (at most 16 wait). `prompt_finished` with its id tells the result.",
            )
            .header("Idempotency-Key", key_schema(), KEY_SAYS)
            .takes::<SendPrompt>(
                PROMPT_BYTES_MAX,
                vec![
                    ("text", json!({"text": "List the TODOs"})),
                    (
                        "file",
                        json!({
                            "text": "What does this do?",
                            "attachments": [{"type": "file", "path": "src/main.rs"}]
                        }),
                    ),
                ],
            )
            .of_session()
            .refuses(&[Code::QueueFull, Code::IdempotencyConflict])
            .answers::<Accepted>(
                StatusCode::ACCEPTED,
                "The prompt is recorded.",
                json!({"promptId": "06f4zk3r2h8m4v9c1b6q5x7t0w", "queued": false, "position": 0}),
            ),
        Operation::post("/v1/sessions/{sessionId}/interrupt", interrupt)
            .named("interrupt", Tag::Prompts, "Stops the running prompt")
            .says(
                "Its processes are gone and its requests settled when `done` comes. Prompts that \
                 wait go on, unless `clearQueue` drops them. With `promptId` exactly that prompt \
                 is stopped, or withdrawn where it waits; false tells that it is over, or was \
                 never there.",
            )
            .takes::<Interrupt>(
                BODY_BYTES_MAX,
                vec![
                    ("all", json!({"clearQueue": true})),
                    ("one", json!({"promptId": "06f4zk3r2h8m4v9c1b6q5x7t0w"})),
                ],
            )
            .or_nothing()
            .of_session()
            .answers::<Interrupted>(
                StatusCode::OK,
                "Whether one ran, or the one that was named waited.",
                json!({"interrupted": true}),
            ),
    ]
}

async fn prompt(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    key: Key,
    JsonBody(Object(body)): JsonBody<Object<SendPrompt>, PROMPT_BYTES_MAX>,
) -> Result<Response, Problem> {
    let key = key.with(&body);
    let prompt = body.into_prompt()?;
    let (asked, session) = (Shared::clone(&door), id.clone());
    let work = async move {
        asked.session(&session).await?;
        let accepted = asked.handle.prompt(&session, prompt).await.map_err(refused)?;
        let (prompt_id, position) = (accepted.prompt_id, accepted.position);
        Ok(Accepted { prompt_id, queued: position > 0, position })
    };
    once(&door, ("sendPrompt", Some(id), key), StatusCode::ACCEPTED, work).await
}

async fn interrupt(
    State(door): State<Shared>,
    AtSession(id): AtSession,
    body: Option<JsonBody<Object<Interrupt>, BODY_BYTES_MAX>>,
) -> Result<Json<Interrupted>, Problem> {
    let how = body.map(|JsonBody(Object(how))| how).unwrap_or_default();
    let which = how.which()?;
    door.session(&id).await?;
    let interrupted = door.handle.interrupt(&id, which).await.map_err(refused)?;
    Ok(Json(Interrupted { interrupted }))
}
