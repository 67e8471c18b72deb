//! What a host lends: files, terminals, tokens.

use std::path::{Path, PathBuf};

use door_host::{MintError, TokenReason};
use runtime_api::{ExitStatus, LendError, LentCommand};
use serde_json::json;
use testkit::fake_handle::{Call, FakeRuntime};

use crate::house::*;

#[tokio::test]
async fn files_and_terminals_are_asked_of_the_host() {
    let house = House::new(FakeRuntime::new());
    let all = json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
    let mut host = house.host(all).await;
    host.session().await;
    let calls = house.calls();
    let Some(Call::Create(created)) = calls.first() else { panic!("{calls:?}") };
    let lender = created.agent.lender.clone().unwrap();
    let (lender, session) = (lender.get(), id_of("s"));
    assert!(lender.lends().reads_files && lender.lends().writes_files);
    let path = Path::new("/a.txt");
    let reading = lender.read_text(&session, path);
    let hosting = async {
        let (id, params) = host.asked("fs/read_text_file").await;
        assert_eq!(params, json!({"sessionId": "s", "path": "/a.txt"}));
        host.answers(&id, json!({"content": "text"})).await;
    };
    assert_eq!(tokio::join!(reading, hosting).0, Ok("text".to_owned()));
    for (code, expected) in [
        (-32002, LendError::NotFound("/a.txt".to_owned())),
        (-32000, LendError::Refused("no".to_owned())),
    ] {
        let writing = lender.write_text(&session, path, "new");
        let hosting = async {
            let (id, params) = host.asked("fs/write_text_file").await;
            assert_eq!(params["content"], "new");
            host.refuses(&id, code, "no").await;
        };
        assert_eq!(tokio::join!(writing, hosting).0, Err(expected));
    }
    let command = LentCommand {
        argv: vec!["sh".to_owned(), "-c".to_owned(), "ls".to_owned()],
        cwd: PathBuf::from("/w"),
        env: vec![("A".to_owned(), "b".to_owned())],
        output_max: 7,
    };
    let running = async {
        let terminal = lender.run(&session, command).await?;
        let output = terminal.output().await?;
        let exit = terminal.wait().await?;
        terminal.kill().await?;
        terminal.release().await?;
        Ok::<_, LendError>((output.text, output.is_truncated, exit))
    };
    let hosting = async {
        let (id, params) = host.asked("terminal/create").await;
        let expected = json!({
            "sessionId": "s", "command": "sh", "args": ["-c", "ls"], "cwd": "/w",
            "env": [{"name": "A", "value": "b"}], "outputByteLimit": 7
        });
        assert_eq!(params, expected);
        host.answers(&id, json!({"terminalId": "t"})).await;
        for (method, answer) in [
            ("terminal/output", json!({"output": "o", "truncated": true})),
            ("terminal/wait_for_exit", json!({"exitCode": null, "signal": "SIGTERM"})),
            ("terminal/kill", json!({})),
            ("terminal/release", json!({})),
        ] {
            let (id, params) = host.asked(method).await;
            assert_eq!(params, json!({"sessionId": "s", "terminalId": "t"}));
            host.answers(&id, answer).await;
        }
        drop(host);
    };
    let ran = tokio::join!(running, hosting).0.unwrap();
    assert_eq!(ran, ("o".to_owned(), true, ExitStatus::Signal(15)));
    assert_eq!(lender.read_text(&session, path).await, Err(LendError::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_answer_lends_nothing_after_a_while() {
    let house = House::new(FakeRuntime::new());
    let mut host = house.host(json!({"fs": {"readTextFile": true}})).await;
    host.session().await;
    let calls = house.calls();
    let Some(Call::Create(created)) = calls.first() else { panic!("{calls:?}") };
    let lender = created.agent.lender.clone().unwrap();
    let read = lender.get().read_text(&id_of("s"), Path::new("/a")).await;
    assert_eq!(read, Err(LendError::Gone));
}

#[tokio::test]
async fn tokens_are_minted_by_the_host_that_supplies_models() {
    let house = House::new(FakeRuntime::new());
    let endpoint = json!({"kind": "openai", "baseUrl": "http://127.0.0.1:1", "auth": "token"});
    let models = json!({"models": {"endpoint": endpoint, "exclusive": true}});
    let mut host = house.host(models).await;
    let (tokens, is_exclusive) = house.around.lent.lock().unwrap().clone().unwrap();
    assert!(is_exclusive);
    for (answer, expected) in [
        (json!({"token": "t", "expiresAt": "2026-12-01T00:00:00Z"}), Ok("t")),
        (json!({"token": "t"}), Ok("t")),
        (json!({"token": ""}), Err(())),
        (json!({"token": "t", "expiresAt": "soon"}), Err(())),
        (json!({}), Err(())),
    ] {
        let minting = tokens.token("http://127.0.0.1:1/", TokenReason::Rejected);
        let hosting = async {
            let (id, params) = host.asked("auth/token").await;
            let asked = json!({"audience": "http://127.0.0.1:1/", "reason": "rejected"});
            assert_eq!(params, asked);
            host.answers(&id, answer.clone()).await;
        };
        let minted = tokio::join!(minting, hosting).0;
        let minted = minted.as_ref().map(|minted| minted.secret.expose().as_str());
        assert_eq!(minted.map_err(|_| ()), expected, "{answer}");
    }
    let session = host.session().await;
    for command in ["/login anthropic", " /provider x"] {
        let params = json!({"sessionId": session, "text": command});
        let (_, word, _) = host.ask("session/prompt", params).await.unwrap_err();
        assert_eq!(word, "locked_by_policy", "{command}");
    }
    drop(host);
    loop {
        match tokens.token("a", TokenReason::Initial).await {
            Err(MintError::Gone) => break,
            other => assert!(other.is_err(), "{other:?}"),
        }
    }
}
