//! `ask_question` and `exit_plan`: calls whose answer is a person's.

use driver_api::{Asks, ToolError};
use protocol::Effect;
use protocol::event::QuestionOption;
use serde_json::{Value, json};

use crate::{Bench, object, text_of};

fn asks(bench: &Bench, name: &str, input: Value) -> Result<Option<Asks>, ToolError> {
    bench.tool(name).asks(&object(input))
}

fn option(id: &str, label: &str, description: Option<&str>) -> QuestionOption {
    let description = description.map(str::to_owned);
    QuestionOption { id: id.to_owned(), label: label.to_owned(), description }
}

#[tokio::test]
async fn a_question_has_options_with_ids() {
    let bench = Bench::new();
    let input = json!({"question": " Which environment?\n", "options": [
        {"id": "stg", "label": "Staging", "description": "nobody sees it"},
        {"label": " Production ", "description": " "}
    ]});
    let wanted = Asks::Question {
        question: "Which environment?".to_owned(),
        options: vec![
            option("stg", "Staging", Some("nobody sees it")),
            option("Production", "Production", None),
        ],
        multi_select: false,
        allow_other: true,
    };
    assert_eq!(asks(&bench, "ask_question", input.clone()).unwrap(), Some(wanted));
    let facts = bench.facts("ask_question", input.clone()).await.unwrap();
    assert_eq!((facts.effect, facts.summary.as_str()), (Effect::Interact, "Which environment?"));
    assert!(facts.paths.is_empty() && facts.command.is_none());
    let mut input = input;
    input["multi"] = json!(true);
    input["allow_other"] = json!(false);
    let Ok(Some(Asks::Question { multi_select: true, allow_other: false, .. })) =
        asks(&bench, "ask_question", input)
    else {
        panic!("both are the model's to say")
    };
}

#[tokio::test]
async fn a_plan_is_shown_whole() {
    let bench = Bench::new();
    let plan = "\n# Mend the parser\n\n1. a test that fails\n2. the fix\n";
    let input = json!({"plan": plan});
    let wanted = Asks::Plan { plan: plan.trim().to_owned() };
    assert_eq!(asks(&bench, "exit_plan", input.clone()).unwrap(), Some(wanted));
    let facts = bench.facts("exit_plan", input).await.unwrap();
    assert_eq!((facts.effect, facts.summary.as_str()), (Effect::Interact, "Mend the parser"));
}

#[tokio::test]
async fn what_nobody_could_answer_is_refused() {
    let bench = Bench::new();
    let labels = |labels: &[&str]| -> Vec<Value> {
        labels.iter().map(|label| json!({"label": label})).collect()
    };
    let named = |named: &[(&str, &str)]| -> Vec<Value> {
        named.iter().map(|(id, label)| json!({"id": id, "label": label})).collect()
    };
    let two = labels(&["a", "b"]);
    let long = "x".repeat(30_001);
    let cases = [
        (json!({"question": " ", "options": two}), "the question is blank"),
        (json!({"question": long, "options": two}), "the question has 30,001 characters"),
        (json!({"question": "?", "options": labels(&["a"])}), "2 to 8 options, found 1"),
        (json!({"question": "?", "options": labels(&["1"; 9])}), "2 to 8 options, found 9"),
        (json!({"question": "?", "options": labels(&["a", "\t"])}), "label of option 2 is blank"),
        (json!({"question": "?", "options": labels(&["a\nb", "c"])}), "must be one line"),
        (json!({"question": "?", "options": labels(&["a", &long])}), "30,001 characters"),
        (
            json!({"question": "?", "options": named(&[("x", "a"), ("x", "b")])}),
            "options 1 and 2 have the same id",
        ),
        (
            json!({"question": "?", "options": [{"label": "a"}, {"label": "b"}, {"label": "a "}]}),
            "options 1 and 3 have the same id",
        ),
        (
            json!({"question": "?", "options": [{"id": "b", "label": "a"}, {"label": "b"}]}),
            "options 1 and 2 have the same id",
        ),
        (
            json!({"question": "?", "options": named(&[("1", "a"), ("2", "a")])}),
            "options 1 and 2 have the same label",
        ),
        (
            json!({"question": "?", "options": [{"id": " ", "label": "a"}, {"label": "b"}]}),
            "the id of option 1 is blank",
        ),
        (
            json!({"question": "?", "options": [
                {"label": "a", "description": long},
                {"label": "b"}
            ]}),
            "the description of option 1 has",
        ),
    ];
    for (input, wanted) in cases {
        let error = asks(&bench, "ask_question", input.clone()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error} for {input}");
        let error = bench.facts("ask_question", input.clone()).await.unwrap_err().to_string();
        assert!(error.contains(wanted), "{error} for {input}");
    }
    for (plan, wanted) in [(" \n", "the plan is blank"), (&*long, "at most 30,000 are taken")] {
        let error = bench.facts("exit_plan", json!({"plan": plan})).await.unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[tokio::test]
async fn other_tools_ask_nothing_and_these_do_not_run() {
    let bench = Bench::new();
    assert_eq!(asks(&bench, "read_file", json!({"path": "a"})).unwrap(), None);
    let question = json!({"question": "?", "options": [{"label": "a"}, {"label": "b"}]});
    for (name, input) in [("ask_question", question), ("exit_plan", json!({"plan": "do it"}))] {
        let outcome = bench.call(name, input).await.unwrap();
        assert!(outcome.is_error && text_of(&outcome).contains("nobody was asked"), "{name}");
    }
}
