//! What the client lends: files and terminals, asked for over the wire.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::SessionId;
use runtime_api::{ExitStatus, LendError, Lender, Lends, LentCommand};
use serde_json::json;
use testkit::fake_handle::{Call, FakeRuntime, Play};

use crate::house::Client;
use crate::prompts::{brought, call, ended};
use protocol::TurnEnd;

/// Opens a session of a client that lends everything, and returns what the runtime got of it.
async fn lender(client: &mut Client) -> (Arc<dyn Lender>, SessionId) {
    let session = client.session().await;
    let calls = client.runtime.calls();
    let lender = calls.iter().find_map(|call| match call {
        Call::Create(created) => created.agent.lender.clone(),
        _ => None,
    });
    (Arc::clone(lender.unwrap().get()), SessionId::new(session))
}

fn everything() -> serde_json::Value {
    json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true})
}

#[tokio::test]
async fn files_are_read_and_written_through_the_client() {
    let mut client = Client::meet_with(FakeRuntime::new(), everything()).await;
    let (lender, session) = lender(&mut client).await;
    let all = Lends { reads_files: true, writes_files: true, runs_commands: true };
    assert_eq!(lender.lends(), all);

    let path = Path::new("/w/a.txt");
    let (read, ()) = tokio::join!(lender.read_text(&session, path), async {
        let asked = client.asked("fs/read_text_file").await;
        assert_eq!(asked["params"]["path"], "/w/a.txt");
        assert_eq!(asked["params"]["sessionId"], session.as_str());
        client.respond(&asked, json!({"content": "not saved yet"})).await;
    });
    assert_eq!(read, Ok("not saved yet".to_owned()));
    let (missing, ()) = tokio::join!(lender.read_text(&session, path), async {
        let asked = client.asked("fs/read_text_file").await;
        client.refuse(&asked, -32002, "no such file").await;
    });
    assert_eq!(missing, Err(LendError::NotFound("/w/a.txt".to_owned())));
    let (written, ()) = tokio::join!(lender.write_text(&session, path, "new"), async {
        let asked = client.asked("fs/write_text_file").await;
        assert_eq!(asked["params"]["content"], "new");
        client.respond(&asked, json!(null)).await;
    });
    assert_eq!(written, Ok(()));
    let (refused, ()) = tokio::join!(lender.write_text(&session, path, "new"), async {
        let asked = client.asked("fs/write_text_file").await;
        client.refuse(&asked, -32603, "the buffer is locked").await;
    });
    assert_eq!(refused, Err(LendError::Refused("the buffer is locked".to_owned())));
}

#[tokio::test]
async fn commands_run_in_terminals_of_the_client_and_are_shown_in_their_calls() {
    let turn = vec![
        call("c", "run_shell", &json!({"command": "npm test"})).into(),
        Play::UntilInterrupt,
        brought("c", "run_shell", "ok").into(),
        ended("prompt1", TurnEnd::Interrupted).into(),
    ];
    let mut client = Client::meet_with(FakeRuntime::new().turn(turn), everything()).await;
    let (lender, session) = lender(&mut client).await;
    client.prompt(session.as_str(), "test").await;
    client.update("tool_call").await;
    let command = LentCommand {
        argv: ["bash", "-c", "npm test"].map(str::to_owned).into(),
        cwd: PathBuf::from("/w"),
        env: vec![("A".to_owned(), "b".to_owned())],
        output_max: 1000,
    };
    let (terminal, ()) = tokio::join!(lender.run(&session, command), async {
        let asked = client.asked("terminal/create").await;
        let params = &asked["params"];
        assert_eq!(
            (&params["command"], &params["args"]),
            (&json!("bash"), &json!(["-c", "npm test"]))
        );
        assert_eq!((&params["cwd"], &params["outputByteLimit"]), (&json!("/w"), &json!(1000)));
        assert_eq!(params["env"], json!([{"name": "A", "value": "b"}]));
        client.respond(&asked, json!({"terminalId": "t1"})).await;
    });
    let terminal = terminal.unwrap();
    let shown = client.update("tool_call_update").await;
    assert_eq!(shown["content"], json!([{"type": "terminal", "terminalId": "t1"}]));
    let (ended, ()) = tokio::join!(terminal.wait(), async {
        let asked = client.asked("terminal/wait_for_exit").await;
        assert_eq!(asked["params"]["terminalId"], "t1");
        client.respond(&asked, json!({"exitCode": 3})).await;
    });
    assert_eq!(ended, Ok(ExitStatus::Code(3)));
    let (output, ()) = tokio::join!(terminal.output(), async {
        let asked = client.asked("terminal/output").await;
        let output =
            json!({"output": "ok\n", "truncated": true, "exitStatus": {"signal": "SIGKILL"}});
        client.respond(&asked, output).await;
    });
    let output = output.unwrap();
    assert_eq!((output.text.as_str(), output.is_truncated), ("ok\n", true));
    assert_eq!(output.exit, Some(ExitStatus::Signal(9)));
    for (what, method) in [("kill", "terminal/kill"), ("release", "terminal/release")] {
        let asking = async {
            match what {
                "kill" => terminal.kill().await,
                _ => terminal.release().await,
            }
        };
        let (done, ()) = tokio::join!(asking, async {
            let asked = client.asked(method).await;
            client.respond(&asked, json!({})).await;
        });
        assert_eq!(done, Ok(()));
    }
}

#[tokio::test]
async fn a_wait_that_is_dropped_is_taken_back_and_a_client_that_is_gone_lends_nothing() {
    let mut client = Client::meet_with(FakeRuntime::new(), everything()).await;
    let (lender, session) = lender(&mut client).await;
    {
        let reading = lender.read_text(&session, Path::new("/w/a"));
        tokio::pin!(reading);
        tokio::select! {
            _ = &mut reading => panic!("nobody answered"),
            _ = client.asked("fs/read_text_file") => {}
        }
    }
    client.asked("$/cancel_request").await;
    client.leave().await;
    let gone = lender.read_text(&session, Path::new("/w/a")).await;
    assert_eq!(gone, Err(LendError::Gone));
}
