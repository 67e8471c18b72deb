//! The door against the client side of the protocol's own crate.

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, ContentBlock, FileSystemCapabilities,
    InitializeRequest, ListSessionsRequest, LoadSessionRequest, NewSessionRequest, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionNotification, SessionUpdate, SetSessionModeRequest,
    StopReason,
};
use agent_client_protocol::{ByteStreams, Client as Official, Error};
use protocol::event::{PermissionRequest, TextDelta};
use protocol::{Effect, RequestId, Risk, ToolCallId, TurnEnd};
use serde_json::json;
use testkit::fake_handle::{FakeRuntime, Play};
use tokio::io::split;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};
use tokio_util::sync::CancellationToken;

use crate::house::start;
use crate::prompts::{answer, brought, call, ended, finished};

fn runtime() -> FakeRuntime {
    let permission = PermissionRequest {
        request_id: RequestId::new("r"),
        tool_call_id: ToolCallId::new("c"),
        tool_name: "edit_file".to_owned(),
        effect: Effect::Write,
        target: call("c", "edit_file", &json!({})).target,
        input: serde_json::Map::new(),
        suggested_rules: vec!["edit_file(a.txt)".to_owned()],
        risk: Risk::Low,
        reason: None,
        diff: Some("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-x\n+y\n".to_owned()),
        checks: Vec::new(),
        review: false,
        expires_at: None,
    };
    FakeRuntime::new()
        .turn(vec![
            TextDelta { text: "I edit.".to_owned() }.into(),
            answer("I edit.").into(),
            call("c", "edit_file", &json!({"path": "a.txt"})).into(),
            permission.into(),
            Play::UntilAnswer(RequestId::new("r")),
            brought("c", "edit_file", "done").into(),
            finished("prompt1").into(),
        ])
        .turn(vec![Play::UntilInterrupt, ended("prompt2", TurnEnd::Interrupted).into()])
}

#[tokio::test]
async fn a_whole_session() {
    let runtime = Arc::new(runtime());
    let (pipe, served) = start(&runtime, (None, false), CancellationToken::new());
    let (read, write) = split(pipe);
    let transport = ByteStreams::new(write.compat_write(), read.compat());
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().canonicalize().unwrap();
    let seen: Arc<Mutex<Vec<SessionUpdate>>> = Arc::default();
    let asked: Arc<Mutex<Vec<RequestPermissionRequest>>> = Arc::default();
    let (updates, permissions) = (Arc::clone(&seen), Arc::clone(&asked));
    let talked = Official
        .v1()
        .on_receive_notification(
            async move |told: SessionNotification, _cx| {
                updates.lock().unwrap().push(told.update);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |wanted: RequestPermissionRequest, responder, _cx| {
                permissions.lock().unwrap().push(wanted);
                let chosen = SelectedPermissionOutcome::new("allow_once");
                let outcome = RequestPermissionOutcome::Selected(chosen);
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(transport, async |cx| {
            let files = FileSystemCapabilities::new().read_text_file(true);
            let hello = InitializeRequest::new(ProtocolVersion::V1)
                .client_capabilities(ClientCapabilities::new().fs(files));
            let told = cx.send_request(hello).block_task().await?;
            assert_eq!(told.protocol_version, ProtocolVersion::V1);
            assert!(told.agent_capabilities.load_session);
            let opened = cx.send_request(NewSessionRequest::new(&cwd)).block_task().await?;
            let session = opened.session_id;
            let mode = SetSessionModeRequest::new(session.clone(), "auto-edit");
            cx.send_request(mode).block_task().await?;
            let say = |text: &str| {
                PromptRequest::new(session.clone(), vec![ContentBlock::from(text.to_owned())])
            };
            let ended = cx.send_request(say("edit")).block_task().await?;
            assert_eq!(ended.stop_reason, StopReason::EndTurn);
            let prompt = cx.send_request(say("wait"));
            cx.send_notification(CancelNotification::new(session.clone()))?;
            assert_eq!(prompt.block_task().await?.stop_reason, StopReason::Cancelled);
            let listed = cx.send_request(ListSessionsRequest::new()).block_task().await?;
            assert_eq!(listed.sessions.len(), 1);
            let before = seen.lock().unwrap().len();
            cx.send_request(LoadSessionRequest::new(session, &cwd)).block_task().await?;
            assert!(seen.lock().unwrap().len() > before);
            Ok::<_, Error>(())
        })
        .await;
    talked.unwrap();
    served.await.unwrap().unwrap();
    assert_eq!(asked.lock().unwrap().len(), 1);
    let seen = seen.lock().unwrap();
    let has = |fits: fn(&SessionUpdate) -> bool| assert!(seen.iter().any(fits), "{seen:?}");
    has(|it| matches!(it, SessionUpdate::AgentMessageChunk(_)));
    has(|it| matches!(it, SessionUpdate::ToolCall(_)));
    has(|it| matches!(it, SessionUpdate::ToolCallUpdate(_)));
    has(|it| matches!(it, SessionUpdate::CurrentModeUpdate(_)));
}
