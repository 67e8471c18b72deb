//! Lists: tasks, usage, commands, models.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use http_kit::Problem;
use serde_json::json;

use crate::door::Shared;
use crate::error::{Code, refused};
use crate::operation::{Operation, Tag};
use crate::place::AtSession;
use crate::wire::{Command, Commands, Model, Models, SessionSpending, Stopped, Tasks};

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/v1/sessions/{sessionId}/tasks", tasks)
            .named("listTasks", Tag::Sessions, "Lists what runs beside the conversation")
            .says("Nothing does yet in this version: the list is empty.")
            .of_session()
            .answers::<Tasks>(StatusCode::OK, "The tasks.", json!({"tasks": []})),
        Operation::post("/v1/sessions/{sessionId}/tasks/{taskId}/stop", stop_task)
            .named("stopTask", Tag::Sessions, "Stops a task")
            .says("There are no tasks yet in this version: the answer is 404 `task_not_found`.")
            .of_session()
            .refuses(&[Code::TaskNotFound])
            .answers::<Stopped>(StatusCode::OK, "Whether it ran.", json!({"stopped": true})),
        Operation::get("/v1/sessions/{sessionId}/usage", usage)
            .named("getUsage", Tag::History, "Tells what a session has used")
            .says("`costUsd` is absent where the price of any model call is not known.")
            .of_session()
            .answers::<SessionSpending>(
                StatusCode::OK,
                "Tokens and price.",
                json!({
                    "inputTokens": 110, "outputTokens": 13, "cacheReadTokens": 30,
                    "cacheWriteTokens": 0, "costUsd": 0.0005, "turns": 2, "prompts": 2,
                    "byModel": {"anthropic/claude-sonnet-4-6": {
                        "inputTokens": 110, "outputTokens": 13, "cacheReadTokens": 30,
                        "cacheWriteTokens": 0, "costUsd": 0.0005
                    }}
                }),
            ),
        Operation::get("/v1/sessions/{sessionId}/commands", commands)
            .named("listCommands", Tag::Prompts, "Lists the slash commands that prompts may be")
            .of_session()
            .answers::<Commands>(
                StatusCode::OK,
                "The commands.",
                json!({"commands": [{
                    "name": "compact", "description": "summarises the conversation",
                    "argumentHint": "[focus]", "source": "builtin"
                }]}),
            ),
        Operation::get("/v1/models", models)
            .named("listModels", Tag::Server, "Lists models that sessions may name")
            .says(
                "The default one, and those that the settings and the providers' tables know and \
                 policy allows. Others may work as well.",
            )
            .answers::<Models>(
                StatusCode::OK,
                "The models.",
                json!({"models": [{
                    "id": "anthropic/claude-sonnet-4-6", "provider": "anthropic",
                    "contextWindow": 200_000, "default": true
                }]}),
            ),
    ]
}

async fn tasks(
    State(door): State<Shared>,
    AtSession(id): AtSession,
) -> Result<Json<Tasks>, Problem> {
    door.session(&id).await?;
    Ok(Json(Tasks { tasks: Vec::new() }))
}

async fn stop_task(
    State(door): State<Shared>,
    AtSession(id): AtSession,
) -> Result<Json<Stopped>, Problem> {
    door.session(&id).await?;
    Err(Code::TaskNotFound.says("no such task in this session; GET its tasks lists them"))
}

async fn usage(
    State(door): State<Shared>,
    AtSession(id): AtSession,
) -> Result<Json<SessionSpending>, Problem> {
    door.session(&id).await?;
    Ok(Json(door.handle.usage(&id).await.map_err(refused)?.into()))
}

async fn commands(
    State(door): State<Shared>,
    AtSession(id): AtSession,
) -> Result<Json<Commands>, Problem> {
    door.session(&id).await?;
    let commands = door.handle.commands(&id).await.map_err(refused)?;
    Ok(Json(Commands { commands: commands.into_iter().map(Command::from).collect() }))
}

async fn models(State(door): State<Shared>) -> Json<Models> {
    Json(Models { models: door.handle.models().into_iter().map(Model::from).collect() })
}
