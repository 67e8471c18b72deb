//! More tools than a session is offered as they are.

use std::collections::HashMap;
use std::sync::Arc;

use connect::{Origin, Server, ServerState};
use driver_api::{Place, ToolSource as _};
use protocol::Effect;
use serde_json::json;

use crate::house::{House, house, pool_at, program, text_of};
use crate::nowhere::Nowhere;
use crate::script::{Script, Scripts};

async fn with(count: usize, threshold: usize) -> House {
    let tools: Vec<String> = (1..=count).map(|n| format!("echo_{n:02}")).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let script = Script::new(&tools);
    let home = tempfile::tempdir().unwrap();
    let launcher = Scripts::one("echo", &script);
    let pool = pool_at(home.path(), launcher, vec![program("echo")], threshold);
    let house = House { pool, home };
    house.until("echo", ServerState::Connected).await;
    house
}

#[tokio::test]
async fn at_the_threshold_nothing_is_deferred_and_above_it_everything() {
    let house = with(3, 3).await;
    let all = ["mcp__echo__echo_01", "mcp__echo__echo_02", "mcp__echo__echo_03"];
    assert_eq!(house.offered("/repos"), all);
    house.pool.stop().await;
    let house = with(4, 3).await;
    assert_eq!(house.offered("/repos"), ["mcp_find_tools"]);
    house.pool.stop().await;
}

#[tokio::test]
async fn found_tools_are_activated_and_can_be_called() {
    let house = with(12, 10).await;
    let outcome = house.call("mcp_find_tools", json!({"query": "echo_03"})).await;
    assert_eq!(outcome.activates, ["mcp__echo__echo_03"]);
    assert!(text_of(&outcome).contains("mcp__echo__echo_03: The tool echo_03"));
    let outcome = house.call("mcp__echo__echo_03", json!({"text": "hi"})).await;
    assert_eq!(text_of(&outcome), "echo_03 says hi");
    let outcome = house.call("mcp_find_tools", json!({"query": "tool"})).await;
    assert_eq!(outcome.activates.len(), 10, "a search does not flood a session");
    let outcome = house.call("mcp_find_tools", json!({"query": "weather"})).await;
    assert_eq!((outcome.activates.len(), outcome.is_error), (0, false));
    assert!(text_of(&outcome).contains("no tool fits"), "{}", text_of(&outcome));
    let finder = house.tool("mcp_find_tools");
    assert!(finder.spec().description.contains("(echo)"), "{}", finder.spec().description);
    let input = json!({"query": "x"});
    let facts = finder.facts(input.as_object().unwrap(), &Nowhere).await.unwrap();
    assert_eq!(facts.effect, Effect::Read);
    for wrong in [json!({}), json!({"query": " "}), json!({"query": "x".repeat(501)})] {
        assert!(finder.facts(wrong.as_object().unwrap(), &Nowhere).await.is_err());
    }
    house.pool.stop().await;
}

#[tokio::test]
async fn servers_of_a_folder_are_offered_there_alone_and_their_hints_count_for_nothing() {
    let (mine, theirs) = (Script::new(&["echo"]), Script::new(&["echo", "peek"]));
    let both = [("mine".to_owned(), mine), ("theirs".to_owned(), theirs.clone())];
    let launcher = Arc::new(Scripts(HashMap::from(both)));
    let house = house(launcher, vec![Server { name: "s".to_owned(), ..program("mine") }]);
    let origin = Origin::Folder("/repos/a".into());
    let folder = || Server { name: "s".to_owned(), origin: origin.clone(), ..program("theirs") };
    house.pool.configure(&origin, vec![folder()]);
    house.pool.settled(crate::house::PATIENCE).await;
    assert_eq!(house.offered("/repos"), ["mcp__s__echo"]);
    assert_eq!(house.offered("/repos/ab"), ["mcp__s__echo"]);
    let inside = ["mcp__s_2__echo", "mcp__s_2__peek", "mcp__s__echo"];
    assert_eq!(house.offered("/repos/a"), inside);
    assert_eq!(house.offered("/repos/a/deep"), inside);
    assert!(house.pool.find("mcp__s_2__echo", Place::Folder("/repos")).is_none());
    let input = json!({});
    let input = input.as_object().unwrap();
    for (name, expected) in [("mcp__s__echo", Effect::Read), ("mcp__s_2__echo", Effect::Network)] {
        let tool = house.pool.find(name, Place::Folder("/repos/a")).unwrap();
        assert_eq!(tool.facts(input, &Nowhere).await.unwrap().effect, expected, "{name}");
    }
    // The same again changes nothing; without it, the server ends.
    house.pool.configure(&origin, vec![folder()]);
    assert_eq!((theirs.launches(), house.offered("/repos/a").len()), (1, 3));
    house.pool.configure(&origin, Vec::new());
    assert_eq!(house.offered("/repos/a"), ["mcp__s__echo"]);
    crate::house::eventually("its end", || (theirs.alive() == 0).then_some(())).await;
    house.pool.stop().await;
}
