//! Compaction: C1 to C6, H2, H3 and V3 over it, and sessions that are compacted, forked and
//! rewound again and again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use driver_api::{HookVote, ModelError, ModelErrorKind, ModelInfo, ModelRequest, Moment};
use protocol::event::{Answer, Compacted, RewindScope};
use protocol::{
    Block, EventBody, EventKind, Mode, RequestId, SessionId, Signed, StopReason, TurnEnd, Wire,
};
use runtime_api::{
    AgentSettings, Allowance, CompactionSettings, ForkPoint, GoBack, Handle, Interrupt,
    MessagesAfter, Prompt, SessionInfo,
};
use serde_json::Map;
use testkit::memory_store::Crash;

use crate::fakes::vote;
use crate::house::{Script, World, session, session_with, tokens_of, turn, until_done, watch};

/// The window of the model of these tests, in tokens.
const WINDOW: u64 = 20_000;

/// A text that lives as long as the tests, as scripts want it.
fn long(name: &str, bytes: usize) -> &'static str {
    let mut text = format!("{name} ");
    while text.len() < bytes {
        text.push_str("words of no weight ");
    }
    text.truncate(bytes);
    Box::leak(text.into_boxed_str())
}

/// A world whose model has a window and counts tokens.
fn world() -> World {
    world_with(Some(WINDOW))
}

fn world_with(window: Option<u64>) -> World {
    let world = World::default();
    let info = world.model.known();
    let info = ModelInfo { context_window: window, max_output: Some(4_000), ..info };
    *world.model.info.lock().unwrap() = Some(info);
    world.model.counts.store(true, Ordering::Relaxed);
    world
}

impl World {
    fn summary(&self, script: Script) {
        self.model.summaries.lock().unwrap().push_back(script);
    }

    fn all_requests(&self) -> Vec<ModelRequest> {
        self.model.requests.lock().unwrap().clone()
    }

    /// Requests for a summary.
    fn summaries(&self) -> Vec<ModelRequest> {
        self.all_requests().into_iter().filter(|request| request.tools.is_empty()).collect()
    }

    /// Requests of steps.
    fn steps(&self) -> Vec<ModelRequest> {
        self.all_requests().into_iter().filter(|request| !request.tools.is_empty()).collect()
    }

    fn log(&self, id: &SessionId) -> Vec<EventBody> {
        let rows = self.disk.rows(id);
        rows.iter().map(|row| EventBody::decode(row.kind, &row.body).unwrap()).collect()
    }

    fn compactions(&self, id: &SessionId) -> Vec<Compacted> {
        let compacted = |body| match body {
            EventBody::Compacted(compacted) => Some(compacted),
            _ => None,
        };
        self.log(id).into_iter().filter_map(compacted).collect()
    }
}

fn sent(request: &ModelRequest) -> String {
    let messages: Vec<_> = request.messages.iter().map(|message| &**message).collect();
    serde_json::to_string(&messages).unwrap()
}

fn count(log: &[EventBody], kind: EventKind) -> usize {
    log.iter().filter(|body| body.kind() == kind).count()
}

/// Calls whose arguments and results have so many bytes together.
fn calls(world: &World, names: std::ops::Range<usize>, bytes: usize) {
    for name in names {
        let effect = long(&format!("call-{name}"), bytes / 2);
        world.model.push(Script::Call(vec![("touch", effect)]));
    }
}

/// Leads a session to about 70 % of its window, in a turn that is over.
async fn filled(world: &World, handle: &Handle) -> SessionId {
    let id = session(handle).await;
    fill(world, handle, &id).await;
    id
}

async fn fill(world: &World, handle: &Handle, id: &SessionId) {
    calls(world, 0..7, 8_000);
    world.model.push(Script::Say("All looked at."));
    let (done, _) = turn(handle, id, "GOAL: never touch the vault").await;
    assert_eq!(done.result.reason, TurnEnd::Completed, "{:?}", done.result);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_near_the_window_is_summarised_before_the_next_call() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    assert!(world.compactions(&id).is_empty(), "70 % is not near");
    world.summary(Script::Say("1. Goals: look at everything."));
    calls(&world, 10..12, 8_000);
    world.model.push(Script::Say("Done."));
    let (done, events) = turn(&handle, &id, "and two more, please").await;
    assert_eq!((done.result.reason, done.result.turns), (TurnEnd::Completed, 3));
    let [compacted] = &world.compactions(&id)[..] else { panic!("one compaction") };
    assert!(compacted.automatic && !compacted.mechanical);
    assert!(compacted.before >= WINDOW * 80 / 100, "{compacted:?}");
    assert!(compacted.after < WINDOW * 60 / 100, "{compacted:?}");
    let [request] = &world.summaries()[..] else { panic!("one request") };
    assert!(request.max_output.is_some_and(|most| most <= 8_192));
    assert!(sent(request).contains("[call of touch]"), "the record is plain text");
    let last = sent(world.steps().last().unwrap());
    assert!(last.contains("1. Goals: look at everything."));
    assert!(!last.contains("call-0 ") && last.contains("call-11 "), "the tail stays");
    // Its tokens count, under their own purpose.
    let usage = events.iter().find_map(|body| match body {
        EventBody::Usage(usage) if usage.purpose.is_some() => Some(usage.clone()),
        _ => None,
    });
    let usage = usage.unwrap();
    assert_eq!(usage.purpose.as_deref(), Some("compaction"));
    assert!(done.result.usage.input_tokens > usage.usage.input_tokens);
    // What was estimated is about what the provider counts next.
    let counted = tokens_of(&world.steps()[world.steps().len() - 1]);
    assert!(counted < compacted.after + 3_000, "{counted} after {compacted:?}");
}

/// C1: two compactions in a row that free next to nothing end the turn, and nothing more is spent.
#[tokio::test(start_paused = true)]
async fn c1_compactions_that_free_nothing_end_the_turn() {
    let world = world();
    let handle = world.process();
    let id = session(&handle).await;
    calls(&world, 0..40, 4_800);
    for _ in 0..20 {
        world.summary(Script::Say(long("a summary as long as what it stands for", 20_000)));
    }
    let prompt = long("a prompt that fills most of the window", 54_000);
    let (done, _) = turn(&handle, &id, prompt).await;
    assert_eq!(done.result.reason, TurnEnd::Error);
    assert_eq!(done.result.code.as_deref(), Some("compaction_stuck"), "{:?}", done.result);
    let made = world.compactions(&id);
    let freed = |it: &Compacted| (it.before - it.after) * 100 / it.before;
    assert!(made.len() >= 2 && made.iter().rev().take(2).all(|it| freed(it) < 5), "{made:?}");
    assert!(made.iter().all(|it| it.after < it.before), "none makes it longer: {made:?}");
    let rows = world.disk.rows(&id);
    let last = rows.iter().rposition(|row| row.kind == EventKind::Compacted).unwrap();
    let spent = rows[last..].iter().any(|row| row.kind == EventKind::Usage);
    assert!(!spent, "nothing is spent after the second");
}

/// C2: instructions and tools that alone exceed the window are an error before any call; what
/// might fit is not refused.
#[tokio::test(start_paused = true)]
async fn c2_a_fixed_part_beyond_the_window_is_an_error_before_any_call() {
    let world = world();
    let handle = world.process();
    let appended = |bytes| AgentSettings {
        append_system_prompt: Some(long("rules", bytes).to_owned()),
        ..AgentSettings::default()
    };
    let id = session_with(&handle, appended(200_000)).await;
    let (done, _) = turn(&handle, &id, "hi").await;
    assert_eq!(done.result.code.as_deref(), Some("context_overflow"));
    let message = done.result.message.unwrap();
    assert!(message.contains("instructions") && message.contains("larger window"), "{message}");
    assert_eq!(world.request_count(), 0);
    let id = session_with(&handle, appended(100_000)).await;
    world.model.push(Script::Say("It fits after all."));
    let (done, _) = turn(&handle, &id, "hi").await;
    assert_eq!(done.result.text, "It fits after all.");
    assert!(world.summaries().is_empty(), "there was nothing to summarise");
}

/// C2: a prompt that cannot fit is refused before anything is summarised for its sake.
#[tokio::test(start_paused = true)]
async fn c2_a_prompt_beyond_the_window_costs_nothing() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    let before = world.request_count();
    let (done, _) = turn(&handle, &id, long("much", 200_000)).await;
    assert_eq!(done.result.code.as_deref(), Some("context_overflow"));
    assert!(done.result.message.unwrap().contains("the prompt has"));
    assert_eq!(world.request_count(), before);
    world.model.push(Script::Say("Here."));
    let (done, _) = turn(&handle, &id, "still there?").await;
    assert_eq!(done.result.text, "Here.");
}

fn failing() -> Vec<(&'static str, Script)> {
    let fail = |kind| Script::Fail(ModelError::new(kind, "413: too large"));
    vec![
        ("overflow", fail(ModelErrorKind::ContextOverflow)),
        ("rejected", fail(ModelErrorKind::Rejected)),
        ("key", fail(ModelErrorKind::Unauthorized)),
        ("empty", Script::Whole(vec![Block::text(" ")], StopReason::EndTurn)),
        ("refusal", Script::Whole(vec![Block::text("I will not.")], StopReason::Refusal)),
        ("stall", Script::Stall("half of a ")),
        ("panic", Script::Panic),
    ]
}

/// C3: whatever becomes of the request for a summary, the session goes on, and the request itself
/// is bounded.
#[tokio::test(start_paused = true)]
async fn c3_a_summary_that_nobody_writes_leaves_the_session_usable() {
    for (name, script) in failing() {
        let world = world();
        let handle = world.process();
        let id = filled(&world, &handle).await;
        world.summary(script);
        calls(&world, 10..13, 8_000);
        world.model.push(Script::Say("Done."));
        let (done, events) = turn(&handle, &id, "three more").await;
        assert_eq!(done.result.text, "Done.", "{name}: {:?}", done.result);
        let made = world.compactions(&id);
        assert!(made.iter().any(|it| it.mechanical), "{name}: {made:?}");
        assert!(made[0].summary.contains("newest calls"), "{name}: {}", made[0].summary);
        let told = events.iter().any(|body| {
            matches!(body, EventBody::Notice(notice)
                if notice.code.as_deref() == Some("summary_mechanical"))
        });
        assert!(told, "{name}");
        world.model.push(Script::Say("Still here."));
        let (done, _) = turn(&handle, &id, "and now?").await;
        assert_eq!(done.result.text, "Still here.", "{name}");
    }
}

/// C3: a stream that drops is asked for again for a while, then done without.
#[tokio::test(start_paused = true)]
async fn c3_a_dropped_stream_is_tried_again_for_half_a_minute() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    for _ in 0..3 {
        let error = ModelError::new(ModelErrorKind::Network, "the stream ended early");
        world.summary(Script::Fail(error));
    }
    world.summary(Script::Say("the fourth time"));
    calls(&world, 10..12, 8_000);
    let began = tokio::time::Instant::now();
    turn(&handle, &id, "two more").await;
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    let [compacted] = &world.compactions(&id)[..] else { panic!("one compaction") };
    assert!(compacted.summary.contains("the fourth time") && !compacted.mechanical);
}

#[tokio::test(start_paused = true)]
async fn c3_the_request_for_a_summary_has_at_most_half_of_the_window() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    for round in 0..6 {
        calls(&world, 10 * round..10 * round + 9, 7_000);
        world.model.push(Script::Say(long("a long answer", 6_000)));
        let (done, _) = turn(&handle, &id, long("a long prompt", 9_000)).await;
        assert_eq!(done.result.reason, TurnEnd::Completed, "{:?}", done.result);
    }
    let requests = world.summaries();
    assert!(requests.len() > 3, "{}", requests.len());
    for request in requests {
        assert!(tokens_of(&request) <= WINDOW / 2, "{}", tokens_of(&request));
    }
    for request in world.steps() {
        assert!(tokens_of(&request) <= WINDOW, "{}", tokens_of(&request));
    }
}

/// C4: rules, the goal and the last words of the user survive word for word.
#[tokio::test(start_paused = true)]
async fn c4_rules_goal_and_last_words_survive_word_for_word() {
    let world = world();
    let handle = world.process();
    let agent = AgentSettings {
        append_system_prompt: Some("PROJECT RULE: tabs, never spaces.".into()),
        ..AgentSettings::default()
    };
    let id = session_with(&handle, agent).await;
    fill(&world, &handle, &id).await;
    world.summary(Script::Say("nothing of use"));
    calls(&world, 10..20, 8_000);
    world.model.push(Script::Say("Done."));
    let words = "LAST WORDS: \"exactly\" these,\n  with this indent — and no others.";
    let (done, _) = turn(&handle, &id, words).await;
    assert_eq!(done.result.text, "Done.");
    let compacted = world.compactions(&id).pop().unwrap();
    assert!(compacted.kept.is_some(), "the running prompt lies before the border");
    let last = world.steps().pop().unwrap();
    assert!(last.system.contains("PROJECT RULE: tabs, never spaces."));
    let first = &last.messages[0].content;
    assert!(first.iter().any(|block| *block == Block::text(words)), "{first:?}");
    assert!(sent(&last).contains("GOAL: never touch the vault"));
}

/// C4: nothing is summarised while somebody is asked something.
#[tokio::test(start_paused = true)]
async fn c4_nothing_is_summarised_while_an_interaction_is_open() {
    let world = world();
    let handle = world.process_in(Mode::Ask);
    let agent = AgentSettings { is_attended: true, ..AgentSettings::default() };
    let id = session_with(&handle, agent).await;
    world.model.push(Script::Say(long("an answer", 30_000)));
    turn(&handle, &id, "talk").await;
    world.model.push(Script::Call(vec![("touch", "x")]));
    world.model.push(Script::Say("Done."));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("touch it")).await.unwrap();
    let request: RequestId = loop {
        if let EventBody::PermissionRequest(it) = &viewer.next_event().await.unwrap().body {
            break it.request_id.clone();
        }
    };
    let accepted = handle.prompt(&id, Prompt::text("/compact")).await.unwrap();
    assert_eq!(accepted.position, 1, "it waits its turn");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((world.compactions(&id).len(), world.summaries().len()), (0, 0));
    handle.answer(&id, &request, Answer::AllowOnce).await.unwrap();
    until_done(&mut viewer).await;
    let (done, _) = until_done(&mut viewer).await;
    assert!(done.result.text.contains("was summarised"), "{}", done.result.text);
    assert_eq!(world.compactions(&id).len(), 1);
}

/// C5: what is taken back is read as the same bytes as before.
#[tokio::test(start_paused = true)]
async fn c5_uncompact_restores_the_original_bytes() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    world.model.push(Script::Say("One."));
    turn(&handle, &id, "first").await;
    let before = world.steps().pop().unwrap();
    world.summary(Script::Say("the notes"));
    let (done, _) = turn(&handle, &id, "/compact the vault").await;
    assert_eq!((done.result.reason, done.result.turns), (TurnEnd::Completed, 0));
    assert!(world.summaries()[0].system.contains("to be kept: the vault"));
    world.model.push(Script::Say("Two."));
    turn(&handle, &id, "second").await;
    assert!(!sent(&world.steps().pop().unwrap()).contains("call-0 "));
    let (done, _) = turn(&handle, &id, "/uncompact").await;
    assert!(done.result.text.contains("original"), "{}", done.result.text);
    world.model.push(Script::Say("Three."));
    turn(&handle, &id, "third").await;
    let after = world.steps().pop().unwrap();
    let heads = |request: &ModelRequest, count: usize| {
        let messages: Vec<_> = request.messages[..count].iter().map(|it| &**it).collect();
        serde_json::to_string(&messages).unwrap()
    };
    let shared = before.messages.len();
    assert_eq!(heads(&after, shared), heads(&before, shared));
    assert_eq!((&after.system, &after.tools), (&before.system, &before.tools));
    // And over a restart.
    handle.shutdown().await;
    let handle = world.process();
    handle.open(&id, AgentSettings::default()).await.unwrap();
    world.model.push(Script::Say("Four."));
    turn(&handle, &id, "fourth").await;
    assert_eq!(heads(&world.steps().pop().unwrap(), shared), heads(&before, shared));
}

#[tokio::test(start_paused = true)]
async fn c5_uncompact_refuses_what_does_not_fit_or_is_not_there() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    let (done, _) = turn(&handle, &id, "/uncompact").await;
    assert!(done.result.text.contains("no summary stands"), "{}", done.result.text);
    turn(&handle, &id, "/compact").await;
    let info = ModelInfo { context_window: Some(9_000), ..world.model.known() };
    *world.model.info.lock().unwrap() = Some(info);
    let (done, _) = turn(&handle, &id, "/uncompact").await;
    assert!(done.result.text.contains("reads 9000"), "{}", done.result.text);
    assert_eq!(count(&world.log(&id), EventKind::CompactionUndone), 0);
}

/// C6: percentages are never above 100 and never nonsense.
#[tokio::test(start_paused = true)]
async fn c6_percentages_are_whole_and_at_most_100() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    let info = handle.info(&id).await.unwrap();
    let percent = info.context_percent().unwrap();
    assert!((60..=80).contains(&percent), "{percent}");
    turn(&handle, &id, "/compact").await;
    let info = handle.info(&id).await.unwrap();
    assert!(info.context_percent().unwrap() < percent);
    let of = |context_tokens, context_window| {
        SessionInfo { context_tokens, context_window, ..info.clone() }.context_percent()
    };
    assert_eq!(of(338, Some(200)), Some(100));
    assert_eq!(of(0, Some(200)), Some(0));
    assert_eq!(of(10, Some(0)), None);
    assert_eq!(of(10, None), None);
    assert_eq!(of(u64::MAX, Some(1)), Some(100));
    assert_eq!(of(u64::MAX, Some(u64::MAX)), Some(100));
}

fn thought(signature: &str) -> Block {
    let mut extra = Map::new();
    extra.insert("id".into(), "rs_1".into());
    let signed = Signed { wire: Wire::Anthropic, signature: signature.to_owned(), extra };
    Block::Thinking { text: "hm,\u{a0}\"so\"".into(), signed: Some(signed) }
}

/// H2: signed blocks stay the bytes that came over compaction, fork and rewind.
#[tokio::test(start_paused = true)]
async fn h2_signed_blocks_survive_compaction_fork_and_rewind_byte_for_byte() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    let signed = thought("c2lnbmVkCg==");
    let said = vec![signed.clone(), Block::text("Thought through.")];
    world.model.push(Script::Whole(said, StopReason::EndTurn));
    turn(&handle, &id, "think").await;
    turn(&handle, &id, "/compact").await;
    assert_eq!(world.compactions(&id).len(), 1);
    let has = |world: &World| {
        let request = world.steps().pop().unwrap();
        let bytes = serde_json::to_string(&signed).unwrap();
        sent(&request).contains(&bytes)
    };
    turn(&handle, &id, "after the compaction").await;
    assert!(has(&world), "compaction");
    let fork = handle.fork(&id, ForkPoint::End).await.unwrap().id;
    handle.open(&fork, AgentSettings::default()).await.unwrap();
    turn(&handle, &fork, "in the fork").await;
    assert!(has(&world), "fork");
    let point = handle.points(&fork).await.unwrap().pop().unwrap().id;
    handle.rewind(&fork, &point, RewindScope::Conversation, GoBack::default()).await.unwrap();
    turn(&handle, &fork, "after the rewind").await;
    assert!(has(&world) && !sent(&world.steps().pop().unwrap()).contains("in the fork"));
}

/// V3: compaction changes neither instructions nor tools by a byte.
#[tokio::test(start_paused = true)]
async fn v3_instructions_and_tools_stay_the_same_bytes_over_compactions() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    for round in 1..4 {
        calls(&world, 10 * round..10 * round + 5, 8_000);
        turn(&handle, &id, "on").await;
    }
    assert!(world.compactions(&id).len() >= 2);
    let steps = world.steps();
    assert!(steps.iter().all(|it| it.system == steps[0].system && it.tools == steps[0].tools));
    let key = |request: &ModelRequest| request.cache_key.clone();
    assert!(steps.iter().all(|it| key(it) == key(&steps[0])));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_window_is_learned_from_the_providers_refusal() {
    let world = world_with(None);
    let handle = world.process();
    let id = filled(&world, &handle).await;
    calls(&world, 10..20, 8_000);
    world.model.push(Script::Say("Much."));
    turn(&handle, &id, "much more").await;
    assert!(world.summaries().is_empty(), "nothing is known about the window");
    let too_long = || {
        let error = ModelError::new(ModelErrorKind::ContextOverflow, "413: prompt is too long");
        Script::Fail(error)
    };
    world.model.push(too_long());
    world.summary(Script::Say("the notes"));
    world.model.push(Script::Say("Now it fits."));
    let (done, _) = turn(&handle, &id, "go on").await;
    assert_eq!((done.result.text.as_str(), done.result.turns), ("Now it fits.", 1));
    assert_eq!(world.compactions(&id).len(), 1);
    // At most twice per turn: the third refusal is the turn's end.
    calls(&world, 30..40, 8_000);
    turn(&handle, &id, "fill it again").await;
    let before = world.summaries().len();
    for _ in 0..5 {
        world.model.push(too_long());
    }
    let (done, _) = turn(&handle, &id, "never fits").await;
    assert_eq!(done.result.code.as_deref(), Some("context_overflow"));
    assert!(world.summaries().len() - before <= 2, "{}", world.summaries().len() - before);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_summarised_by_itself_where_that_is_off() {
    let world = world();
    let handle = world.process();
    let compaction = CompactionSettings { is_automatic: false, at_percent: 80 };
    let id = session_with(&handle, AgentSettings { compaction, ..AgentSettings::default() }).await;
    fill(&world, &handle, &id).await;
    calls(&world, 10..12, 8_000);
    world.model.push(Script::Say("Done."));
    let (done, _) = turn(&handle, &id, "two more").await;
    assert_eq!(done.result.text, "Done.");
    let error = ModelError::new(ModelErrorKind::ContextOverflow, "413: prompt is too long");
    world.model.push(Script::Fail(error));
    let (done, _) = turn(&handle, &id, "more").await;
    assert_eq!(done.result.code.as_deref(), Some("context_overflow"));
    assert!(world.summaries().is_empty() && world.compactions(&id).is_empty());
    // By hand it works all the same.
    turn(&handle, &id, "/compact").await;
    assert_eq!(world.compactions(&id).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_hangs_a_summary_up_and_changes_nothing() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    for prompt in ["two more", "/compact"] {
        world.model.script.lock().unwrap().clear();
        calls(&world, 10..12, 8_000);
        world.summary(Script::Stall("half of a "));
        let mut viewer = watch(&handle, &id).await;
        let before = world.summaries().len();
        handle.prompt(&id, Prompt::text(prompt)).await.unwrap();
        while world.summaries().len() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let began = tokio::time::Instant::now();
        assert!(handle.interrupt(&id, Interrupt::Running).await.unwrap());
        let (done, _) = until_done(&mut viewer).await;
        assert_eq!(done.result.reason, TurnEnd::Interrupted, "{prompt}");
        assert!(began.elapsed() < Duration::from_secs(1));
        assert!(world.compactions(&id).is_empty(), "{prompt}");
        assert!(!done.result.text.contains("half of a"), "{prompt}");
    }
    world.summary(Script::Say("the notes"));
    world.model.script.lock().unwrap().clear();
    world.model.push(Script::Say("Here."));
    let (done, _) = turn(&handle, &id, "still there?").await;
    assert_eq!(done.result.text, "Here.");
    assert_eq!(world.compactions(&id).len(), 1, "it is made then");
}

#[tokio::test(start_paused = true)]
async fn the_mailbox_is_open_while_a_summary_is_written() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    world.summary(Script::Stall("half of a "));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("/compact")).await.unwrap();
    assert_eq!(handle.prompt(&id, Prompt::text("next")).await.unwrap().position, 1);
    assert!(handle.info(&id).await.unwrap().context_tokens > 0);
    let busy = handle.undo(&id, GoBack::default()).await;
    assert!(busy.is_err(), "nobody goes back meanwhile");
    world.model.push(Script::Say("Next."));
    // It takes too long, and is put together without a model then.
    let (done, _) = until_done(&mut viewer).await;
    assert!(done.result.text.contains("without a model"), "{}", done.result.text);
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.text, "Next.");
}

#[tokio::test(start_paused = true)]
async fn hooks_may_forbid_a_summary_or_add_to_it() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    world.around.hook(Moment::PreCompact, vote(HookVote::Deny, "not on Sundays"));
    let mut added = driver_api::HookAnswer::default();
    added.context.push("KEEP THE TICKET NUMBER".into());
    world.around.hook(Moment::PreCompact, added);
    let (done, _) = turn(&handle, &id, "/compact the vault").await;
    assert!(done.result.text.contains("not on Sundays"), "{}", done.result.text);
    assert!(world.compactions(&id).is_empty() && world.summaries().is_empty());
    turn(&handle, &id, "/compact the vault").await;
    assert_eq!(world.compactions(&id).len(), 1);
    assert!(world.summaries()[0].system.contains("KEEP THE TICKET NUMBER"));
    let told = format!("{:?}", world.around.told_of(Moment::PreCompact));
    assert!(told.contains("the vault") && told.contains("automatic: false"), "{told}");
}

/// A hook that forbids is no reason for the turn to end while the request fits.
#[tokio::test(start_paused = true)]
async fn a_forbidden_summary_lets_the_turn_go_on_as_long_as_it_fits() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    world.around.hook(Moment::PreCompact, vote(HookVote::Deny, "never"));
    calls(&world, 10..12, 8_000);
    world.model.push(Script::Say("Done."));
    let (done, _) = turn(&handle, &id, "two more").await;
    assert_eq!(done.result.text, "Done.");
    assert!(world.compactions(&id).is_empty());
}

/// A summary is paid for from the budget.
#[tokio::test(start_paused = true)]
async fn a_summary_is_reserved_before_it_is_asked_for() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    let mut agent = AgentSettings::default();
    agent.limits.budget.turn = Allowance { usd: None, tokens: Some(2_000) };
    handle.open(&id, agent).await.unwrap();
    let (done, _) = turn(&handle, &id, "/compact").await;
    assert_eq!(done.result.reason, TurnEnd::Budget, "{:?}", done.result);
    assert!(world.summaries().is_empty() && world.compactions(&id).is_empty());
}

/// H3: the result of a call that was compacted away is recorded and never sent unpaired.
#[tokio::test(start_paused = true)]
async fn h3_results_of_compacted_and_rewound_calls_are_never_sent_unpaired() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    world.model.push(Script::Call(vec![("touch", "a"), ("wait", "b"), ("look", "c")]));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("wait")).await.unwrap();
    while world.effect_count("b") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    handle.interrupt(&id, Interrupt::Running).await.unwrap();
    until_done(&mut viewer).await;
    turn(&handle, &id, "/compact").await;
    let (done, _) = turn(&handle, &id, "go on").await;
    assert_eq!(done.result.reason, TurnEnd::Completed, "a strict provider reads it");
    let point = handle.points(&id).await.unwrap()[1].id.clone();
    handle.rewind(&id, &point, RewindScope::Conversation, GoBack::default()).await.unwrap();
    let (done, _) = turn(&handle, &id, "go on").await;
    assert_eq!(done.result.reason, TurnEnd::Completed, "a strict provider reads it");
    assert!(!sent(&world.steps().pop().unwrap()).contains("\"b\""));
}

/// A stream of numbers that a seed fixes.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Fifty compactions, forks and rewinds in any order: the strict provider reads it to the end.
#[tokio::test(start_paused = true)]
async fn fifty_compactions_forks_and_rewinds_still_satisfy_a_strict_provider() {
    fifty(1).await;
}

#[tokio::test(start_paused = true)]
async fn fifty_others_in_another_order_do_as_well() {
    fifty(2).await;
}

async fn fifty(seed: u64) {
    let world = world_with(Some(6_000));
    let mut handle = world.process();
    let mut id = session(&handle).await;
    let mut dice = Dice(seed);
    let (mut rounds, mut made) = (0, 0);
    while made < 50 {
        rounds += 1;
        assert!(rounds < 1_000, "seed {seed}: {made} compactions");
        match dice.below(12) {
            0 => id = handle.fork(&id, ForkPoint::End).await.unwrap().id,
            1 => {
                let points = handle.points(&id).await.unwrap();
                let at = usize::try_from(dice.below(4)).unwrap();
                if let Some(point) = points.iter().rev().filter(|it| !it.is_cut).nth(at) {
                    let (scope, how) = (RewindScope::Conversation, GoBack::default());
                    handle.rewind(&id, &point.id, scope, how).await.unwrap();
                }
            }
            2 => {
                turn(&handle, &id, "/uncompact").await;
            }
            3..=6 => {
                turn(&handle, &id, "/compact").await;
            }
            7 => {
                handle.shutdown().await;
                handle = world.process();
            }
            _ => talk(&world, &handle, &id, &mut dice, seed).await,
        }
        handle.open(&id, AgentSettings::default()).await.unwrap();
        let rows = world.disk.rows(&id);
        made = rows.iter().filter(|row| row.kind == EventKind::Compacted).count();
        world.model.script.lock().unwrap().clear();
    }
}

async fn talk(world: &World, handle: &Handle, id: &SessionId, dice: &mut Dice, seed: u64) {
    for _ in 0..dice.below(4) {
        let bytes = usize::try_from(200 + dice.below(1_500)).unwrap();
        let name = format!("{}", dice.below(1 << 30));
        let mut blocks = vec![thought(&name)];
        for index in 0..1 + dice.below(3) {
            blocks.push(Block::ToolUse {
                id: protocol::ToolCallId::new(if dice.below(9) == 0 { "again" } else { "" }),
                name: "touch".into(),
                input: serde_json::json!({"effect": format!("{name}{index}{}", "x".repeat(bytes))})
                    .as_object()
                    .cloned()
                    .unwrap(),
                malformed: None,
                signed: None,
            });
        }
        world.model.push(Script::Whole(blocks, StopReason::ToolUse));
    }
    let (done, _) = turn(handle, id, &format!("prompt {}", dice.below(1 << 30))).await;
    let is_fine = done.result.reason == TurnEnd::Completed
        || matches!(done.result.code.as_deref(), Some("compaction_stuck" | "context_overflow"));
    assert!(is_fine, "seed {seed}: {:?}", done.result);
}

/// H1 for compactions: death at every append of a turn that summarises.
#[test]
fn h1_death_at_every_append_of_a_turn_that_summarises() {
    for (crash, carries_on) in [(Crash::Lost, false), (Crash::Unanswered, true)] {
        for n in 1.. {
            let world = world();
            let id = life(async {
                let handle = world.process();
                let id = filled(&world, &handle).await;
                handle.shutdown().await;
                id
            });
            calls(&world, 10..13, 8_000);
            world.model.push(Script::Say("Done."));
            let before = world.disk.appends();
            world.disk.crash_at(before + n, crash);
            life(async {
                let handle = world.process();
                tokio::select! {
                    () = world.disk.crashed() => {}
                    () = async {
                        handle.open(&id, AgentSettings::default()).await.unwrap();
                        turn(&handle, &id, "three more").await;
                        turn(&handle, &id, "/compact").await;
                        turn(&handle, &id, "/uncompact").await;
                        handle.shutdown().await;
                    } => {}
                }
            });
            if !world.disk.has_crashed() {
                assert!(n > 8, "there are many appends, got {n}");
                break;
            }
            let label = format!("death at append {n}, {crash:?}");
            world.model.script.lock().unwrap().clear();
            life(async {
                let handle = world.process();
                let agent = AgentSettings { carries_on, ..AgentSettings::default() };
                handle.open(&id, agent).await.expect(&label);
                while handle.info(&id).await.unwrap().state != driver_api::SessionState::Idle {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                world.model.push(Script::Say("I see."));
                let (done, _) = turn(&handle, &id, "what happened?").await;
                assert_eq!(done.result.text, "I see.", "{label}: {:?}", done.result);
                handle.shutdown().await;
            });
            let log = world.log(&id);
            let (started, done) =
                (count(&log, EventKind::PromptStarted), count(&log, EventKind::Done));
            assert_eq!(started, done, "{label}: one terminal event per turn");
        }
    }
}

fn life<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}

/// A viewer sees the compaction as one event, and the transcript for people stays whole.
#[tokio::test(start_paused = true)]
async fn people_see_the_whole_conversation_after_a_compaction() {
    let world = world();
    let handle = world.process();
    let id = filled(&world, &handle).await;
    let before = handle.messages(&id, MessagesAfter::Start, 1_000).await.unwrap().messages.len();
    let (_, events) = turn(&handle, &id, "/compact").await;
    assert_eq!(count(&events, EventKind::Compacted), 1);
    let messages = handle.messages(&id, MessagesAfter::Start, 1_000).await.unwrap().messages;
    assert!(messages.len() >= before);
    let shown = format!("{messages:?}");
    assert!(shown.contains("call-0 "), "nothing is gone for people");
}
