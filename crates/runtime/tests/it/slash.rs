//! Slash commands: what they say and do, and that no model reads them.

use policy::{Layer, LayerName, Policy};
use protocol::event::Done;
use protocol::{EventBody, EventKind, Mode, SessionId, TurnEnd};
use runtime_api::{AgentSettings, Handle, Prompt};

use crate::fakes::Around;
use crate::house::{Script, World, session, session_with, turn, until_done, watch};

/// Says a command; returns its answer after checking what holds for every command.
async fn order(world: &World, handle: &Handle, id: &SessionId, text: &str) -> Done {
    let (requests, prompts) = (world.request_count(), handle.info(id).await.unwrap().prompts);
    let points = handle.points(id).await.unwrap().len();
    let (done, events) = turn(handle, id, text).await;
    assert_eq!(done.result.turns, 0, "{text}");
    assert!(!events.iter().any(|body| body.kind() == EventKind::TurnStart), "{text}");
    assert_eq!(world.request_count(), requests, "{text}: no model is asked");
    assert_eq!(handle.info(id).await.unwrap().prompts, prompts, "{text}: it is no prompt");
    assert_eq!(handle.points(id).await.unwrap().len(), points, "{text}: it is no point");
    done
}

async fn said(world: &World, handle: &Handle, id: &SessionId, text: &str) -> String {
    let done = order(world, handle, id, text).await;
    assert_eq!(done.result.reason, TurnEnd::Completed, "{text}: {:?}", done.result);
    done.result.text
}

fn around(world: &World) -> &Around {
    &world.around
}

#[tokio::test(start_paused = true)]
async fn commands_are_listed_and_help_lists_the_same() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let commands = handle.commands(&id).await.unwrap();
    let help = said(&world, &handle, &id, "/help").await;
    for command in &commands {
        assert!(help.contains(&format!("/{}", command.name)), "{help}");
        assert!(help.contains(&command.description), "{help}");
        assert_eq!(command.source, "builtin");
    }
    let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
    let expected = [
        "compact",
        "uncompact",
        "context",
        "usage",
        "undo",
        "rewind",
        "mode",
        "model",
        "permissions",
        "help",
    ];
    assert_eq!(names, expected);
}

#[tokio::test(start_paused = true)]
async fn a_command_is_never_the_title_and_no_model_ever_reads_it() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    said(&world, &handle, &id, "/help").await;
    assert_eq!(handle.info(&id).await.unwrap().title, None);
    world.model.push(Script::Say("Hello."));
    turn(&handle, &id, "good morning").await;
    said(&world, &handle, &id, "/context").await;
    world.model.push(Script::Say("Again."));
    turn(&handle, &id, "good evening").await;
    assert_eq!(handle.info(&id).await.unwrap().title.as_deref(), Some("good morning"));
    let request = world.model.requests.lock().unwrap().last().cloned().unwrap();
    let sent = format!("{:?}", request.messages);
    assert!(!sent.contains("/help") && !sent.contains("/context") && !sent.contains("In use"));
}

#[tokio::test(start_paused = true)]
async fn unknown_names_and_later_words_are_ordinary_text() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    for text in ["/etc/passwd is a file", "what does /help do?", "/helpful", "/login"] {
        world.model.push(Script::Say("An answer."));
        let (done, _) = turn(&handle, &id, text).await;
        assert_eq!((done.result.text.as_str(), done.result.turns), ("An answer.", 1), "{text}");
    }
    assert_eq!(handle.points(&id).await.unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_queued_command_is_obeyed_in_its_turn() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("touch", "x")]));
    world.model.push(Script::Say("One."));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("first")).await.unwrap();
    handle.prompt(&id, Prompt::text("/mode plan")).await.unwrap();
    handle.prompt(&id, Prompt::text("second")).await.unwrap();
    world.model.push(Script::Say("Two."));
    let mut texts = Vec::new();
    for _ in 0..3 {
        texts.push(until_done(&mut viewer).await.0.result.text);
    }
    assert_eq!(texts, ["One.", "The mode is plan now.", "Two."]);
    assert_eq!(handle.info(&id).await.unwrap().mode, Mode::Plan);
    assert_eq!(world.effect_count("x"), 1, "the mode changed after the turn before");
}

#[tokio::test(start_paused = true)]
async fn mode_and_model_are_shown_and_changed_within_what_is_locked() {
    let world = World::default();
    let mut managed = Layer::new(LayerName::Managed);
    managed.disable_full_auto = true;
    managed.models = Some(vec!["fake/*".into()]);
    *around(&world).policy.lock().unwrap() = Policy::default().tighten(managed);
    let handle = world.process_in(Mode::Ask);
    let id = session(&handle).await;
    let shown = said(&world, &handle, &id, "/mode").await;
    assert!(shown.contains("The mode is ask") && shown.contains("full-auto"), "{shown}");
    assert_eq!(said(&world, &handle, &id, "/mode auto-edit").await, "The mode is auto-edit now.");
    let done = order(&world, &handle, &id, "/mode full-auto").await;
    assert_eq!(done.result.reason, TurnEnd::Denied);
    assert_eq!(done.result.code.as_deref(), Some("locked_by_policy"));
    assert!(done.result.text.contains("managed settings"), "{}", done.result.text);
    assert_eq!(handle.info(&id).await.unwrap().mode, Mode::AutoEdit);
    let shown = said(&world, &handle, &id, "/model").await;
    assert!(shown.contains("fake/model"), "{shown}");
    assert!(said(&world, &handle, &id, "/model fake/model").await.contains("fake/model now"));
    let told = said(&world, &handle, &id, "/model nobody/nothing").await;
    assert!(told.contains("Nothing was done: no such model"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn arguments_that_make_no_sense_change_nothing() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let wrong = [
        "/mode fast",
        "/undo everything",
        "/rewind nowhere",
        "/rewind files",
        "/context now",
        "/usage today",
        "/uncompact all",
        "/permissions all",
        "/model a b",
        "/rewind a b c",
    ];
    for text in wrong {
        let before = handle.info(&id).await.unwrap();
        let told = said(&world, &handle, &id, text).await;
        assert!(told.starts_with("Nothing was done: "), "{text}: {told}");
        let after = handle.info(&id).await.unwrap();
        assert_eq!((before.mode, before.model), (after.mode, after.model), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn context_and_usage_say_what_is_so() {
    let world = World::default();
    let handle = world.process();
    let id = session(&handle).await;
    let usage = said(&world, &handle, &id, "/usage").await;
    assert_eq!(usage, "No model was asked in this session yet.");
    world.model.push(Script::Call(vec![("look", "a")]));
    world.model.push(Script::Say("One."));
    turn(&handle, &id, "first").await;
    let usage = said(&world, &handle, &id, "/usage").await;
    for part in ["2 steps", "1 prompt", "fake/model: 2 calls, 200 tokens in, 20 out", "$0.0004"] {
        assert!(usage.contains(part), "{part} in {usage}");
    }
    let context = said(&world, &handle, &id, "/context").await;
    for part in ["fake/model", "about 110 tokens", "instructions", "tools", "conversation"] {
        assert!(context.contains(part), "{part} in {context}");
    }
    assert!(context.contains("Nothing of it is summarised"), "{context}");
    said(&world, &handle, &id, "/help").await;
    turn(&handle, &id, "/compact").await;
    let context = said(&world, &handle, &id, "/context").await;
    assert!(context.contains("summarised by hand on 2026-"), "{context}");
}

#[tokio::test(start_paused = true)]
async fn permissions_show_the_rules_with_their_layers() {
    let world = World::default();
    let handle = world.process_in(Mode::Ask);
    let id = session(&handle).await;
    let told = said(&world, &handle, &id, "/permissions").await;
    assert!(told.contains("Mode: ask") && told.contains("No layer has rules"), "{told}");
    let agent = AgentSettings {
        allow: vec!["run_shell(git *)".into()],
        deny: vec!["write_file".into()],
        ..AgentSettings::default()
    };
    let id = session_with(&handle, agent).await;
    let told = said(&world, &handle, &id, "/permissions").await;
    for part in ["flags", "allow run_shell(git *)", "deny  write_file"] {
        assert!(told.contains(part), "{part} in {told}");
    }
}

/// A world whose files are captured.
fn with_files() -> World {
    let world = World::default();
    around(&world).has_checkpoints.store(true, std::sync::atomic::Ordering::Relaxed);
    world
}

fn file(world: &World, path: &str) -> Option<String> {
    around(world).files.lock().unwrap().get(path).cloned()
}

#[tokio::test(start_paused = true)]
async fn undo_and_rewind_work_within_the_turn_of_their_command() {
    let world = with_files();
    let handle = world.process();
    let id = session(&handle).await;
    assert_eq!(said(&world, &handle, &id, "/undo").await, "There is nothing to undo.");
    let none = said(&world, &handle, &id, "/rewind").await;
    assert!(none.contains("no point"), "{none}");
    for (prompt, change) in [("write one", "f=1"), ("write two", "f=2"), ("write three", "f=3")] {
        world.model.push(Script::Call(vec![("touch", change)]));
        world.model.push(Script::Say("Written."));
        turn(&handle, &id, prompt).await;
    }
    let listed = said(&world, &handle, &id, "/rewind").await;
    for part in ["write one", "write two", "write three", "1 file", "2026-"] {
        assert!(listed.contains(part), "{part} in {listed}");
    }
    let told = said(&world, &handle, &id, "/undo").await;
    assert!(told.contains("~ f"), "{told}");
    assert_eq!(file(&world, "f").as_deref(), Some("2"));
    let point = handle.points(&id).await.unwrap()[1].id.to_string();
    let end = point.chars().skip(point.len() - 6).collect::<String>();
    let told = said(&world, &handle, &id, &format!("/rewind {end}")).await;
    assert!(told.contains("messages less") || told.contains("message less"), "{told}");
    assert_eq!(file(&world, "f").as_deref(), Some("1"));
    world.model.push(Script::Say("Here."));
    turn(&handle, &id, "what now?").await;
    let sent = format!("{:?}", world.model.requests.lock().unwrap().last().unwrap().messages);
    assert!(sent.contains("write one") && !sent.contains("write two"), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn undo_leaves_what_others_changed_unless_forced() {
    let world = with_files();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("touch", "f=1")]));
    world.model.push(Script::Say("Written."));
    turn(&handle, &id, "write").await;
    around(&world).files.lock().unwrap().insert("f".into(), "mine".into());
    let told = said(&world, &handle, &id, "/undo").await;
    assert!(told.contains("Left as it is") && told.contains("--force"), "{told}");
    assert_eq!(file(&world, "f").as_deref(), Some("mine"));
}

/// A command that waits while the files of the turn before are captured undoes that turn.
#[tokio::test(start_paused = true)]
async fn an_undo_right_after_a_turn_waits_for_the_capture_of_it() {
    let world = with_files();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("touch", "f=1")]));
    world.model.push(Script::Say("Written."));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("write")).await.unwrap();
    handle.prompt(&id, Prompt::text("/undo")).await.unwrap();
    until_done(&mut viewer).await;
    let (done, _) = until_done(&mut viewer).await;
    assert!(done.result.text.contains("- f"), "{}", done.result.text);
    assert_eq!(file(&world, "f"), None);
}

/// Going back and the end of its command are one commit, so that no crash repeats it.
#[tokio::test(start_paused = true)]
async fn going_back_by_command_ends_in_the_same_commit() {
    let world = with_files();
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Call(vec![("touch", "f=1")]));
    world.model.push(Script::Say("Written."));
    turn(&handle, &id, "write").await;
    let point = handle.points(&id).await.unwrap()[0].id.clone();
    let before = world.disk.appends();
    said(&world, &handle, &id, &format!("/rewind {point}")).await;
    let made = world.disk.appends() - before;
    assert!(made <= 2, "the prompt, then everything that came of it: {made} appends");
    let rows = world.disk.rows(&id);
    let kinds: Vec<EventKind> = rows.iter().rev().take(3).map(|row| row.kind).collect();
    assert_eq!(kinds, [EventKind::PromptFinished, EventKind::Done, EventKind::Rewound]);
    let text =
        rows.iter().rev().find_map(|row| match EventBody::decode(row.kind, &row.body).unwrap() {
            EventBody::Done(done) => Some(done.result.text),
            _ => None,
        });
    assert!(text.unwrap().contains("less"), "what it says is in the log");
}
