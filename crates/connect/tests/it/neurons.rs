//! Servers that run inside of neurons: one in each, for all of its sessions, as long as it lasts.

use std::sync::Arc;

use connect::{Endpoint, Origin, Scope, Server, ServerState};
use driver_api::{Place, Tool, ToolSource as _, Workspace};
use protocol::{Effect, NeuronId};
use serde_json::json;

use crate::house::{House, Person, call_in, context, eventually, house, names, program, text_of};
use crate::nowhere::Nowhere;
use crate::script::{Script, Scripts};

/// A server of the scripted launcher that runs in neurons.
fn inside(name: &str) -> Server {
    let mut server = program(name);
    if let Endpoint::Stdio(program) = &mut server.endpoint {
        program.scope = Scope::Neuron;
    }
    server
}

fn workspace() -> Arc<dyn Workspace> {
    Arc::new(Nowhere)
}

fn offered(house: &House, neuron: &NeuronId) -> Vec<String> {
    names(&house.pool.offers(Place::Neuron(neuron)))
}

fn tool(house: &House, neuron: &NeuronId) -> Arc<dyn Tool> {
    house.pool.find("mcp__s__echo", Place::Neuron(neuron)).expect("the tool to be there")
}

async fn echo(house: &House, tool: &Arc<dyn Tool>) -> String {
    let context = context(Arc::new(Person::default()), house.home.path());
    text_of(&call_in(tool, json!({"text": "x"}), &context).await)
}

#[tokio::test]
async fn each_neuron_has_its_own_process_and_all_of_its_sessions_share_it() {
    let script = Script::new(&["echo"]);
    let house = house(Scripts::one("s", &script), vec![inside("s")]);
    let (one, two) = (NeuronId::new("one"), NeuronId::new("two"));
    assert_eq!((script.launches(), house.pool.status()), (0, Vec::new()), "nobody entered yet");
    let entered = [workspace(), workspace()];
    tokio::join!(house.pool.enter(&one, &entered[0]), house.pool.enter(&one, &entered[1]));
    assert_eq!(offered(&house, &one), ["mcp__s__echo"], "entering waits for its tools");
    assert_eq!((offered(&house, &two), house.offered("/repos")), (Vec::new(), Vec::new()));
    house.pool.enter(&two, &workspace()).await;
    assert_eq!(offered(&house, &two), ["mcp__s__echo"], "the name is the same in each");
    assert_eq!((script.launches(), script.alive()), (2, 2));
    let places = script.places.lock().unwrap().clone();
    assert!(places.iter().all(Option::is_some), "started through their workspaces: {places:?}");
    assert_eq!(echo(&house, &tool(&house, &one)).await, "echo says x");
    let stands = house.pool.status();
    let neurons: Vec<_> = stands.iter().map(|stand| stand.neuron.clone()).collect();
    assert!(neurons.contains(&Some(one)) && neurons.contains(&Some(two)), "{neurons:?}");
    house.pool.stop().await;
    assert_eq!(script.alive(), 0);
}

#[tokio::test]
async fn what_a_server_in_a_neuron_says_lowers_no_effect() {
    let script = Script::new(&["echo"]);
    let house = house(Scripts::one("s", &script), vec![inside("s")]);
    let neuron = NeuronId::new("one");
    house.pool.enter(&neuron, &workspace()).await;
    let input = json!({});
    let facts = tool(&house, &neuron).facts(input.as_object().unwrap(), &Nowhere).await.unwrap();
    assert_eq!(facts.effect, Effect::Network, "its own word is that it only reads");
    house.pool.stop().await;
}

#[tokio::test]
async fn m1_a_server_that_dies_in_its_neuron_comes_back_there() {
    let script = Script::new(&["echo"]);
    let house = house(Scripts::one("s", &script), vec![inside("s")]);
    let neuron = NeuronId::new("one");
    house.pool.enter(&neuron, &workspace()).await;
    let tool = tool(&house, &neuron);
    script.kill();
    eventually("its end", || (script.alive() == 0).then_some(())).await;
    assert_eq!(echo(&house, &tool).await, "echo says x", "the call waits for its return");
    assert_eq!(script.launches(), 2);
    house.pool.stop().await;
}

#[tokio::test]
async fn a_neuron_that_is_gone_takes_its_servers_along_and_a_new_one_begins_anew() {
    let script = Script::new(&["echo"]);
    let house = house(Scripts::one("s", &script), vec![inside("s")]);
    let neuron = NeuronId::new("one");
    house.pool.enter(&neuron, &workspace()).await;
    let old = tool(&house, &neuron);
    *script.failures.lock().unwrap() = 1;
    script.kill();
    eventually("to be forgotten", || house.pool.status().is_empty().then_some(())).await;
    let told = echo(&house, &old).await;
    assert!(told.contains("it cannot be started there: start the program"), "{told}");
    assert_eq!(script.launches(), 1, "nobody tries again and again");
    house.pool.enter(&neuron, &workspace()).await;
    assert_eq!(echo(&house, &tool(&house, &neuron)).await, "echo says x");
    house.pool.stop().await;
}

#[tokio::test]
async fn a_server_of_neurons_can_be_configured_away() {
    let script = Script::new(&["echo"]);
    let other = Script::new(&["look"]);
    let both = [("s".to_owned(), Arc::clone(&script)), ("t".to_owned(), other)];
    let launcher = Arc::new(Scripts(both.into()));
    let house = house(launcher, vec![inside("s"), program("t")]);
    house.until("t", ServerState::Connected).await;
    let neuron = NeuronId::new("one");
    house.pool.enter(&neuron, &workspace()).await;
    assert_eq!(offered(&house, &neuron), ["mcp__s__echo", "mcp__t__look"]);
    house.pool.configure(&Origin::Settings, vec![program("t")]);
    eventually("its end", || (script.alive() == 0).then_some(())).await;
    house.pool.enter(&neuron, &workspace()).await;
    assert_eq!(offered(&house, &neuron), ["mcp__t__look"]);
    assert_eq!(script.launches(), 1);
    house.pool.stop().await;
}
