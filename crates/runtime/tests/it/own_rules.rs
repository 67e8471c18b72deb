//! Rules and words that are part of a session, and the policy above all of them.

use std::time::Duration;

use driver_api::Store;
use policy::{Layer, LayerName, Policy};
use protocol::event::{DeniedBy, SessionEnd};
use protocol::{EventBody, Mode, RefusalCode, SessionId};
use runtime_api::{AgentSettings, CreateSession, Error, ForkPoint, Handle, Prompt, PromptPart};

use crate::house::*;

fn rules(rules: &[&str]) -> Vec<String> {
    rules.iter().map(|rule| (*rule).to_owned()).collect()
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> (RefusalCode, String) {
    match answer {
        Err(Error::Refusal(refusal)) => (refusal.code, refusal.message),
        other => panic!("a refusal is expected: {other:?}"),
    }
}

/// Lets the model touch something and tells whether it could.
async fn may_touch(world: &World, handle: &Handle, id: &SessionId) -> bool {
    world.model.push(Script::Call(vec![("touch", "x")]));
    world.model.push(Script::Say("Well."));
    let before = world.effect_count("x");
    let (_, events) = turn(handle, id, "touch it").await;
    let by = events.iter().find_map(|body| match body {
        EventBody::ToolDenied(denied) => Some(denied.by),
        _ => None,
    });
    assert!(by.is_none_or(|by| by == DeniedBy::Rule || by == DeniedBy::Nobody), "{by:?}");
    world.effect_count("x") > before
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_cannot_be_read_is_named_before_anything_is_created() {
    let world = World::default();
    let handle = world.process();
    let new = || new_session(AgentSettings::default());
    for (wanted, start) in [
        (CreateSession { allow: rules(&["touch", "look", "run_shell("]), ..new() }, "allow[2]: "),
        (CreateSession { deny: rules(&[""]), ..new() }, "deny[0]: "),
        (CreateSession { deny: vec!["touch".to_owned(); 201], ..new() }, "deny: 201 rules"),
        (
            CreateSession { append_system_prompt: Some("x".repeat(100_001)), ..new() },
            "append_system_prompt: it has 100001",
        ),
    ] {
        let (code, message) = refusal(handle.create(wanted).await);
        assert_eq!(code, RefusalCode::Invalid);
        assert!(message.starts_with(start), "{message}");
    }
    assert!(world.disk.sessions().is_empty() && handle.opened().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn deny_rules_of_a_session_hold_wherever_it_is_opened() {
    let world = World::default();
    let handle = world.process();
    let loose = || AgentSettings { allow: rules(&["touch"]), ..AgentSettings::default() };
    let new = CreateSession { deny: rules(&["touch"]), ..new_session(loose()) };
    let id = handle.create(new).await.unwrap().id;
    assert!(!may_touch(&world, &handle, &id).await);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!may_touch(&world, &handle, &id).await, "after it slept");
    let fork = handle.fork(&id, ForkPoint::End).await.unwrap().id;
    let exported = handle.export(&id).await.unwrap();
    let imported = handle.import(exported).await.unwrap().id;
    handle.shutdown().await;
    let handle = world.process();
    for (copy, what) in [(id, "after a restart"), (fork, "a copy"), (imported, "an import")] {
        handle.open(&copy, loose()).await.unwrap();
        assert!(!may_touch(&world, &handle, &copy).await, "{what}");
        // Opened once more, with other flags.
        handle.open(&copy, loose()).await.unwrap();
        assert!(!may_touch(&world, &handle, &copy).await, "{what}, opened again");
    }
}

#[tokio::test(start_paused = true)]
async fn allow_rules_of_a_session_hold_wherever_it_is_opened_but_not_in_an_import() {
    let world = World::default();
    let handle = world.process();
    let new = CreateSession {
        mode: Some(Mode::Ask),
        allow: rules(&["touch"]),
        append_system_prompt: Some("Be a parrot.".to_owned()),
        ..new_session(AgentSettings::default())
    };
    let id = handle.create(new).await.unwrap().id;
    assert!(may_touch(&world, &handle, &id).await);
    let fork = handle.fork(&id, ForkPoint::End).await.unwrap().id;
    let imported = handle.import(handle.export(&id).await.unwrap()).await.unwrap().id;
    handle.shutdown().await;
    let handle = world.process_in(Mode::Ask);
    for (copy, may) in [(&id, true), (&fork, true), (&imported, false)] {
        handle.open(copy, AgentSettings::default()).await.unwrap();
        assert_eq!(may_touch(&world, &handle, copy).await, may);
    }
    let start = &world.disk.rows(&imported)[0].body;
    assert!(!start.contains("parrot") && !start.contains("allow"), "{start}");
}

#[tokio::test(start_paused = true)]
async fn an_import_whose_deny_rules_are_not_understood_is_refused() {
    let world = World::default();
    let handle = world.process();
    let new = CreateSession { deny: rules(&["touch"]), ..new_session(AgentSettings::default()) };
    let id = handle.create(new).await.unwrap().id;
    let mut exported = handle.export(&id).await.unwrap();
    exported.rows[0].body = exported.rows[0].body.replace("[\"touch\"]", "[\"touch(\"]");
    let (code, message) = refusal(handle.import(exported).await);
    assert_eq!(code, RefusalCode::Invalid);
    assert!(message.starts_with("log: deny[0]: "), "{message}");
}

#[tokio::test(start_paused = true)]
async fn the_system_prompt_has_the_sessions_words_before_the_agents() {
    let world = World::default();
    let handle = world.process();
    let agent = |words: &str| AgentSettings {
        append_system_prompt: Some(words.to_owned()),
        ..AgentSettings::default()
    };
    let own = Some("Be a parrot.".to_owned());
    let new = CreateSession { append_system_prompt: own, ..new_session(agent("Be brief.")) };
    let id = handle.create(new).await.unwrap().id;
    handle.shutdown().await;
    // Its words are in its log: whoever opens it says them.
    let handle = world.process();
    handle.open(&id, agent("Be kind.")).await.unwrap();
    world.model.push(Script::Say("Kraa."));
    turn(&handle, &id, "hi").await;
    let system = world.model.requests.lock().unwrap()[0].system.to_string();
    let (own, agents) = (system.find("Be a parrot.").unwrap(), system.find("Be kind.").unwrap());
    assert!(own < agents && !system.contains("Be brief."), "{system}");
}

#[tokio::test(start_paused = true)]
async fn a_newer_policy_counts_from_the_next_turn_on_and_for_who_changes_the_mode() {
    let world = World::default();
    let (handle, policies) = world.process_with_policies();
    let old = session(&handle).await;
    let mut layer = Layer::new(LayerName::Remote);
    layer.deny = vec!["touch".parse().unwrap()];
    layer.models = Some(vec!["fake/*".to_owned()]);
    policies.replace(Policy::default().tighten(layer));
    // Somebody watches, so that the session never sleeps.
    let _viewer = watch(&handle, &old).await;
    world.model.push(Script::Call(vec![("touch", "x")]));
    world.model.push(Script::Say("Well."));
    turn(&handle, &old, "touch it").await;
    assert_eq!(world.effect_count("x"), 0, "a turn that begins has the newest");
    let new = session(&handle).await;
    let (_, events) = {
        world.model.push(Script::Call(vec![("touch", "y")]));
        world.model.push(Script::Say("Well."));
        turn(&handle, &new, "touch it").await
    };
    let is_denied = |body: &EventBody| matches!(body, EventBody::ToolDenied(_));
    assert!(events.iter().any(is_denied) && world.effect_count("y") == 0);
    assert!(policies.current().check_model("other/one").is_err());
    handle.close(&old, SessionEnd::Closed).await.unwrap();
    handle.open(&old, AgentSettings::default()).await.unwrap();
    world.model.push(Script::Call(vec![("touch", "z")]));
    world.model.push(Script::Say("Well."));
    turn(&handle, &old, "touch it").await;
    assert_eq!(world.effect_count("z"), 0, "opened again it has the newest");
}

#[tokio::test(start_paused = true)]
async fn a_running_turn_keeps_its_policy_and_prompts_that_wait_get_the_newest() {
    let world = World::default();
    let (handle, policies) = world.process_with_policies();
    let id = session(&handle).await;
    let mut viewer = watch(&handle, &id).await;
    world.model.push(Script::Call(vec![("wait", "slow"), ("touch", "x")]));
    for reply in ["stopped", "denied"] {
        world.model.push(Script::Call(vec![("touch", reply)]));
        world.model.push(Script::Say("Well."));
    }
    handle.prompt(&id, Prompt::text("go")).await.unwrap();
    handle.prompt(&id, Prompt::text("then")).await.unwrap();
    while world.effect_count("slow") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut layer = Layer::new(LayerName::Remote);
    layer.deny = vec!["touch".parse().unwrap()];
    layer.models = Some(vec!["fake/*".to_owned()]);
    policies.replace(Policy::default().tighten(layer));
    assert!(handle.set_model(&id, "fake/model").await.is_ok(), "the turn has no such rule");
    handle.interrupt(&id, runtime_api::Interrupt::Running).await.unwrap();
    until_done(&mut viewer).await;
    let (_, events) = until_done(&mut viewer).await;
    assert_eq!(world.effect_count("x"), 1, "the turn that ran could");
    assert!(events.iter().any(|body| matches!(body, EventBody::ToolDenied(_))));
    assert_eq!(world.effect_count("stopped"), 0, "the prompt that waited cannot");
}

fn file(path: &str) -> PromptPart {
    PromptPart::File(path.to_owned())
}

fn prompt(parts: Vec<PromptPart>) -> Prompt {
    let mut all = vec![PromptPart::Text("look".to_owned())];
    all.extend(parts);
    Prompt { parts: all, ..Prompt::default() }
}

#[tokio::test(start_paused = true)]
async fn attached_files_are_read_in_the_workspace() {
    let world = World::default();
    world.around.put("/w/notes/a.txt", b"quinces\n");
    world.around.put("/w/p", b"\x89PNG\r\n\x1a\nrest");
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Say("Seen."));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, prompt(vec![file("notes/a.txt"), file("/w/p")])).await.unwrap();
    until_done(&mut viewer).await;
    let messages = handle.messages(&id, Default::default(), 1).await.unwrap().messages;
    let content = format!("{:?}", messages[0].content);
    assert!(content.contains(r#"<file path=\"notes/a.txt\">\nquinces\n</file>"#), "{content}");
    assert!(content.contains("image/png"), "{content}");
}

#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_attached_are_named_and_nothing_is_recorded() {
    let world = World::default();
    world.around.put("/w/.env", b"KEY=1");
    world.around.put("/w/binary", b"a\0b");
    world.around.put("/w/large", &vec![b'a'; (1 << 20) + 1]);
    world.around.put("/etc/passwd", b"root");
    let handle = world.process();
    let deny = rules(&["read_file(**/.env)"]);
    let new = CreateSession { deny, ..new_session(AgentSettings::default()) };
    let id = handle.create(new).await.unwrap().id;
    let before = world.disk.rows(&id).len();
    for (path, why) in [
        ("missing", "does not exist"),
        ("/etc/passwd", "outside the folders of the session"),
        ("../etc/passwd", "outside the folders of the session"),
        (".env", "may not be read"),
        ("/w", "is a folder"),
        ("binary", "neither a text"),
        ("large", "a text may have"),
        ("", "empty"),
    ] {
        let image = protocol::Image { mime_type: "image/png".into(), data: "AA==".into() };
        let parts = vec![PromptPart::Image(image), file(path)];
        let (code, message) = refusal(handle.prompt(&id, prompt(parts)).await);
        assert_eq!(code, RefusalCode::Invalid);
        assert!(message.starts_with("attachments[1].path: "), "{message}");
        assert!(message.contains(why), "{path}: {message}");
    }
    let many = vec![file("missing"); 21];
    let (_, message) = refusal(handle.prompt(&id, prompt(many)).await);
    assert_eq!(message, "attachments: 21 are more than 20");
    // Each may be attached, all together are too much.
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    image.resize(9 << 20, 0);
    world.around.put("/w/image", &image);
    let (code, message) = refusal(handle.prompt(&id, prompt(vec![file("image"); 3])).await);
    assert_eq!(code, RefusalCode::TooLarge);
    assert!(message.contains("the limit is"), "{message}");
    assert_eq!(world.disk.rows(&id).len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_with_files_is_not_overtaken_and_holds_nobody_else_up() {
    let world = World::default();
    world.around.put("/w/slow", b"slow words");
    *world.around.read_ms.lock().unwrap() = 5_000;
    let handle = world.process();
    let id = session(&handle).await;
    world.model.push(Script::Stall("one"));
    let first = handle.prompt(&id, prompt(vec![file("slow")]));
    let second = handle.prompt(&id, Prompt::text("after it"));
    let begun = tokio::time::Instant::now();
    let asked = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        handle.set_mode(&id, Mode::Ask).await.unwrap();
        begun.elapsed()
    };
    let (first, second, asked) = tokio::join!(first, second, asked);
    assert!(asked < Duration::from_secs(1), "{asked:?}");
    assert_eq!((first.unwrap().position, second.unwrap().position), (0, 1));
    *world.around.read_ms.lock().unwrap() = 60_000;
    let (_, message) = refusal(handle.prompt(&id, prompt(vec![file("slow")])).await);
    assert!(message.contains("could not be read within"), "{message}");
    let kept = world.disk.process().get(&id).await.unwrap();
    assert_eq!(kept.head.mode, Mode::Ask);
}

#[tokio::test(start_paused = true)]
async fn the_steps_that_a_session_was_created_with_hold_wherever_it_is_opened() {
    let world = World::default();
    let handle = world.process();
    let wrong = CreateSession { max_turns: Some(201), ..new_session(AgentSettings::default()) };
    let refused = refusal(handle.create(wrong).await);
    assert!(refused.1.starts_with("max_turns: "), "{refused:?}");
    let new = CreateSession { max_turns: Some(2), ..new_session(AgentSettings::default()) };
    let id = handle.create(new).await.unwrap().id;
    handle.shutdown().await;
    let handle = world.process();
    handle.open(&id, AgentSettings::default()).await.unwrap();
    let steps = async |prompt: Prompt| {
        for number in ["1", "2", "3", "4"] {
            world.model.push(Script::Call(vec![("look", number)]));
        }
        let mut viewer = watch(&handle, &id).await;
        handle.prompt(&id, prompt).await.unwrap();
        let (done, _) = until_done(&mut viewer).await;
        world.model.script.lock().unwrap().clear();
        done.result.turns
    };
    assert_eq!(steps(Prompt::text("go")).await, 2);
    assert_eq!(steps(Prompt { max_turns: Some(3), ..Prompt::text("go") }).await, 3, "its own");
    let imported = handle.import(handle.export(&id).await.unwrap()).await.unwrap().id;
    let start = &world.disk.rows(&imported)[0].body;
    assert!(!start.contains("maxTurns"), "what another store allows counts for nothing: {start}");
}
