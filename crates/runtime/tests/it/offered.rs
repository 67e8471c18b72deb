//! The tools that a session is offered: a choice, other names, tools that come and go.

use std::time::Duration;

use driver_api::Moment;
use policy::{Layer, LayerName, Policy};
use protocol::event::SessionStart;
use protocol::{Block, EventBody, EventKind, Mode, NeuronId, RefusalCode, Seq};
use runtime_api::{AgentSettings, CreateSession, Error};

use crate::house::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn with_tools(tools: &[&str]) -> CreateSession {
    CreateSession { tools: Some(names(tools)), ..new_session(AgentSettings::default()) }
}

/// The names of the tools that the newest request brings along.
fn offered(world: &World) -> Vec<String> {
    let requests = world.model.requests.lock().unwrap();
    requests.last().unwrap().tools.iter().map(|tool| tool.name.clone()).collect()
}

/// What the model read as the results of its newest calls.
fn told(world: &World) -> String {
    let requests = world.model.requests.lock().unwrap();
    let last = requests.last().unwrap().messages.last().cloned().unwrap();
    let results = last.content.iter().filter_map(|block| match block {
        Block::ToolResult { content, .. } => Some(format!("{content:?}")),
        _ => None,
    });
    results.collect()
}

fn recorded(world: &World, id: &protocol::SessionId) -> SessionStart {
    let row = world.disk.rows(id).remove(0);
    match EventBody::decode(row.kind, &row.body).unwrap() {
        EventBody::SessionStart(start) => start,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_choice_of_tools_is_offered_in_its_order_and_nothing_else_runs() {
    let world = World::default();
    let handle = world.process();
    let id = handle.create(with_tools(&["touch", "look"])).await.unwrap().id;
    assert_eq!(recorded(&world, &id).tools, ["touch", "look"]);
    world.model.push(Script::Call(vec![("same", "x"), ("look", "y")]));
    world.model.push(Script::Say("done"));
    turn(&handle, &id, "go").await;
    assert_eq!(offered(&world), ["touch", "look"]);
    assert!(told(&world).contains("there is no tool 'same'; the tools are touch, look"));
    assert_eq!((world.effect_count("x"), world.effect_count("y")), (0, 1));
    // Sleeping and a restart change nothing.
    tokio::time::sleep(Duration::from_secs(120)).await;
    turn(&handle, &id, "more").await;
    assert_eq!(offered(&world), ["touch", "look"]);
    handle.shutdown().await;
    let handle = world.process();
    handle.open(&id, AgentSettings::default()).await.unwrap();
    turn(&handle, &id, "more").await;
    assert_eq!(offered(&world), ["touch", "look"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_not_there_or_there_twice_is_named() {
    let world = World::default();
    let handle = world.process();
    for (tools, start) in [
        (&["look", "launch"][..], "tools[1]: no tool is named 'launch'; there are look, touch"),
        (&["look", "look"], "tools[1]: the tool 'look' is there already"),
        (&["bash", "run_shell"], "tools[1]: the tool 'run_shell' is there already"),
        (&["bash", "execute"], "tools[1]: the tool 'execute' is there already"),
    ] {
        match handle.create(with_tools(tools)).await {
            Err(Error::Refusal(refusal)) => {
                assert_eq!(refusal.code, RefusalCode::Invalid);
                assert!(refusal.message.starts_with(start), "{}", refusal.message);
            }
            other => panic!("{tools:?}: {other:?}"),
        }
    }
    assert!(world.disk.sessions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_offered_under_another_of_its_names_and_rules_and_hooks_know_both() {
    for (rule, is_denied) in [("run_shell", true), ("bash", true), ("read_file", false)] {
        let world = World::default();
        let layer = Layer { deny: vec![rule.parse().unwrap()], ..Layer::new(LayerName::User) };
        *world.around.policy.lock().unwrap() = Policy::default().tighten(layer);
        world.around.hook(Moment::PreToolUse, driver_api::HookAnswer::default());
        let handle = world.process_in(Mode::FullAuto);
        let id = handle.create(with_tools(&["bash"])).await.unwrap().id;
        // The model may well call it by the name that it knows it by.
        for name in ["bash", "run_shell"] {
            world.model.push(Script::Call(vec![(name, name)]));
            world.model.push(Script::Say("done"));
            let (_, events) = turn(&handle, &id, "go").await;
            assert_eq!(offered(&world), ["bash"]);
            assert_eq!(world.effect_count(name), usize::from(!is_denied), "{rule}");
            let named = events.iter().filter_map(|body| match body {
                EventBody::ToolCall(call) => Some(call.tool_name.as_str()),
                EventBody::ToolResult(result) => Some(result.tool_name.as_str()),
                EventBody::ToolDenied(denied) => Some(denied.tool_name.as_str()),
                _ => None,
            });
            assert_eq!(named.collect::<Vec<_>>(), ["bash", "bash"], "as it is offered");
        }
        let heard = world.around.told_of(Moment::PreToolUse);
        assert_eq!(heard.len(), if is_denied { 0 } else { 2 });
        for happening in heard {
            assert!(format!("{happening:?}").contains("tool: \"run_shell\""), "{happening:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tools_of_sources_come_on_top_are_recorded_and_found_again() {
    let world = World::default();
    *world.around.offers.lock().unwrap() = names(&["mcp__a__x", "mcp__a__y", "look", "no good"]);
    let handle = world.process();
    let id = handle.create(with_tools(&["touch"])).await.unwrap().id;
    let expected = ["touch", "mcp__a__x", "mcp__a__y"];
    assert_eq!(recorded(&world, &id).tools, expected);
    assert_eq!(*world.around.source_folders.lock().unwrap(), ["/w"]);
    world.model.push(Script::Call(vec![("mcp__a__x", "one")]));
    world.model.push(Script::Say("done"));
    turn(&handle, &id, "go").await;
    assert_eq!((offered(&world), world.effect_count("one")), (names(&expected), 1));
    // What comes later is for later sessions.
    *world.around.offers.lock().unwrap() = names(&["mcp__a__z", "mcp__a__x", "mcp__a__y"]);
    turn(&handle, &id, "more").await;
    assert_eq!(offered(&world), expected);
    // One that goes leaves the others in their places, and comes back to its own.
    *world.around.offers.lock().unwrap() = names(&["mcp__a__y"]);
    world.model.push(Script::Call(vec![("mcp__a__x", "two")]));
    world.model.push(Script::Say("done"));
    turn(&handle, &id, "more").await;
    assert_eq!(offered(&world), ["touch", "mcp__a__y"]);
    assert!(told(&world).contains("'mcp__a__x' is not there at the moment"), "{}", told(&world));
    assert_eq!(world.effect_count("two"), 0);
    handle.shutdown().await;
    *world.around.offers.lock().unwrap() = names(&["mcp__a__y", "mcp__a__x"]);
    let handle = world.process();
    handle.open(&id, AgentSettings::default()).await.unwrap();
    turn(&handle, &id, "more").await;
    assert_eq!(offered(&world), expected);
}

#[tokio::test(start_paused = true)]
async fn a_source_enters_a_neuron_before_it_offers_tools_and_again_with_each_prompt() {
    let world = World::default();
    world.around.neuron("n1", Some(true));
    let handle = world.process();
    let neuron = Some(NeuronId::new("n1"));
    let new = CreateSession { neuron, ..new_session(AgentSettings::default()) };
    let id = handle.create(new).await.unwrap().id;
    assert_eq!(*world.around.source_folders.lock().unwrap(), ["entered n1", "in n1"]);
    world.model.push(Script::Say("done"));
    turn(&handle, &id, "more").await;
    let told = world.around.source_folders.lock().unwrap().clone();
    assert_eq!(told, ["entered n1", "in n1", "entered n1"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_call_finds_is_offered_from_the_next_step_on_and_kept() {
    let world = World::default();
    *world.around.there.lock().unwrap() = names(&["mcp__b__q", "mcp__b__r"]);
    let handle = world.process();
    let id = handle.create(with_tools(&["find", "look"])).await.unwrap().id;
    // A native tool that was not chosen, and one that is not there, are not to be had.
    let wanted = "mcp__b__r,touch,mcp__b__none,mcp__b__r,look,mcp__b__q";
    world.model.push(Script::Call(vec![("find", wanted), ("mcp__b__q", "early")]));
    world.model.push(Script::Call(vec![("mcp__b__q", "late")]));
    world.model.push(Script::Say("done"));
    turn(&handle, &id, "go").await;
    let expected = ["find", "look", "mcp__b__r", "mcp__b__q"];
    assert_eq!(offered(&world), expected);
    assert_eq!((world.effect_count("early"), world.effect_count("late")), (0, 1));
    let requests: Vec<usize> =
        world.model.requests.lock().unwrap().iter().map(|request| request.tools.len()).collect();
    assert_eq!(requests, [2, 4, 4]);
    let rows = world.disk.rows(&id);
    let activated: Vec<_> =
        rows.iter().filter(|row| row.kind == EventKind::ToolsActivated).collect();
    assert_eq!(activated.len(), 1);
    assert_eq!(activated[0].body, r#"{"names":["mcp__b__r","mcp__b__q"]}"#);
    handle.shutdown().await;
    let handle = world.process();
    handle.open(&id, AgentSettings::default()).await.unwrap();
    turn(&handle, &id, "more").await;
    assert_eq!(offered(&world), expected);
    // It is for the core alone.
    let shown = handle.recorded(&id, Seq(0), 1_000).await.unwrap();
    assert!(shown.iter().all(|event| event.body.kind() != EventKind::ToolsActivated));
    // An import has the tools of the house it comes to.
    let exported = handle.export(&id).await.unwrap();
    let imported = handle.import(exported).await.unwrap().id;
    handle.open(&imported, AgentSettings::default()).await.unwrap();
    turn(&handle, &imported, "more").await;
    assert_eq!(offered(&world)[..3], ["look", "touch", "wait"]);
    assert!(!offered(&world).iter().any(|name| name.starts_with("mcp__")));
}
