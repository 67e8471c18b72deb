//! The OpenAPI document: whole, valid, and the same as the routes.

use std::collections::BTreeSet;

use axum::body::Body;
use http::Method;
use protocol::EventKind;
use protocol::event::EventClass;
use serde_json::Value;

use crate::house::{DOCUMENT, House, ID, fits, request, resolve};

fn operations() -> Vec<(String, String, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let of_path = |(path, item): (&String, &'static Value)| {
        let methods = item.as_object().unwrap().iter();
        let path = path.clone();
        methods.map(move |(method, it)| (method.clone(), path.clone(), it)).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of_path).collect()
}

#[tokio::test]
async fn every_operation_is_a_route_and_every_route_an_operation() {
    let house = House::plain();
    let paths: BTreeSet<_> = operations().into_iter().map(|(_, path, _)| path).collect();
    for path in paths {
        let real = path.replace("{sessionId}", ID).replace("{requestId}", "r");
        let real = real.replace("{taskId}", "t");
        // A method that no route has makes each tell the methods that it has.
        let asked = request(Method::TRACE, &real).body(Body::empty()).unwrap();
        let reply = house.raw(asked).await;
        let allow = reply.headers()["allow"].to_str().unwrap().to_owned();
        let told = allow.split(',').map(|it| it.trim().to_ascii_lowercase());
        let told: BTreeSet<_> = told.filter(|it| it != "head").collect();
        let described = DOCUMENT["paths"][&path].as_object().unwrap().keys().cloned();
        assert_eq!(told, described.collect(), "{path}");
    }
    assert_eq!(house.get("/openapi.json").await.json(), *DOCUMENT);
}

#[test]
fn operations_are_told_from_each_other_and_have_words() {
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations() {
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{id} twice");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{method} {path}");
        let in_path: BTreeSet<_> = path
            .split('/')
            .filter_map(|piece| piece.strip_prefix('{')?.strip_suffix('}'))
            .collect();
        let parameters = operation["parameters"].as_array().into_iter().flatten().map(resolve);
        let told: BTreeSet<_> = parameters
            .filter(|it| it["in"] == "path")
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(in_path, told, "{method} {path}");
        for status in ["400", "403", "404", "405", "500", "503"] {
            assert!(operation["responses"][status].is_object(), "{method} {path} lacks {status}");
        }
        // An open route lets everybody in.
        let is_open = operation["security"].is_array();
        assert_eq!(operation["responses"]["401"].is_object(), !is_open, "{method} {path}");
        if operation["requestBody"].is_object() {
            for status in ["408", "413", "415"] {
                assert!(operation["responses"][status].is_object(), "{path} lacks {status}");
            }
        }
    }
    assert_eq!(ids.len(), 26, "{ids:?}");
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &'static Value, found: &mut usize) {
        match value {
            Value::Object(fields) => {
                if let Some(place) = fields.get("$ref").and_then(Value::as_str) {
                    let target = DOCUMENT.pointer(place.strip_prefix('#').unwrap());
                    assert!(target.is_some(), "{place} leads nowhere");
                    *found += 1;
                }
                fields.values().for_each(|value| walk(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let mut found = 0;
    walk(&DOCUMENT, &mut found);
    assert!(found > 100, "{found}");
    // Nothing is kept that nobody refers to, and no two types fought for a name.
    for name in DOCUMENT["components"]["schemas"].as_object().unwrap().keys() {
        assert!(!name.ends_with(|it: char| it.is_ascii_digit()), "{name}");
    }
}

#[test]
fn examples_fit_their_schemas() {
    let mut seen = 0;
    for (method, path, operation) in operations() {
        let place = |what: &str| format!("{what} of {method} {path}");
        let body = &operation["requestBody"]["content"]["application/json"];
        for (name, example) in body["examples"].as_object().into_iter().flatten() {
            fits(&body["schema"], &example["value"])
                .unwrap_or_else(|error| panic!("{}: {error}", place(name)));
            seen += 1;
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let media = &resolve(response)["content"]["application/json"];
            if media["example"].is_object() {
                fits(&media["schema"], &media["example"])
                    .unwrap_or_else(|error| panic!("{}: {error}", place(status)));
                seen += 1;
            }
        }
    }
    assert!(seen > 150, "{seen}");
}

#[test]
fn bodies_are_closed_and_limited() {
    fn closed(schema: &'static Value, place: &str) {
        let schema = resolve(schema);
        if let Some(forms) = schema["oneOf"].as_array() {
            return forms.iter().for_each(|form| closed(form, place));
        }
        assert_eq!(schema["type"], "object", "{place}");
        assert_eq!(schema["additionalProperties"], false, "{place}");
    }
    for (method, path, operation) in operations() {
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        if body.is_object() {
            closed(body, &format!("{method} {path}"));
        }
    }
    let create = &DOCUMENT["components"]["schemas"]["CreateSession"]["properties"];
    assert_eq!(
        (&create["title"]["minLength"], &create["title"]["maxLength"]),
        (&1.into(), &200.into())
    );
    assert_eq!(create["allow"]["maxItems"], 200);
    assert_eq!(create["allow"]["items"]["maxLength"], 1_000);
}

#[test]
fn every_event_that_a_stream_shows_has_a_schema() {
    let union = &DOCUMENT["components"]["schemas"]["SessionEvent"];
    let mapping = union["discriminator"]["mapping"].as_object().unwrap();
    let told: BTreeSet<_> = mapping.keys().map(String::as_str).collect();
    let mut shown: BTreeSet<_> = EventKind::ALL
        .iter()
        .filter(|kind| kind.class() != EventClass::Internal)
        .map(|kind| kind.as_str())
        .collect();
    shown.insert("replay_gap");
    assert_eq!(told, shown);
    let feed =
        DOCUMENT["components"]["schemas"]["FeedEvent"]["discriminator"]["mapping"].as_object();
    let told: Vec<_> = feed.unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        told,
        [
            "snapshot_start",
            "session_state",
            "snapshot_end",
            "usage",
            "permission_request",
            "question_request",
            "plan_request",
            "request_resolved"
        ]
    );
}

#[test]
fn links_lead_to_operations_with_their_parameters() {
    let all = operations();
    let find = |id: &str| all.iter().find(|(_, _, it)| it["operationId"] == id);
    let mut seen = 0;
    for (_, path, operation) in &all {
        for response in operation["responses"].as_object().unwrap().values() {
            for (name, link) in response["links"].as_object().into_iter().flatten() {
                let (_, target, next) = find(link["operationId"].as_str().unwrap()).unwrap();
                for parameter in link["parameters"].as_object().into_iter().flatten() {
                    let in_path = target.contains(&format!("{{{}}}", parameter.0));
                    let others = next["parameters"].as_array().into_iter().flatten();
                    let known = others.into_iter().any(|it| it["name"] == *parameter.0);
                    assert!(in_path || known, "{name} of {path}");
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn the_document_is_the_same_every_time() {
    let text = |value: &Value| serde_json::to_string(value).unwrap();
    assert_eq!(text(&door_v1::openapi()), text(&DOCUMENT));
}
