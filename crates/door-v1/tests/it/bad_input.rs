//! Bad bodies and parameters: each is refused by the name of its field, and nothing happens.

use axum::body::Body;
use http::Method;
use serde_json::json;
use testkit::fake_handle::FakeRuntime;

use crate::house::{DOCUMENT, House, ID, at, open_session, request};

/// Sends bodies to one route; each is refused with words that hold these.
async fn refuses(path: &str, table: &[(&str, &str)]) {
    let house = House::plain();
    for (body, expected) in table {
        let (status, code, message) = house.post_text(path, (*body).to_owned()).await.refusal();
        assert_eq!((status, code.as_str()), (400, "validation_error"), "{body}");
        assert!(message.contains(expected), "{body}\n  says {message}\n  not {expected}");
        let place = message.strip_prefix("the body: ").unwrap_or_default();
        assert!(!place.starts_with(['a', 'f', 'r', 'p']), "{message} names two places");
    }
    assert!(house.runtime.calls().is_empty(), "{path} did something");
}

#[tokio::test]
async fn sessions() {
    let long = |field: &str, length: usize| format!(r#"{{"{field}":"{}"}}"#, "x".repeat(length));
    let rules = json!({"allow": vec!["run_shell"; 201]}).to_string();
    let rule = json!({"deny": ["x".repeat(1001)]}).to_string();
    refuses(
        "/v1/sessions",
        &[
            ("", "the body is missing"),
            ("{", "no JSON"),
            ("{}}", "no JSON"),
            ("{\"cwd\":\"a\",}", "no JSON"),
            ("'text'", "no JSON"),
            ("{\"mode\":\"ask\"} {}", "no JSON"),
            ("nul", "no JSON"),
            ("[]", "expected an object"),
            ("[null,null,null,null,null,null,null,null,null]", "expected an object"),
            ("null", "expected an object"),
            ("true", "expected an object"),
            ("7", "expected an object"),
            ("\"text\"", "expected an object"),
            (r#"{"mode":"reckless"}"#, "mode: unknown variant `reckless`, expected one of `plan`"),
            (r#"{"mode":7}"#, "mode: invalid type: integer `7`, expected a string"),
            (r#"{"mode":["ask"]}"#, "mode: invalid type: sequence"),
            (r#"{"mode":{"ask":null}}"#, "mode: invalid type: map"),
            (r#"{"mode":""}"#, "mode: unknown variant"),
            (r#"{"mode":"ASK"}"#, "mode: unknown variant"),
            (r#"{"mode":"ask","mode":"plan"}"#, "duplicate field `mode`"),
            (r#"{"cwd":7}"#, "cwd: invalid type: integer `7`, expected a string"),
            (r#"{"cwd":""}"#, "cwd: has 0 characters, expected 1 to 4096"),
            (r#"{"cwd":{}}"#, "cwd: invalid type"),
            (r#"{"cwd":"missing"}"#, "cwd: \"missing\" is not there, expected a folder"),
            (r#"{"cwd":"file"}"#, "cwd: \"file\" is no folder"),
            (r#"{"cwd":"file/x"}"#, "cwd: \"file/x\" leads through a file"),
            (r#"{"cwd":"a\u0000b"}"#, "cwd: \"a\\0b\" cannot be opened"),
            (&long("cwd", 4097), "cwd: has 4097 characters, expected 1 to 4096"),
            (r#"{"model":""}"#, "model: has 0 characters, expected 1 to 128"),
            (r#"{"model":false}"#, "model: invalid type: boolean"),
            (&long("model", 129), "model: has 129 characters"),
            (r#"{"title":""}"#, "title: has 0 characters, expected 1 to 200"),
            (r#"{"title":1.5}"#, "title: invalid type: floating point"),
            (&long("title", 201), "title: has 201 characters"),
            (r#"{"appendSystemPrompt":1}"#, "appendSystemPrompt: invalid type"),
            (&long("appendSystemPrompt", 100_001), "appendSystemPrompt: has 100001 characters"),
            (r#"{"allow":"run_shell"}"#, "allow: invalid type: string"),
            (r#"{"allow":[7]}"#, "allow[0]: invalid type"),
            (r#"{"allow":["run_shell",""]}"#, "allow[1]: has 0 characters, expected 1 to 1000"),
            (r#"{"allow":{"0":"run_shell"}}"#, "allow: invalid type: map"),
            (r#"{"allow":[null]}"#, "allow[0]: invalid type: null"),
            (&rules, "allow: has 201 items, expected at most 200"),
            (r#"{"deny":7}"#, "deny: invalid type"),
            (&rule, "deny[0]: has 1001 characters"),
            (r#"{"mcp":"yes"}"#, "mcp: invalid type"),
            (r#"{"resume":7}"#, "resume: invalid type"),
            (r#"{"resume":""}"#, "resume: has 0 characters"),
            (&long("resume", 65), "resume: has 65 characters, expected 1 to 64"),
            (r#"{"resume":"a","cwd":"in"}"#, "cwd: belongs to new sessions"),
            (r#"{"Mode":"ask"}"#, "unknown field `Mode`, expected one of"),
            (r#"{"append_system_prompt":"x"}"#, "unknown field `append_system_prompt`"),
            (r#"{"":1}"#, "unknown field ``"),
        ],
    )
    .await;
}

#[tokio::test]
async fn prompts() {
    let many = json!({"text": "hi", "attachments": vec![json!({"type": "file", "path": "a"}); 21]});
    refuses(&at("/prompt"), &[
        ("", "the body is missing"),
        ("{}", "missing field `text`"),
        ("[\"hi\"]", "expected an object"),
        (r#"{"text":""}"#, "text: has 0 characters, expected 1 to 26214400"),
        (r#"{"text":7}"#, "text: invalid type"),
        (r#"{"text":null}"#, "text: invalid type: null"),
        (r#"{"text":["hi"]}"#, "text: invalid type: sequence"),
        (r#"{"text":"hi","stream":true}"#, "unknown field `stream`"),
        (r#"{"text":"hi","attachments":"x"}"#, "attachments: invalid type: string"),
        (r#"{"text":"hi","attachments":{}}"#, "attachments: invalid type: map"),
        (r#"{"text":"hi","attachments":["x"]}"#, "attachments[0]: invalid type: string"),
        (r#"{"text":"hi","attachments":[["file",null,null,"a"]]}"#,
            "attachments[0]: invalid type: sequence"),
        (r#"{"text":"hi","attachments":[{}]}"#, "attachments[0]: missing field `type`"),
        (r#"{"text":"hi","attachments":[{"type":"video"}]}"#,
            "attachments[0].type: unknown variant `video`"),
        (r#"{"text":"hi","attachments":[{"type":7}]}"#,
            "attachments[0].type: invalid type: integer `7`"),
        (r#"{"text":"hi","attachments":[{"type":"file"}]}"#,
            "attachments[0].path: is missing, expected the path of a file"),
        (r#"{"text":"hi","attachments":[{"type":"file","path":""}]}"#,
            "attachments[0].path: has 0 characters"),
        (r#"{"text":"hi","attachments":[{"type":"file","path":7}]}"#,
            "attachments[0].path: invalid type"),
        (r#"{"text":"hi","attachments":[{"type":"file","path":"a","data":"aGk="}]}"#,
            "attachments[0].data: does not belong to this type"),
        (r#"{"text":"hi","attachments":[{"type":"file","path":"a","mimeType":"image/png"}]}"#,
            "attachments[0].mimeType: does not belong to this type"),
        (r#"{"text":"hi","attachments":[{"type":"file","path":"a","name":"b"}]}"#,
            "attachments[0].name: unknown field `name`"),
        (r#"{"text":"hi","attachments":[{"type":"image"}]}"#,
            "attachments[0].mimeType: is missing, expected image/png"),
        (r#"{"text":"hi","attachments":[{"type":"image","mimeType":"image/png"}]}"#,
            "attachments[0].data: is missing"),
        (r#"{"text":"hi","attachments":[{"type":"image","mimeType":"image/bmp","data":"aGk="}]}"#,
            "attachments[0].mimeType: is \"image/bmp\", expected image/png"),
        (r#"{"text":"hi","attachments":[{"type":"image","mimeType":"image/png","data":"a!"}]}"#,
            "attachments[0].data: is no base64"),
        (r#"{"text":"hi","attachments":[{"type":"image","mimeType":"image/png","data":"aGk"}]}"#,
            "attachments[0].data: is no base64"),
        (r#"{"text":"hi","attachments":[{"type":"image","mimeType":"image/png","data":""}]}"#,
            "attachments[0].data: is empty"),
        (r#"{"text":"hi","attachments":[{"type":"file","path":"a"},
            {"type":"image","mimeType":"image/gif","data":"aGk=","path":"b"}]}"#,
            "attachments[1].path: does not belong to this type"),
        (&many.to_string(), "attachments: has 21 items, expected at most 20"),
    ])
    .await;
}

#[tokio::test]
async fn answers() {
    let long = json!({"answer": "deny", "feedback": "x".repeat(10_001)}).to_string();
    let rule = json!({"answer": "allow_always", "rule": "x".repeat(1_001)}).to_string();
    let other = json!({"answer": {"answers": [], "other": "x".repeat(10_001)}}).to_string();
    let many = json!({"answer": {"answers": vec!["a"; 101]}}).to_string();
    refuses(
        &at("/permissions/req-1"),
        &[
            ("", "the body is missing"),
            ("{}", "answer: is missing"),
            ("[]", "expected"),
            (r#"{"answer":7}"#, "answer: expected a word or an object"),
            (r#"{"answer":null}"#, "answer: expected a word or an object"),
            (r#"{"answer":"perhaps"}"#, "answer: 'perhaps' is unknown"),
            (r#"{"answer":"allow_once","rule":"x"}"#, "rule: does not belong to this answer"),
            (r#"{"answer":"allow_once","feedback":"x"}"#, "feedback: does not belong"),
            (r#"{"answer":"allow_always","persist":"forever"}"#, "persist: 'forever' is unknown"),
            (r#"{"answer":"allow_always","persist":7}"#, "persist: expected a text"),
            (r#"{"answer":"allow_always","rule":["x"]}"#, "rule: expected a text"),
            (
                r#"{"answer":"allow_always","rule":""}"#,
                "rule: has 0 characters, expected 1 to 1000",
            ),
            (&rule, "rule: has 1001 characters"),
            (r#"{"answer":"deny","feedback":7}"#, "feedback: expected a text"),
            (&long, "feedback: has 10001 characters, expected at most 10000"),
            (r#"{"answer":{}}"#, "answer: expected answers, dismissed: true or approved"),
            (r#"{"answer":{"answers":"Postgres"}}"#, "answer.answers: expected a list of texts"),
            (r#"{"answer":{"answers":[1]}}"#, "answer.answers: expected a list of texts"),
            (
                r#"{"answer":{"answers":["a"],"dismissed":true}}"#,
                "answer.dismissed: does not belong",
            ),
            (&other, "answer.other: has 10001 characters"),
            (&many, "answer.answers: has 101 items, expected at most 100"),
            (r#"{"answer":{"dismissed":false}}"#, "answer: expected answers, dismissed: true"),
            (r#"{"answer":{"dismissed":true,"x":1}}"#, "answer.x: does not belong"),
            (r#"{"answer":{"approved":"yes"}}"#, "answer: expected answers"),
            (r#"{"answer":{"approved":true,"mode":"reckless"}}"#, "answer.mode: unknown mode"),
            (r#"{"answer":{"approved":true,"feedback":"x"}}"#, "answer.feedback: does not belong"),
            (r#"{"answer":{"approved":false,"mode":"ask"}}"#, "answer.mode: does not belong"),
            (r#"{"answer":{"dismissed":true},"persist":"user"}"#, "persist: does not belong"),
        ],
    )
    .await;
}

#[tokio::test]
async fn small_bodies() {
    refuses(
        &at("/mode"),
        &[
            ("{}", "missing field `mode`"),
            (r#"{"mode":"wild"}"#, "mode: unknown variant `wild`"),
            (r#"{"mode":null}"#, "mode: invalid type: null"),
            (r#"["ask"]"#, "expected an object"),
            (r#"{"mode":"ask","why":"x"}"#, "unknown field `why`"),
        ],
    )
    .await;
    refuses(
        &at("/model"),
        &[
            ("{}", "missing field `model`"),
            (r#"{"model":""}"#, "model: has 0 characters"),
            (r#"{"model":["a/b"]}"#, "model: invalid type"),
        ],
    )
    .await;
    refuses(
        &at("/interrupt"),
        &[
            ("[]", "expected an object"),
            (r#"{"clearQueue":1}"#, "clearQueue: invalid type"),
            (r#"{"clear_queue":true}"#, "unknown field `clear_queue`"),
        ],
    )
    .await;
    refuses(
        &at("/fork"),
        &[
            (r#"{"messageId":7}"#, "messageId: invalid type"),
            (r#"{"messageId":""}"#, "messageId: has 0 characters"),
            (r#"{"until":"m1"}"#, "unknown field `until`"),
        ],
    )
    .await;
    refuses(
        &at("/rewind"),
        &[
            ("{}", "missing field `checkpointId`"),
            (r#"{"checkpointId":7}"#, "checkpointId: invalid type"),
            (r#"{"checkpointId":""}"#, "checkpointId: has 0 characters"),
            (r#"{"checkpointId":"c","scope":"all"}"#, "scope: unknown variant `all`"),
            (r#"{"checkpointId":"c","force":"yes"}"#, "force: invalid type"),
        ],
    )
    .await;
    refuses(
        &at("/undo"),
        &[(r#"{"dryRun":0}"#, "dryRun: invalid type"), (r#"{"steps":2}"#, "unknown field `steps`")],
    )
    .await;
}

#[tokio::test]
async fn parameters() {
    let house = House::plain();
    for (path, expected) in [
        ("/v1/sessions?state=done", "state: is \"done\", expected idle"),
        ("/v1/sessions?state=", "state: is \"\", expected idle"),
        ("/v1/sessions?state=idle&state=idle", "state: came twice"),
        ("/v1/sessions?cwd=/", "\"cwd\": is no parameter of this route, expected state"),
        ("/v1/events?topics=", "topics: \"\" is unknown"),
        ("/v1/events?topics=state,logs", "topics: \"logs\" is unknown"),
        ("/v1/events?topic=state", "\"topic\": is no parameter"),
        (&at("/messages?limit=0"), "limit: is \"0\", expected a whole number of 1 to 1000"),
        (&at("/messages?limit=1001"), "limit: is \"1001\""),
        (&at("/messages?limit=ten"), "limit: is \"ten\""),
        (&at("/messages?limit=-1"), "limit: is \"-1\""),
        (&at("/messages?after="), "after: is \"\", expected the id of a message"),
        (&at("/messages?after=a%2Fb"), "after: is \"a/b\""),
        (&at("/messages?before=m1"), "\"before\": is no parameter"),
        (&at("/events?last_event_id=x"), "last_event_id: is \"x\", expected a whole number"),
        (&at("/events?last_event_id=-1"), "last_event_id: is \"-1\""),
        (&at("/events?last_event_id="), "last_event_id: is \"\""),
        (&at("/events?last_event_id=18446744073709551616"), "last_event_id: is \"1844"),
        (&at("/events?lastEventId=1"), "\"lastEventId\": is no parameter"),
    ] {
        let (status, code, message) = house.get(path).await.refusal();
        assert_eq!((status, code.as_str()), (400, "validation_error"), "{path}");
        assert!(message.contains(expected), "{path}\n  says {message}\n  not {expected}");
    }
    for query in ["?purge=yes", "?purge=", "?purge=1", "?force=true"] {
        let (status, _, message) = house.delete(&at(query)).await.refusal();
        assert_eq!(status, 400, "{query}");
        assert!(message.contains("purge"), "{message}");
    }
    for last in ["x", "", "1 2", "1.5", "ü"] {
        let request = request(Method::GET, &at("/events"))
            .header("last-event-id", last.as_bytes())
            .body(Body::empty());
        let (status, _, message) = house.ask(request.unwrap()).await.refusal();
        assert_eq!(status, 400, "{last}");
        assert!(message.starts_with("Last-Event-ID: is "), "{message}");
    }
    assert!(house.runtime.calls().is_empty());
}

#[tokio::test]
async fn no_route_takes_parameters_that_it_does_not_have() {
    let house = House::plain();
    for (path, item) in DOCUMENT["paths"].as_object().unwrap() {
        let real = path.replace("{sessionId}", ID).replace("{requestId}", "r");
        let real = real.replace("{taskId}", "t") + "?surprise=1";
        for method in item.as_object().unwrap().keys() {
            let method: Method = method.to_ascii_uppercase().parse().unwrap();
            let asked = request(method.clone(), &real).body(Body::empty()).unwrap();
            let (status, code, message) = house.ask(asked).await.refusal();
            assert_eq!((status, code.as_str()), (400, "validation_error"), "{method} {real}");
            assert!(message.starts_with("\"surprise\": is no parameter"), "{message}");
        }
    }
    assert!(house.runtime.calls().is_empty());
}

#[tokio::test]
async fn a_message_never_repeats_all_of_a_large_value() {
    let house = House::new(FakeRuntime::new().session(open_session()));
    let huge = "x".repeat(900_000);
    for body in
        [json!({"mode": huge}), json!({"cwd": "a".repeat(4_000)}), json!({huge.as_str(): 1})]
    {
        let (_, _, message) = house.post("/v1/sessions", &body).await.refusal();
        assert!(message.len() < 2_000, "{} bytes", message.len());
    }
}
