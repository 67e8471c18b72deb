//! What prompts ask for besides what they say: a model, steps, a format, the id of their request.

use protocol::event::{OutputFormat, PromptOptions};
use protocol::{Block, EventBody, EventKind, Mode, Refusal, RefusalCode, SessionId, TurnEnd};
use runtime_api::{AgentSettings, Error, Handle, Prompt, Subscription};
use serde_json::{Value, json};

use crate::house::*;

fn asking(options: PromptOptions) -> Prompt {
    Prompt { options, ..Prompt::text("go") }
}

fn format(strict: bool) -> Prompt {
    let schema = json!({
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]
    });
    let output = Some(OutputFormat { name: Some("count".into()), schema, strict });
    asking(PromptOptions { output, ..PromptOptions::default() })
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> Refusal {
    match answer {
        Err(Error::Refusal(refusal)) => refusal,
        other => panic!("a refusal is expected: {other:?}"),
    }
}

async fn run(
    handle: &Handle,
    id: &SessionId,
    prompt: Prompt,
) -> (protocol::event::Done, Vec<EventBody>) {
    let mut viewer: Subscription = watch(handle, id).await;
    handle.prompt(id, prompt).await.unwrap();
    until_done(&mut viewer).await
}

fn last_words(world: &World) -> String {
    let requests = world.model.requests.lock().unwrap();
    format!("{:?}", requests.last().unwrap().messages.last().unwrap().content)
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_the_format_is_handed_on_as_a_value() {
    for said in [r#"{"n": 3}"#, "```json\n{\"n\": 3}\n```"] {
        let world = World::default();
        let handle = world.process();
        let id = session(&handle).await;
        world.model.push(Script::Call(vec![("look", "a")]));
        world.model.push(Script::Say(said));
        let (done, _) = run(&handle, &id, format(true)).await;
        assert_eq!(done.result.reason, TurnEnd::Completed);
        assert_eq!(done.result.structured, Some(json!({"n": 3})));
        assert_eq!(done.result.text, said);
        let requests = world.model.requests.lock().unwrap().clone();
        assert_eq!(requests.len(), 2);
        for request in requests {
            assert_eq!(request.output, format(true).options.output, "each step is asked for it");
        }
        // The next prompt asks for nothing.
        let (done, _) = turn(&handle, &id, "and now?").await;
        assert_eq!(done.result.structured, None);
        assert_eq!(world.model.requests.lock().unwrap().last().unwrap().output, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_misses_the_format_is_told_how_and_asked_again() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Say("three"));
    world.model.push(Script::Say(r#"{"n": "three"}"#));
    world.model.push(Script::Say(r#"{"n": 3}"#));
    let (done, _) = run(&handle, &id, format(true)).await;
    assert_eq!((done.result.structured, done.result.turns), (Some(json!({"n": 3})), 3));
    let told = last_words(&world);
    assert!(told.contains("[output format]") && told.contains("/n: "), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_goes_on_missing_it_is_asked_twice_more_and_then_it_depends() {
    for strict in [true, false] {
        let world = World::default();
        let handle = world.process();
        let id = session(&handle).await;
        for _ in 0..5 {
            world.model.push(Script::Say("three"));
        }
        let (done, events) = run(&handle, &id, format(strict)).await;
        assert_eq!((done.result.turns, &done.result.structured), (3, &None));
        assert_eq!(done.result.text, "three");
        let (reason, code) = match strict {
            true => (TurnEnd::Error, Some("output_invalid")),
            false => (TurnEnd::Completed, None),
        };
        assert_eq!((done.result.reason, done.result.code.as_deref()), (reason, code));
        let finished = events.iter().find_map(|body| match body {
            EventBody::PromptFinished(finished) => Some(finished.result.clone()),
            _ => None,
        });
        assert_eq!(finished, Some(done.result));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_again_without_a_step_left() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Say("three"));
    let prompt = Prompt { max_turns: Some(1), ..format(true) };
    let (done, _) = run(&handle, &id, prompt).await;
    assert_eq!(done.result.code.as_deref(), Some("output_invalid"));
    assert_eq!(world.request_count(), 1);
}

/// The count of what was asked again is in the log.
#[tokio::test(start_paused = true)]
async fn a_crash_between_two_answers_gives_no_further_ones() {
    let world = World::default();
    let owner = world.disk.process();
    let first = world.process_on(std::sync::Arc::clone(&owner) as _);
    let id = session(&first).await;
    for _ in 0..2 {
        world.model.push(Script::Say("three"));
    }
    world.model.push(Script::Stall("thr"));
    first.prompt(&id, format(true)).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(world.request_count(), 3);
    owner.kill();
    drop(first);
    let second = world.process();
    world.model.push(Script::Say("three"));
    let mut watching = second.watch();
    second.open(&id, AgentSettings { carries_on: true, ..AgentSettings::default() }).await.unwrap();
    let (done, _) = until_done(&mut watching).await;
    assert_eq!(done.result.code.as_deref(), Some("output_invalid"));
    let request = world.model.requests.lock().unwrap().last().cloned().unwrap();
    assert_eq!(request.output, format(true).options.output);
}

#[tokio::test(start_paused = true)]
async fn what_a_prompt_asks_for_is_checked_before_it_is_recorded() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let rows = world.disk.rows(&id).len();
    let schema = |schema: Value| {
        let output = Some(OutputFormat { name: None, schema, strict: true });
        asking(PromptOptions { output, ..PromptOptions::default() })
    };
    let request =
        |id: String| asking(PromptOptions { request_id: Some(id), ..PromptOptions::default() });
    let model =
        |name: &str| asking(PromptOptions { model: Some(name.into()), ..PromptOptions::default() });
    for (prompt, code, start) in [
        (Prompt { max_turns: Some(0), ..Prompt::text("x") }, RefusalCode::Invalid, "max_turns: "),
        (Prompt { max_turns: Some(201), ..Prompt::text("x") }, RefusalCode::Invalid, "max_turns: "),
        (schema(json!({"type": 1})), RefusalCode::Invalid, "output.schema: "),
        (schema(json!({"title": "x".repeat(40_000)})), RefusalCode::Invalid, "output.schema: "),
        (request(String::new()), RefusalCode::Invalid, "request_id: "),
        (request("x".repeat(129)), RefusalCode::Invalid, "request_id: "),
        (model("nobody/nothing"), RefusalCode::InvalidModel, ""),
    ] {
        let refused = refusal(handle.prompt(&id, prompt).await);
        assert_eq!(refused.code, code);
        assert!(refused.message.starts_with(start), "{}", refused.message);
    }
    assert_eq!(world.disk.rows(&id).len(), rows);
}

#[tokio::test(start_paused = true)]
async fn a_policy_decides_about_the_model_of_a_prompt_too() {
    let world = World::default();
    let mut layer = policy::Layer::new(policy::LayerName::Managed);
    layer.models = Some(vec!["fake/model".to_owned()]);
    *world.around.policy.lock().unwrap() = policy::Policy::default().tighten(layer);
    let handle = world.process();
    let id = session(&handle).await;
    let mut other = world.model.known();
    other.id = "fake/other".to_owned();
    *world.model.info.lock().unwrap() = Some(other);
    let options = PromptOptions { model: Some("fake/other".into()), ..PromptOptions::default() };
    let refused = refusal(handle.prompt(&id, asking(options)).await);
    assert_eq!(refused.code, RefusalCode::ModelNotAllowed);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_may_name_another_model_for_itself_alone() {
    let world = World::default();
    let other = driver_api::ModelInfo { id: "fake/other".into(), ..world.model.known() };
    world.model.listed.lock().unwrap().push(other);
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("look", "a")]));
    world.model.push(Script::Say("done"));
    let options = PromptOptions { model: Some("fake/other".into()), ..PromptOptions::default() };
    let asked = |events: &[EventBody]| -> Vec<String> {
        let models = events.iter().filter_map(|body| match body {
            EventBody::TurnStart(start) => Some(start.model.clone()),
            EventBody::Usage(used) => used.model.clone(),
            _ => None,
        });
        models.collect()
    };
    let (_, events) = run(&handle, &id, asking(options)).await;
    assert_eq!(asked(&events), ["fake/other"; 4]);
    assert_eq!(handle.info(&id).await.unwrap().model, "fake/model");
    let (_, events) = turn(&handle, &id, "and now?").await;
    assert_eq!(asked(&events), ["fake/model"; 2]);
}

#[tokio::test(start_paused = true)]
async fn steps_and_request_ids_are_recorded_and_hold_for_the_prompt_that_waited_too() {
    let world = World::default();
    let handle = world.process_in(Mode::FullAuto);
    let id = session(&handle).await;
    world.model.push(Script::Stall("thinking"));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("first")).await.unwrap();
    let request_id = Some("req-7".to_owned());
    let options = PromptOptions { request_id: request_id.clone(), ..format(false).options };
    let second = Prompt { max_turns: Some(2), options: options.clone(), ..Prompt::text("second") };
    let accepted = handle.prompt(&id, second).await.unwrap();
    assert_eq!(accepted.position, 1);
    for _ in 0..3 {
        world.model.push(Script::Call(vec![("look", "again")]));
    }
    handle.interrupt(&id, runtime_api::Interrupt::Running).await.unwrap();
    let (_, before) = until_done(&mut viewer).await;
    let queued = before.iter().find_map(|body| match body {
        EventBody::PromptQueued(queued) => Some(queued.clone()),
        _ => None,
    });
    let queued = queued.unwrap();
    assert_eq!((queued.max_turns, &queued.options), (Some(2), &options));
    let (done, after) = until_done(&mut viewer).await;
    assert_eq!((done.result.reason, done.result.turns), (TurnEnd::MaxTurns, 2));
    let started = after.iter().find_map(|body| match body {
        EventBody::PromptStarted(started) => Some(started.clone()),
        _ => None,
    });
    let started = started.unwrap();
    assert_eq!((started.max_turns, started.options), (Some(2), options));
    assert_eq!(started.content, [Block::text("second")]);
    let row = world.disk.rows(&id).into_iter().rfind(|row| row.kind == EventKind::PromptStarted);
    assert!(row.unwrap().body.contains(r#""requestId":"req-7""#));
}
