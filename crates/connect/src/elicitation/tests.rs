//! Questions and answers, with a person whose answers are prepared.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use driver_api::{ToolContext, ToolHost};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::*;

/// Gives prepared answers and remembers the questions.
#[derive(Debug, Default)]
struct Person {
    answers: Mutex<Vec<Option<Answer>>>,
    asked: Mutex<Vec<Asks>>,
}

#[async_trait]
impl ToolHost for Person {
    fn seen(&self, _path: &str) -> Option<String> {
        None
    }

    async fn ask(&self, asks: Asks) -> Option<Answer> {
        self.asked.lock().unwrap().push(asks);
        let mut answers = self.answers.lock().unwrap();
        if answers.is_empty() { None } else { answers.remove(0) }
    }
}

fn chosen(ids: &[&str]) -> Option<Answer> {
    let answers = ids.iter().map(|id| (*id).to_owned()).collect();
    Some(Answer::Chosen { answers, other: None })
}

fn words(text: &str) -> Option<Answer> {
    Some(Answer::Chosen { answers: Vec::new(), other: Some(text.to_owned()) })
}

async fn run(params: Value, answers: Vec<Option<Answer>>) -> (Value, Vec<Asks>) {
    let person = Arc::new(Person { answers: Mutex::new(answers), ..Person::default() });
    let (progress, _) = mpsc::channel(1);
    let context = ToolContext {
        call: protocol::ToolCallId::new("c"),
        workspace: Arc::new(crate::nowhere::Nowhere),
        host: person.clone(),
        progress,
        cancel: CancellationToken::new(),
        spill_dir: "/nowhere".into(),
        images: false,
    };
    let elicited = elicit("desk", &params, &Running::new(&context)).await;
    let asked = person.asked.lock().unwrap().clone();
    (elicited.into_value(), asked)
}

fn form_of(schema: &Value) -> Value {
    json!({"message": "Who are you?", "requestedSchema": schema})
}

fn question(asks: &Asks) -> (&str, Vec<&str>, bool, bool) {
    let Asks::Question { question, options, multi_select, allow_other } = asks else {
        panic!("{asks:?}")
    };
    let ids = options.iter().map(|option| option.id.as_str()).collect();
    (question, ids, *multi_select, *allow_other)
}

#[tokio::test]
async fn a_form_is_asked_field_by_field() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "description": "as on the door"},
            "age": {"type": "integer", "minimum": 1, "maximum": 150, "default": 40},
            "member": {"type": "boolean", "default": true},
            "colour": {"type": "string", "enum": ["r", "skip"], "enumNames": ["Red", "Skip"]},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}]},
            "days": {"type": "array", "items": {"anyOf": [{"const": "mo", "title": "Monday"},
                     {"const": "tu", "title": "Tuesday"}]}, "minItems": 1}
        },
        "required": ["name", "age", "days"]
    });
    let answers = vec![
        words("Ada"),
        chosen(&["default"]),
        chosen(&["false"]),
        chosen(&["_skip"]),
        chosen(&["s"]),
        chosen(&["mo", "tu"]),
    ];
    let (result, asked) = run(form_of(&schema), answers).await;
    let content = json!({"name": "Ada", "age": 40, "member": false, "size": "s",
                         "days": ["mo", "tu"]});
    assert_eq!(result, json!({"action": "accept", "content": content}));
    let shown: Vec<_> = asked.iter().map(question).collect();
    assert_eq!(
        shown[0],
        ("desk asks (1 of 6): Who are you?\n\nName: as on the door", vec!["decline"], false, true)
    );
    assert!(shown[1].0.ends_with("age (a whole number from 1 to 150)"), "{}", shown[1].0);
    assert_eq!(shown[2].1, ["true", "false", "skip", "decline"]);
    assert_eq!(shown[3].1, ["r", "skip", "_skip", "decline"]);
    assert_eq!((shown[5].2, shown[5].3), (true, false));
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again() {
    let schema =
        || json!({"properties": {"n": {"type": "number", "maximum": 2}}, "required": ["n"]});
    let (result, asked) = run(form_of(&schema()), vec![words("x"), words("3"), words("1,5")]).await;
    assert_eq!(result["content"], json!({"n": 1.5}));
    let last = question(&asked[2]).0;
    assert!(last.ends_with("That does not fit: expected a number up to 2."), "{last}");
    let (result, asked) = run(form_of(&schema()), vec![words("x"); 9]).await;
    assert_eq!((result, asked.len()), (json!({"action": "cancel"}), ATTEMPTS_MAX));
}

#[tokio::test]
async fn no_answer_cancels_and_a_no_declines() {
    let schema = || json!({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    for (answers, expected) in [
        (vec![None], "cancel"),
        (vec![Some(Answer::Dismissed)], "cancel"),
        (vec![words("x"), chosen(&["decline"])], "decline"),
    ] {
        let (result, _) = run(form_of(&schema()), answers).await;
        assert_eq!(result, json!({"action": expected}));
    }
}

#[tokio::test]
async fn what_is_no_flat_form_is_declined_without_a_question() {
    for schema in [
        json!({"properties": {"a": {"type": "object"}}}),
        json!({"properties": {"a": {"type": "array", "items": {"type": "string"}}}}),
        json!({"properties": {"a": {"type": "string", "enum": []}}}),
        json!({"properties": []}),
        json!({"properties": (0..=FIELDS_MAX).map(|n| (n.to_string(), json!({"type": "boolean"})))
            .collect::<Map<_, _>>()}),
    ] {
        let (result, asked) = run(form_of(&schema), vec![words("x")]).await;
        assert_eq!((result, asked.len()), (json!({"action": "decline"}), 0));
    }
}

#[tokio::test]
async fn a_form_without_fields_is_a_yes_or_no() {
    let (result, asked) = run(form_of(&json!({"properties": {}})), vec![chosen(&["accept"])]).await;
    assert_eq!(result, json!({"action": "accept", "content": {}}));
    assert_eq!(question(&asked[0]).1, ["accept", "decline"]);
}

#[tokio::test]
async fn an_address_is_shown_with_its_host_and_only_where_it_is_safe() {
    let params = |url: &str| json!({"mode": "url", "message": "Sign in", "url": url});
    let (result, asked) = run(params("https://id.example/x?y=1"), vec![chosen(&["accept"])]).await;
    assert_eq!(result["action"], "accept");
    let shown = question(&asked[0]).0;
    assert!(shown.contains("on id.example:") && shown.contains("https://id.example/x?y=1"));
    let (result, _) = run(params("http://127.0.0.1:8/x"), vec![chosen(&["decline"])]).await;
    assert_eq!(result["action"], "decline");
    for url in ["http://id.example/", "https://good.example@evil.example/", "file:///x", ""] {
        let (result, asked) = run(params(url), vec![chosen(&["accept"])]).await;
        assert_eq!((result["action"].as_str(), asked.len()), (Some("decline"), 0), "{url}");
    }
    let (result, _) = run(json!({"mode": "psychic"}), vec![]).await;
    assert_eq!(result["action"], "decline");
}
