//! Questions of servers, through whoever decides for the session of the call.

use std::sync::Arc;
use std::time::Duration;

use connect::{Server, ServerState};
use serde_json::json;

use crate::house::{
    House, Person, call_in, chosen, context, eventually, house, program, text_of, words,
};
use crate::script::{Script, Scripts};

async fn with(script: &Arc<Script>, call_timeout: Duration) -> House {
    let server = Server { call_timeout, ..program("s") };
    let house = house(Scripts::one("s", script), vec![server]);
    house.until("s", ServerState::Connected).await;
    house
}

fn both() -> [Arc<Script>; 2] {
    [Script::new(&["ask", "hang"]), Script::modern(&["ask", "hang"])]
}

fn form() -> serde_json::Value {
    json!({"mode": "form", "message": "Who?", "requestedSchema": {"type": "object",
        "properties": {"name": {"type": "string"}}, "required": ["name"]}})
}

#[tokio::test]
async fn a4_a_form_reaches_the_person_of_the_call_and_the_answer_the_server() {
    for script in both() {
        let house = with(&script, crate::house::PATIENCE).await;
        for (answer, expected) in [
            (words("Ada"), r#"{"action":"accept","content":{"name":"Ada"}}"#),
            (chosen(&["decline"]), r#"{"action":"decline"}"#),
            (None, r#"{"action":"cancel"}"#),
        ] {
            let person = Arc::new(Person::with(vec![answer]));
            let outcome = house.call_for(Arc::clone(&person), "mcp__s__ask", form()).await;
            assert_eq!(text_of(&outcome), expected);
            assert_eq!(person.asked.lock().unwrap().len(), 1);
        }
        house.pool.stop().await;
    }
}

#[tokio::test]
async fn a4_an_address_is_shown_to_the_person() {
    for script in both() {
        let house = with(&script, crate::house::PATIENCE).await;
        let asks = json!({"mode": "url", "message": "Sign in", "elicitationId": "1",
                          "url": "https://id.example/x"});
        let person = Arc::new(Person::with(vec![chosen(&["accept"])]));
        let outcome = house.call_for(Arc::clone(&person), "mcp__s__ask", asks).await;
        assert!(text_of(&outcome).contains(r#""action":"accept""#), "{}", text_of(&outcome));
        let asked = format!("{:?}", person.asked.lock().unwrap());
        assert!(asked.contains("https://id.example/x"), "{asked}");
        house.pool.stop().await;
    }
}

#[tokio::test]
async fn a5_a_person_who_thinks_does_not_use_up_the_time_of_the_call() {
    for script in both() {
        let house = with(&script, Duration::from_millis(400)).await;
        let person = Person::with(vec![words("Ada")]);
        let person = Arc::new(Person { thinks: Duration::from_millis(900), ..person });
        let outcome = house.call_for(person, "mcp__s__ask", form()).await;
        assert!(text_of(&outcome).contains("Ada"), "{}", text_of(&outcome));
        // And a time-out that is due comes all the same.
        let outcome = house.call("mcp__s__hang", json!({})).await;
        assert!(text_of(&outcome).contains("did not answer within"), "{}", text_of(&outcome));
        house.pool.stop().await;
    }
}

#[tokio::test]
async fn a_question_ends_with_the_call_that_it_is_for() {
    for script in both() {
        let house = with(&script, crate::house::PATIENCE).await;
        let person = Arc::new(Person { thinks: 2 * crate::house::PATIENCE, ..Person::default() });
        let context = context(Arc::clone(&person) as _, house.home.path());
        let tool = house.tool("mcp__s__ask");
        let stop = async {
            eventually("the question", || (*person.waiting.lock().unwrap() == 1).then_some(()))
                .await;
            context.cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(call_in(&tool, form(), &context), stop);
        assert!(text_of(&outcome).starts_with("stopped by the user"), "{}", text_of(&outcome));
        eventually("its end", || (*person.waiting.lock().unwrap() == 0).then_some(())).await;
        house.pool.stop().await;
    }
}

#[tokio::test]
async fn a_question_that_may_be_anothers_is_asked_of_nobody() {
    let script = Script::new(&["ask", "hang"]);
    let house = with(&script, crate::house::PATIENCE).await;
    let (mine, others) = (Arc::new(Person::default()), Arc::new(Person::default()));
    let hang = house.call_for(Arc::clone(&others), "mcp__s__hang", json!({}));
    let ask = async {
        eventually("the other call", || script.seen("tools/call").first().cloned()).await;
        house.call_for(Arc::clone(&mine), "mcp__s__ask", form()).await
    };
    let outcome = tokio::select! {
        outcome = ask => outcome,
        _ = hang => panic!("it hangs"),
    };
    assert_eq!(text_of(&outcome), r#"{"action":"cancel"}"#);
    for person in [mine, others] {
        assert_eq!(person.asked.lock().unwrap().len(), 0);
    }
    house.pool.stop().await;
}
