//! Sessions in neurons: where they act, and what becomes of them when their neuron is gone.

use std::time::Duration;

use protocol::event::Answer;
use protocol::{EventBody, EventKind, NeuronId, RefusalCode, SessionId, TurnEnd};
use runtime_api::{
    AgentSettings, CreateSession, Error, ForkPoint, Handle, MessagesAfter, Prompt, PromptPart,
    SessionFilter, TakeUp,
};

use crate::house::*;

fn in_neuron(agent: AgentSettings) -> CreateSession {
    let neuron = Some(NeuronId::new("n1"));
    CreateSession { cwd: String::new(), neuron, ..new_session(agent) }
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> RefusalCode {
    match answer {
        Err(Error::Refusal(refusal)) => refusal.code,
        other => panic!("a refusal is expected: {other:?}"),
    }
}

async fn created(handle: &Handle) -> SessionId {
    handle.create(in_neuron(AgentSettings::default())).await.unwrap().id
}

#[tokio::test(start_paused = true)]
async fn a_session_acts_in_its_neuron_after_sleep_and_restart_too() {
    let world = World::default();
    world.around.neuron("n1", Some(true));
    let handle = world.process();
    let info = handle.create(in_neuron(AgentSettings::default())).await.unwrap();
    let (id, n1) = (info.id.clone(), Some(NeuronId::new("n1")));
    assert_eq!((info.cwd.as_str(), info.neuron), ("/inside", n1.clone()));
    world.model.push(Script::Say("hello"));
    let (done, _) = turn(&handle, &id, "hi").await;
    assert_eq!(done.result.reason, TurnEnd::Completed);
    let info = handle.info(&id).await.unwrap();
    assert_eq!((info.neuron, info.steps), (n1.clone(), 1));
    let system = world.model.requests.lock().unwrap()[0].system.to_string();
    assert!(system.contains("Folder: /inside"), "{system}");
    tokio::time::sleep(Duration::from_secs(120)).await;
    turn(&handle, &id, "again").await;
    handle.shutdown().await;
    let handle = world.process();
    let stored = handle.info(&id).await.unwrap();
    assert_eq!((stored.neuron, stored.steps), (n1.clone(), 2));
    let listed = handle.list(SessionFilter::default()).await.unwrap();
    assert_eq!((listed.len(), listed[0].neuron.clone()), (1, n1.clone()));
    handle.open(&id, AgentSettings::default()).await.unwrap();
    turn(&handle, &id, "and again").await;
    // A copy acts there too; an import acts where it is put.
    let fork = handle.fork(&id, ForkPoint::End).await.unwrap().id;
    assert_eq!(handle.info(&fork).await.unwrap().neuron, n1);
    let mut exported = handle.export(&id).await.unwrap();
    exported.info.cwd = "/w".to_owned();
    let imported = handle.import(exported).await.unwrap().id;
    assert_eq!(handle.info(&imported).await.unwrap().neuron, None);
    // The files of a neuron are not captured.
    assert_eq!(*world.around.captures.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_where_the_neuron_is_not_there() {
    let world = World::default();
    let without = world.process();
    let wanted = || in_neuron(AgentSettings::default());
    assert_eq!(refusal(without.create(wanted()).await), RefusalCode::NotSupported);
    world.around.neuron("n2", Some(true));
    let handle = world.process();
    assert_eq!(refusal(handle.create(wanted()).await), RefusalCode::NeuronNotFound);
    world.around.neuron("n1", Some(false));
    assert_eq!(refusal(handle.create(wanted()).await), RefusalCode::NeuronNotRunning);
    assert!(world.disk.sessions().is_empty() && handle.opened().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn prompts_are_refused_while_the_neuron_is_gone_and_nothing_else_is() {
    let world = World::default();
    world.around.neuron("n1", Some(true));
    let handle = world.process();
    let id = created(&handle).await;
    world.model.push(Script::Say("hello"));
    turn(&handle, &id, "hi").await;
    let rows = world.disk.rows(&id).len();
    let prompt = |text: &str| handle.prompt(&id, Prompt::text(text));
    // Awake and asleep, stopped and gone.
    for runs in [Some(false), None] {
        world.around.neuron("n1", runs);
        let expected = match runs {
            Some(_) => RefusalCode::NeuronNotRunning,
            None => RefusalCode::NeuronNotFound,
        };
        assert_eq!(refusal(prompt("more").await), expected, "awake");
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(refusal(prompt("more").await), expected, "asleep");
        drop(watch(&handle, &id).await);
        let page = handle.messages(&id, MessagesAfter::Start, 10).await.unwrap();
        assert_eq!(page.messages.len(), 2);
    }
    assert_eq!(world.disk.rows(&id).len(), rows, "nothing was recorded");
    // It is there again.
    world.around.neuron("n1", Some(true));
    world.model.push(Script::Say("welcome back"));
    let (done, _) = turn(&handle, &id, "more").await;
    assert_eq!(done.result.text, "welcome back");
    world.around.neuron("n1", None);
    handle.shutdown().await;
    let handle = world.process();
    assert_eq!(handle.list(SessionFilter::default()).await.unwrap().len(), 1);
    let opened = handle.open(&id, AgentSettings::default()).await.unwrap();
    assert!(opened.is_open);
    let refused = handle.prompt(&id, Prompt::text("more")).await;
    assert_eq!(refusal(refused), RefusalCode::NeuronNotFound);
    handle.remove(&id).await.unwrap();
    assert!(world.disk.sessions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_waited_fails_when_the_neuron_has_gone_meanwhile() {
    let world = World::default();
    world.around.neuron("n1", Some(true));
    let handle = world.process();
    let id = created(&handle).await;
    world.model.push(Script::Stall("thinking"));
    let mut viewer = watch(&handle, &id).await;
    handle.prompt(&id, Prompt::text("first")).await.unwrap();
    handle.prompt(&id, Prompt::text("second")).await.unwrap();
    world.around.neuron("n1", Some(false));
    handle.interrupt(&id, runtime_api::Interrupt::Running).await.unwrap();
    assert_eq!(until_done(&mut viewer).await.0.result.reason, TurnEnd::Interrupted);
    let (done, _) = until_done(&mut viewer).await;
    assert_eq!(done.result.reason, TurnEnd::Error);
    assert_eq!(done.result.code.as_deref(), Some("neuron_not_running"));
    assert_eq!(world.request_count(), 1, "no model was asked for it");
}

#[tokio::test(start_paused = true)]
async fn a_cut_turn_ends_where_its_neuron_is_gone() {
    let world = World::default();
    world.around.neuron("n1", Some(true));
    let owner = world.disk.process();
    let first = world.process_on(std::sync::Arc::clone(&owner) as _);
    let id = created(&first).await;
    world.model.push(Script::Call(vec![("wait", "a")]));
    first.prompt(&id, Prompt::text("go")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    owner.kill();
    drop(first);
    world.around.neuron("n1", None);
    let second = world.process();
    let agent = AgentSettings { carries_on: true, ..AgentSettings::default() };
    // It is in no folder of the machine, whatever its folder is called.
    let roots = vec!["/".to_owned()];
    let which = TakeUp { roots, agent: agent.clone(), limit: 10 };
    assert_eq!(second.take_up(which).await.unwrap(), []);
    second.open(&id, agent).await.unwrap();
    let rows = world.disk.rows(&id);
    let done = rows.iter().find(|row| row.kind == EventKind::Done).unwrap();
    assert!(done.body.contains("neuron_not_found"), "{}", done.body);
}

#[tokio::test(start_paused = true)]
async fn files_of_a_prompt_are_read_in_the_neuron_as_it_is_now() {
    let world = World::default();
    world.around.neuron("n1", Some(true));
    world.around.put("/inside/a.txt", b"from within");
    let handle = world.process();
    let id = created(&handle).await;
    world.model.push(Script::Say("read"));
    let mut viewer = watch(&handle, &id).await;
    let parts = vec![PromptPart::Text("look".into()), PromptPart::File("a.txt".into())];
    handle.prompt(&id, Prompt { parts, ..Prompt::default() }).await.unwrap();
    let (_, events) = until_done(&mut viewer).await;
    let said = events.iter().find_map(|body| match body {
        EventBody::PromptStarted(started) => Some(format!("{:?}", started.content)),
        _ => None,
    });
    assert!(said.unwrap().contains("from within"));
    assert!(*world.around.entered.lock().unwrap() >= 2, "it is entered for each prompt");
    // An answer needs no neuron.
    world.around.neuron("n1", None);
    let unknown = handle.answer(&id, &protocol::RequestId::new("x"), Answer::AllowOnce).await;
    assert_eq!(refusal(unknown), RefusalCode::RequestNotFound);
}
