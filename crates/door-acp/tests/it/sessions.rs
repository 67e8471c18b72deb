//! Sessions: new, loaded, resumed, listed, closed, erased, and what is chosen for them.

use protocol::event::{PromptOptions, PromptStarted, SessionEnd, TextDelta};
use protocol::{Block, MessageId, Mode, PromptId, RefusalCode, SessionId};
use runtime_api::{ModelListing, SlashCommand};
use serde_json::json;
use testkit::fake_handle::{Call, FakeRuntime, Play, session_info};

use crate::house::Client;
use crate::prompts::{answer, finished};

fn models() -> Vec<ModelListing> {
    ["anthropic/one", "openai/two"]
        .map(|id| ModelListing {
            id: id.to_owned(),
            provider: id.split('/').next().unwrap().to_owned(),
            context_window: None,
            is_default: false,
        })
        .into()
}

#[tokio::test]
async fn hello_tells_what_the_agent_can_do() {
    let mut client = Client::start(FakeRuntime::new(), (None, false));
    let hello = json!({"protocolVersion": 7, "clientCapabilities": {"auth": {"terminal": true}}});
    let told = client.ask("initialize", hello.clone()).await.unwrap();
    assert_eq!(told["protocolVersion"], 1);
    let can = &told["agentCapabilities"];
    assert_eq!(can["loadSession"], true);
    assert_eq!(can["promptCapabilities"]["image"], true);
    assert_eq!(can["promptCapabilities"]["audio"], false);
    for name in ["list", "resume", "close", "delete", "additionalDirectories"] {
        assert!(can["sessionCapabilities"][name].is_object(), "{name}: {can}");
    }
    assert_eq!(told["agentInfo"]["version"], "1.2.3");
    let methods = told["authMethods"].as_array().unwrap();
    assert_eq!(methods[0]["id"], "key");
    assert_eq!(methods[1]["args"], json!(["--login", "anthropic"]));
    let again = client.ask("initialize", hello).await.unwrap_err();
    assert_eq!(again["code"], -32600);
}

#[tokio::test]
async fn a_new_session_tells_its_modes_models_and_commands() {
    let command = SlashCommand {
        name: "compact".to_owned(),
        description: "summarise".to_owned(),
        argument_hint: Some("[focus]".to_owned()),
        source: "builtin",
    };
    let runtime = FakeRuntime::new().models(models()).commands(vec![command]);
    let mut client = Client::meet(runtime).await;
    let further = client.folder.path().join("further");
    std::fs::create_dir(&further).unwrap();
    let params = json!({
        "cwd": client.cwd(), "mcpServers": [], "additionalDirectories": [further]
    });
    let opened = client.ask("session/new", params).await.unwrap();
    assert_eq!(opened["modes"]["currentModeId"], "ask");
    assert_eq!(opened["modes"]["availableModes"].as_array().unwrap().len(), 4);
    let options = opened["configOptions"].as_array().unwrap();
    assert_eq!((&options[0]["id"], &options[1]["category"]), (&json!("mode"), &json!("model")));
    assert_eq!(options[1]["options"][1]["value"], "openai/two");
    let commands = client.update("available_commands_update").await;
    assert_eq!(commands["availableCommands"][0]["input"]["hint"], "[focus]");
    let calls = client.runtime.calls();
    let Some(Call::Create(created)) = calls.first() else { panic!("{calls:?}") };
    assert_eq!(created.cwd, client.cwd());
    assert!(created.agent.is_attended && created.agent.carries_on);
    assert_eq!(created.agent.roots.len(), 1);
    assert!(created.agent.lender.is_none());
}

#[tokio::test]
async fn what_is_chosen_changes_and_is_told() {
    let mut client = Client::meet(FakeRuntime::new().models(models())).await;
    let session = client.session().await;
    let params = json!({"sessionId": session, "modeId": "plan"});
    client.ask("session/set_mode", params).await.unwrap();
    let told = client.update("current_mode_update").await;
    assert_eq!(told["currentModeId"], "plan");
    let told = client.update("config_option_update").await;
    assert_eq!(told["configOptions"][0]["currentValue"], "plan");
    let set = |id: &str, value: &str| json!({"sessionId": session, "configId": id, "value": value});
    let answer = client.ask("session/set_config_option", set("model", "openai/two")).await;
    assert_eq!(answer.unwrap()["configOptions"][1]["currentValue"], "openai/two");
    let answer = client.ask("session/set_config_option", set("mode", "full-auto")).await;
    assert_eq!(answer.unwrap()["configOptions"][0]["currentValue"], "full-auto");
    let calls = client.runtime.calls();
    assert!(calls.iter().any(|call| matches!(call, Call::SetMode(Mode::FullAuto))), "{calls:?}");
    assert!(
        calls.iter().any(|call| matches!(call, Call::SetModel(model) if model == "openai/two"))
    );
    let wrong = client.ask("session/set_config_option", set("taste", "sweet")).await.unwrap_err();
    assert_eq!(wrong["message"], "configId: expected mode or model");
    let wrong = json!({"sessionId": session, "modeId": "wild"});
    let wrong = client.ask("session/set_mode", wrong).await.unwrap_err();
    assert!(wrong["message"].as_str().unwrap().starts_with("modeId: unknown mode 'wild'"));
}

#[tokio::test]
async fn a_loaded_session_is_told_from_its_beginning() {
    let started = PromptStarted {
        prompt_id: PromptId::new("p"),
        message_id: MessageId::new("u"),
        content: vec![Block::text("do it")],
        max_turns: None,
        command: None,
        options: PromptOptions::default(),
    };
    let delta = TextDelta { text: "It is done.".to_owned() };
    let turn = vec![
        started.into(),
        delta.into(),
        answer("It is done.").into(),
        finished("prompt1").into(),
    ];
    let mut client = Client::meet(FakeRuntime::new().turn(turn)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "do it").await;
    client.answer(prompt).await.unwrap();
    let live = client.updates();
    assert!(!live.iter().any(|it| it["sessionUpdate"] == "user_message_chunk"), "{live:?}");
    client.ask("session/close", json!({"sessionId": session})).await.unwrap();
    let params = json!({"sessionId": session, "cwd": client.cwd(), "mcpServers": []});
    let loaded = client.ask("session/load", params.clone()).await.unwrap();
    assert_eq!(loaded["modes"]["currentModeId"], "ask");
    let told: Vec<_> = client
        .updates()
        .iter()
        .map(|it| (it["sessionUpdate"].clone(), it["content"]["text"].clone()))
        .collect();
    assert_eq!(told[0], (json!("user_message_chunk"), json!("do it")));
    assert_eq!(told[1], (json!("agent_message_chunk"), json!("It is done.")));
    // Resumed, nothing is told again.
    client.ask("session/close", json!({"sessionId": session})).await.unwrap();
    client.update("available_commands_update").await;
    client.updates();
    client.ask("session/resume", params).await.unwrap();
    client.update("available_commands_update").await;
    assert_eq!(client.updates(), [] as [serde_json::Value; 0]);
}

#[tokio::test]
async fn a_session_belongs_to_its_folder() {
    let runtime = FakeRuntime::new().session(session_info("stored", "/somewhere/else"));
    let mut client = Client::meet(runtime).await;
    let params = json!({"sessionId": "stored", "cwd": client.cwd(), "mcpServers": []});
    let wrong = client.ask("session/load", params).await.unwrap_err();
    let words = wrong["message"].as_str().unwrap();
    assert!(words.starts_with("cwd: the session belongs to /somewhere/else"), "{words}");
    let params = json!({"sessionId": "no such", "cwd": client.cwd(), "mcpServers": []});
    let wrong = client.ask("session/load", params).await.unwrap_err();
    assert_eq!(
        (&wrong["code"], &wrong["data"]["code"]),
        (&json!(-32002), &json!("session_not_found"))
    );
}

#[tokio::test]
async fn lists_come_in_pages() {
    let mut runtime = FakeRuntime::new();
    for number in 0..60 {
        runtime = runtime.session(session_info(&format!("s{number:02}"), "/w"));
    }
    let mut client = Client::meet(runtime).await;
    let first = client.ask("session/list", json!({})).await.unwrap();
    let sessions = first["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["sessionId"]), (50, &json!("s59")));
    assert_eq!((&sessions[0]["title"], &sessions[0]["cwd"]), (&json!("a title"), &json!("/w")));
    let second = client.ask("session/list", json!({"cursor": first["nextCursor"]})).await.unwrap();
    let sessions = second["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["sessionId"]), (10, &json!("s09")));
    assert!(second.get("nextCursor").is_none());
    let wrong = client.ask("session/list", json!({"cursor": "nonsense"})).await.unwrap_err();
    assert!(wrong["message"].as_str().unwrap().starts_with("cursor:"));
}

#[tokio::test]
async fn sessions_are_closed_and_erased() {
    let mut client = Client::meet(FakeRuntime::new()).await;
    let session = client.session().await;
    client.ask("session/close", json!({"sessionId": session})).await.unwrap();
    let again = client.ask("session/close", json!({"sessionId": session})).await.unwrap_err();
    assert_eq!(again["code"], -32002);
    client.ask("session/delete", json!({"sessionId": session})).await.unwrap();
    let calls = client.runtime.calls();
    assert!(calls.iter().any(|call| matches!(call, Call::Close(_, SessionEnd::Closed))));
    let id = SessionId::new(session);
    assert!(calls.iter().any(|call| matches!(call, Call::Remove(removed) if *removed == id)));
}

#[tokio::test]
async fn a_session_gets_the_tools_that_the_editor_brings() {
    let notices = json!({"session": {"notices": {}}});
    let mut client = Client::meet_with(FakeRuntime::new(), notices).await;
    let server = |name: &str| json!({"name": name, "command": "/bin/true", "args": [], "env": []});
    let params = json!({"cwd": client.cwd(), "mcpServers": [server("files")]});
    let opened = client.ask("session/new", params).await.unwrap();
    let notice = client.update("notice").await;
    assert_eq!(notice["title"], format!("files in {} is slow", client.cwd()));
    let brings = |call: &Call| match call {
        Call::Create(created) => created.agent.tools.is_some(),
        Call::Open(_, agent) => agent.tools.is_some(),
        _ => false,
    };
    assert_eq!(client.runtime.calls().iter().filter(|call| brings(call)).count(), 1);
    let http = json!({"name": "far", "type": "http", "url": "http://127.0.0.1/", "headers": []});
    let params =
        json!({"sessionId": opened["sessionId"], "cwd": client.cwd(), "mcpServers": [http]});
    client.ask("session/load", params).await.unwrap();
    assert_eq!(client.runtime.calls().iter().filter(|call| brings(call)).count(), 2);
    let old = json!({"name": "old", "type": "sse", "url": "http://127.0.0.1/", "headers": []});
    for (server, words) in
        [(old, "mcpServers[0].type: "), (server("wrong"), "mcpServers[0].url: is")]
    {
        let params = json!({"cwd": client.cwd(), "mcpServers": [server]});
        let wrong = client.ask("session/new", params).await.unwrap_err();
        assert!(wrong["message"].as_str().unwrap().starts_with(words), "{wrong}");
    }
}

#[tokio::test]
async fn without_a_model_a_client_has_to_authenticate() {
    let mut client = Client::start(FakeRuntime::new(), (Some("no key is set"), false));
    client.ask("initialize", json!({"protocolVersion": 1})).await.unwrap();
    let params = json!({"cwd": client.cwd(), "mcpServers": []});
    let refused = client.ask("session/new", params).await.unwrap_err();
    assert_eq!((&refused["code"], &refused["message"]), (&json!(-32000), &json!("no key is set")));
    let refused = client.ask("authenticate", json!({"methodId": "key"})).await.unwrap_err();
    assert_eq!(refused["code"], -32000);
    let wrong = client.ask("authenticate", json!({"methodId": "magic"})).await.unwrap_err();
    assert_eq!(wrong["code"], -32602);

    let mut client = Client::start(FakeRuntime::new(), (Some("no key is set"), true));
    client.ask("initialize", json!({"protocolVersion": 1})).await.unwrap();
    client.ask("authenticate", json!({"methodId": "key"})).await.unwrap();
    client.session().await;
}

#[tokio::test]
async fn refusals_of_the_runtime_keep_their_words() {
    let runtime =
        FakeRuntime::new().refuse("create", RefusalCode::TooManySessions, "enough is open");
    let mut client = Client::meet(runtime).await;
    let params = json!({"cwd": client.cwd(), "mcpServers": []});
    let refused = client.ask("session/new", params).await.unwrap_err();
    assert_eq!(
        (&refused["message"], &refused["data"]["code"]),
        (&json!("enough is open"), &json!("too_many_sessions"))
    );
}

#[tokio::test]
async fn a_session_that_others_closed_can_be_loaded_again() {
    let turn = vec![Play::EndStreams];
    let then = vec![TextDelta { text: "Again.".to_owned() }.into(), finished("prompt2").into()];
    let mut client = Client::meet(FakeRuntime::new().turn(turn).turn(then)).await;
    let session = client.session().await;
    let prompt = client.prompt(&session, "go").await;
    client.answer(prompt).await.unwrap_err();
    let prompt = client.prompt(&session, "go").await;
    assert_eq!(client.answer(prompt).await.unwrap_err()["code"], -32002);
    let params = json!({"sessionId": session, "cwd": client.cwd(), "mcpServers": []});
    client.ask("session/load", params).await.unwrap();
    let prompt = client.prompt(&session, "go").await;
    assert_eq!(client.answer(prompt).await.unwrap()["stopReason"], "end_turn");
    assert_eq!(client.update("agent_message_chunk").await["content"]["text"], "Again.");
}
