//! Servers that come and go.

use std::sync::Arc;

use connect::ServerState;
use driver_api::{Place, ToolSource as _};
use serde_json::json;

use crate::house::{Person, call_in, context, eventually, house, program, text_of};
use crate::script::{Script, Scripts};

#[tokio::test]
async fn m1_a_server_killed_between_calls_comes_back_with_its_tools() {
    let script = Script::new(&["echo", "b", "c"]);
    let house = house(Scripts::one("s", &script), vec![program("s")]);
    house.until("s", ServerState::Connected).await;
    let before = house.offered("/repos");
    script.kill();
    house.until("s", ServerState::Waiting).await;
    assert_eq!(house.offered("/repos"), before, "new sessions see the same prompt meanwhile");
    // A call that was not sent yet waits for the server.
    let outcome = house.call("mcp__s__echo", json!({"text": "again"})).await;
    assert_eq!(text_of(&outcome), "echo says again");
    assert_eq!((house.offered("/repos"), script.launches()), (before, 2));
    let status = house.until("s", ServerState::Connected).await;
    assert_eq!((status.tools, status.error), (3, None));
    house.pool.stop().await;
    assert_eq!(script.alive(), 0);
}

#[tokio::test]
async fn m1_a_server_killed_during_a_call_fails_it_once_and_never_repeats_it() {
    let script = Script::new(&["echo", "die", "hang"]);
    let house = house(Scripts::one("s", &script), vec![program("s")]);
    house.until("s", ServerState::Connected).await;
    let outcome = house.call("mcp__s__die", json!({})).await;
    let text = text_of(&outcome);
    assert!(outcome.is_error, "{text}");
    assert!(text.contains("lost during the call") && text.contains("unknown"), "{text}");
    let outcome = house.call("mcp__s__echo", json!({"text": "x"})).await;
    assert_eq!(text_of(&outcome), "echo says x");
    let calls = script.seen("tools/call");
    let named: Vec<_> = calls.iter().map(|call| call["params"]["name"].clone()).collect();
    assert_eq!(named, ["die", "echo"]);
    // Killed from outside while it works on one.
    let call = house.call("mcp__s__hang", json!({}));
    let kill = async {
        eventually("the call", || (script.seen("tools/call").len() == 3).then_some(())).await;
        script.kill();
    };
    let (outcome, ()) = tokio::join!(call, kill);
    assert!(text_of(&outcome).contains("lost during the call"), "{}", text_of(&outcome));
    house.until("s", ServerState::Connected).await;
    assert_eq!(script.seen("tools/call").len(), 3);
    house.pool.stop().await;
}

#[tokio::test]
async fn m3_a_server_that_is_down_at_the_start_attaches_later() {
    let script = Script::new(&["echo"]);
    *script.failures.lock().unwrap() = 2;
    let house = house(Scripts::one("s", &script), vec![program("s")]);
    let status = house.until("s", ServerState::Waiting).await;
    assert_eq!(status.error.as_deref(), Some("start the program: not there yet"));
    assert_eq!(house.offered("/repos"), Vec::<String>::new());
    house.until("s", ServerState::Connected).await;
    assert_eq!(house.offered("/repos"), ["mcp__s__echo"]);
    house.pool.stop().await;
}

#[tokio::test]
async fn m3_changes_of_the_list_are_followed() {
    for script in [Script::new(&["a", "b"]), Script::modern(&["a", "b"])] {
        let house = house(Scripts::one("s", &script), vec![program("s")]);
        house.until("s", ServerState::Connected).await;
        assert_eq!(house.offered("/repos"), ["mcp__s__a", "mcp__s__b"]);
        if script.is_modern {
            eventually("a listener", || script.seen("subscriptions/listen").pop()).await;
            // It listens a moment after it said so.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        script.change(&["c", "b", "d"]);
        let wanted = ["mcp__s__b", "mcp__s__c", "mcp__s__d"];
        eventually("the new list", || (house.offered("/repos") == wanted).then_some(())).await;
        assert!(
            house.pool.find("mcp__s__a", Place::Folder("/repos")).is_none(),
            "what is gone is gone"
        );
        house.pool.stop().await;
    }
}

#[tokio::test]
async fn a_list_that_changes_all_the_time_is_not_asked_for_all_the_time() {
    let script = Script::new(&["a"]);
    let house = house(Scripts::one("s", &script), vec![program("s")]);
    house.until("s", ServerState::Connected).await;
    let start = std::time::Instant::now();
    for _ in 0..60 {
        script.change(&["b"]);
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    script.change(&["c"]);
    let wanted = ["mcp__s__c"];
    eventually("the last list", || (house.offered("/repos") == wanted).then_some(())).await;
    // One at the start, one soon, then a second and longer apart.
    let most = 3 + usize::try_from(start.elapsed().as_secs()).unwrap();
    let lists = script.seen("tools/list").len();
    assert!(lists <= most, "{lists} lists, not {most} at most");
    house.pool.stop().await;
}

#[tokio::test]
async fn a_call_of_a_server_that_was_configured_away_fails_at_once() {
    let script = Script::new(&["echo"]);
    let house = house(Scripts::one("s", &script), vec![program("s")]);
    house.until("s", ServerState::Connected).await;
    let tool = house.tool("mcp__s__echo");
    house.pool.configure(&connect::Origin::Settings, Vec::new());
    eventually("its end", || (script.alive() == 0).then_some(())).await;
    let context = context(Arc::new(Person::default()), house.home.path());
    let start = std::time::Instant::now();
    let outcome = call_in(&tool, json!({}), &context).await;
    let text = text_of(&outcome);
    assert!(text.contains("(it was stopped)") && text.contains("was not made"), "{text}");
    assert!(start.elapsed().as_secs() < 8, "without the wait for its return");
    house.pool.stop().await;
}

#[tokio::test]
async fn a_program_that_ends_at_once_says_why() {
    let script = Script::new(&[]);
    let house = house(Scripts::one("s", &script), vec![program("s")]);
    house.until("s", ServerState::Connected).await;
    *script.failures.lock().unwrap() = 100;
    script.kill();
    let status = house.until("s", ServerState::Waiting).await;
    let error = status.error.unwrap();
    assert!(error.contains("ended by signal 9; it said: a last word"), "{error}");
    house.pool.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_server_that_never_speaks() {
    let script = Script::new(&["echo"]);
    *script.is_mute.lock().unwrap() = true;
    let house = house(Scripts::one("s", &script), vec![program("s")]);
    eventually("the launch", || (script.alive() == 1).then_some(())).await;
    assert_eq!(house.status("s").state, ServerState::Connecting);
    house.pool.stop().await;
    assert_eq!((script.alive(), house.status("s").state), (0, ServerState::Stopped));
    drop(Arc::clone(&house.pool));
}
