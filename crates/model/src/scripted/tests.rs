//! Scenarios as they are played.

use std::sync::Arc;

use driver_api::{Delta, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse};
use protocol::{Block, Message, StopReason, ToolCallId};
use serde_json::json;
use tokio::sync::mpsc;

use super::{Scenario, model};
use crate::recorded::{assistant, malformed_call, request, result, user};

const SCENARIO: &str = r#"
piece_chars = 2

[[scene]]
name = "work"
prompt = ["Work", "do it"]

[[scene.step]]
thinking = "hm"
text = "first"
tools = [{ name = "ls", input = { path = "." } }, { name = "cat", id = "mine", raw = '{"a' }]
usage = { input = 5, output = 6, cache_read = 7 }

[[scene.step]]
when = { contains = ["nowhere"] }
text = "left out"

[[scene.step]]
when = { contains = ["a.txt"], lacks = ["secret"], failed = false }
text = "héllo"
error = { kind = "overloaded", times = 2, retry_after_ms = 30, after_chars = 3 }

[[scene.step]]
when = { failed = true }
text = "it failed"
stop = "max_tokens"

[[scene]]
name = "rest"

[[scene.step]]
text = "anything"
"#;

fn player(text: &str, scene: &str) -> Arc<dyn Model> {
    model(Some(Arc::new(Scenario::parse(text).unwrap())), scene).unwrap()
}

async fn ask(
    model: &dyn Model,
    messages: Vec<Arc<Message>>,
) -> (Vec<Delta>, Result<ModelResponse, ModelError>) {
    let (sender, mut receiver) = mpsc::channel(64);
    let request: ModelRequest = request(messages);
    let answer = model.ask(&request, sender).await;
    let mut deltas = Vec::new();
    while let Some(delta) = receiver.recv().await {
        deltas.push(delta);
    }
    (deltas, answer)
}

fn prompt(text: &str) -> Vec<Arc<Message>> {
    vec![user(vec![Block::text(text)])]
}

#[tokio::test]
async fn steps_follow_from_the_transcript() {
    let player = player(SCENARIO, "");
    let mut messages = prompt("please WORK");
    let (deltas, answer) = ask(&*player, messages.clone()).await;
    let answer = answer.unwrap();
    let pieces: Vec<Delta> = [
        Delta::Thinking("hm".into()),
        Delta::Text("fi".into()),
        Delta::Text("rs".into()),
        Delta::Text("t".into()),
    ]
    .into();
    assert_eq!(deltas, pieces);
    assert_eq!(answer.stop, StopReason::ToolUse);
    assert_eq!(answer.usage.cache_read_tokens, 7);
    assert_eq!(answer.content[3], malformed_call("mine", "cat", "{\"a"));
    let Block::ToolUse { id, input, .. } = &answer.content[2] else { panic!("a call") };
    assert_eq!((id.as_str(), &input["path"]), ("call_1_1", &json!(".")));

    messages.push(assistant(answer.content.clone()));
    messages.push(user(vec![result("call_1_1", "ls", "a.txt b.txt"), result("mine", "cat", "")]));
    for attempt in 0..2 {
        let error = ask(&*player, messages.clone()).await.1.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Overloaded, "attempt {attempt}");
        assert_eq!(error.partial_text, "hél");
        assert_eq!(error.retry_after.map(|wait| wait.as_millis()), Some(30));
    }
    let answer = ask(&*player, messages.clone()).await.1.unwrap();
    assert_eq!(
        (answer.content.clone(), answer.stop),
        (vec![Block::text("héllo")], StopReason::EndTurn)
    );

    // A new prompt begins anew, and another prompt is another scene.
    messages.push(assistant(answer.content));
    messages.push(user(vec![Block::text("now do it again")]));
    assert_eq!(ask(&*player, messages.clone()).await.1.unwrap().content.len(), 4);
    messages.pop();
    messages.push(user(vec![Block::text("hello?")]));
    let answer = ask(&*player, messages).await.1.unwrap();
    assert_eq!(answer.content, [Block::text("anything")]);
}

#[tokio::test]
async fn conditions_choose_and_scenes_end() {
    let player = player(SCENARIO, "work");
    let mut messages = prompt("whatever");
    messages.push(assistant(vec![Block::text("first")]));
    let failed = Block::ToolResult {
        id: ToolCallId::new("x"),
        name: "ls".into(),
        content: vec![Block::text("a.txt, but denied")],
        is_error: true,
    };
    messages.push(user(vec![failed]));
    let answer = ask(&*player, messages.clone()).await.1.unwrap();
    assert_eq!(
        (answer.content.clone(), answer.stop),
        (vec![Block::text("it failed")], StopReason::MaxTokens)
    );
    messages.push(assistant(answer.content));
    messages.push(user(vec![result("y", "ls", "more")]));
    let over = ask(&*player, messages).await.1.unwrap();
    assert!(matches!(&over.content[..], [Block::Text { text, .. }] if text.contains("scripted")));
}

#[tokio::test]
async fn a_prompt_behind_results_begins_a_turn_and_a_remark_does_not() {
    let player = player(SCENARIO, "work");
    let behind = |text: &str| {
        let mut messages = prompt("do it");
        messages.push(assistant(vec![Block::text("first")]));
        messages.push(user(vec![result("x", "ls", "a.txt"), Block::text(text)]));
        messages
    };
    let fresh = ask(&*player, behind("stop that, work on this")).await.1.unwrap();
    assert_eq!(fresh.content.len(), 4);
    let remark = ask(&*player, behind("quickly")).await.1.unwrap_err();
    assert_eq!(remark.kind, ModelErrorKind::Overloaded);
}

#[test]
fn files_are_checked() {
    let refuse = |text: &str| Scenario::parse(text).unwrap_err();
    assert!(refuse("").contains("no [[scene]]"));
    assert!(refuse("[[scene]]\nname = \"x\"").contains("no step"));
    assert!(refuse("[[step]]\ntxt = \"a\"").contains("txt"));
    assert!(
        refuse("[[step]]\nstop = \"end_turn\"").contains("step 1 of scene \"main\" has neither")
    );
    assert!(refuse("[[step]]\nerror = { kind = \"odd\" }").contains("odd"));
    assert!(refuse("[[step]]\ntext = \"a\"\ndelay_ms = 999999999").contains("delay_ms"));
    assert_eq!(Scenario::parse("[[step]]\ntext = \"a\"").unwrap().scene_names(), ["main"]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.toml");
    let missing = Scenario::load(&path).unwrap_err().to_string();
    assert!(missing.starts_with("scenario ") && missing.contains("s.toml"), "{missing}");
    std::fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
    assert!(Scenario::load(&path).unwrap_err().to_string().contains("larger than 1.0 MiB"));
}

/// Plays the built-in scenario against the texts of the demo's project.
#[tokio::test]
async fn the_demo_repairs_its_project() {
    const SLUG: &str = include_str!("../../../app/demo/slug.sh");
    let player = player(&super::BUILT_IN.replace("piece_ms = 12", "piece_ms = 0"), "");
    let mut messages = prompt("The tests fail. Find out why and fix it.");
    let mut source = SLUG.to_owned();
    let mut called = Vec::new();
    loop {
        let answer = ask(&*player, messages.clone()).await.1.unwrap();
        let mut results = Vec::new();
        for block in &answer.content {
            let Block::ToolUse { id, name, input, .. } = block else { continue };
            called.push(name.clone());
            let text = match name.as_str() {
                "list_dir" => "README.md\nslug.sh\ntest.sh".to_owned(),
                "read_file" if input["path"] == "slug.sh" => source.clone(),
                "read_file" => "# slug".to_owned(),
                "edit_file" => {
                    let edit = &input["edits"][0];
                    let (old, new) = (edit["old"].as_str().unwrap(), edit["new"].as_str().unwrap());
                    assert_eq!(source.matches(old).count(), 1, "{old}");
                    source = source.replace(old, new);
                    "edited slug.sh".to_owned()
                }
                _ if source == SLUG => "FAIL  \"x\"\n3 of 6 cases failed".to_owned(),
                _ => "all 6 cases pass".to_owned(),
            };
            results.push(result(id.as_str(), name, &text));
        }
        messages.push(assistant(answer.content.clone()));
        if results.is_empty() {
            let Some(Block::Text { text, .. }) = answer.content.last() else { panic!("words") };
            assert!(text.contains("The tests pass"), "{text}");
            break;
        }
        messages.push(user(results));
    }
    let expected = ["list_dir", "read_file", "run_shell", "read_file", "edit_file", "run_shell"];
    assert_eq!(called, expected);
}
