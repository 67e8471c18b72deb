//! What operations refuse, each kind of answer described once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::schemas::{Schemas, pascal};
use crate::error::{Code, ErrorBody};
use crate::operation::Operation;

/// The refusals that operations share, by name.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<String, Value>);

impl Refusals {
    /// Puts what an operation refuses into its responses.
    pub(super) fn put(
        &mut self,
        responses: &mut BTreeMap<u16, Value>,
        operation: &Operation,
        schemas: &mut Schemas,
    ) {
        let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
        for code in codes(operation) {
            by_status.entry(code.status().as_u16()).or_default().push(code);
        }
        let error = schemas.of_reply::<ErrorBody>();
        for (status, codes) in by_status {
            if let Some(response) = responses.get_mut(&status) {
                also(response, &refusal(&error, status, &codes));
                continue;
            }
            let names: Vec<_> = codes.iter().map(|code| pascal(code.as_str())).collect();
            let name = names.join("Or");
            let place = json!({"$ref": format!("#/components/responses/{name}")});
            self.0.entry(name).or_insert_with(|| refusal(&error, status, &codes));
            responses.insert(status, place);
        }
    }

    /// Returns the shared ones.
    pub(super) fn into_components(self) -> Value {
        Value::Object(self.0.into_iter().collect())
    }
}

/// Every code that an operation may answer with: its own, those of its parameters
/// and body, those of the gate.
fn codes(operation: &Operation) -> BTreeSet<Code> {
    let mut codes: BTreeSet<Code> = operation.refusals.iter().copied().collect();
    codes.extend([
        Code::BadRequest,
        Code::ValidationError,
        Code::ForbiddenHost,
        Code::ForbiddenOrigin,
        Code::NotFound,
        Code::MethodNotAllowed,
        Code::InternalError,
        Code::ShuttingDown,
    ]);
    if !operation.is_open {
        codes.insert(Code::Unauthorized);
    }
    if operation.request.is_some() {
        codes.extend([Code::RequestTimeout, Code::PayloadTooLarge, Code::UnsupportedMediaType]);
    }
    codes
}

/// Describes a refusal of this status with one of these codes.
fn refusal(error: &Value, status: u16, codes: &[Code]) -> Value {
    let names: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    let said: Vec<_> =
        codes.iter().map(|code| format!("`{}`: {}", code.as_str(), code.meaning())).collect();
    let first = codes.first().map(|code| (code.as_str(), code.meaning())).unwrap_or_default();
    let mut headers = json!({"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}});
    let own = match status {
        401 => Some("WWW-Authenticate"),
        405 => Some("Allow"),
        429 | 503 => Some("Retry-After"),
        _ => None,
    };
    if let (Some(name), Some(headers)) = (own, headers.as_object_mut()) {
        let header = json!({"$ref": format!("#/components/headers/{name}")});
        headers.insert(name.to_owned(), header);
    }
    json!({
        "description": format!("{}.", said.join("; ")),
        "headers": headers,
        "content": {"application/json": {
            "schema": {
                "allOf": [error, {"type": "object", "properties": {"error": {
                    "type": "object", "properties": {"code": {"enum": names}}
                }}}]
            },
            "example": {"error": {
                "code": first.0, "message": first.1,
                "requestId": "0193a1f0-7c9e-7b52-8d41-5f2f3c1a9e77"
            }}
        }}
    })
}

/// Joins a refusal into an answer of the same status.
fn also(response: &mut Value, refusal: &Value) {
    for (part, fields) in [("headers", refusal.get("headers")), ("content", refusal.get("content"))]
    {
        let own = response.get_mut(part).and_then(Value::as_object_mut);
        let (Some(own), Some(Value::Object(fields))) = (own, fields) else { continue };
        for (name, value) in fields {
            match own.get_mut(name).and_then(|it| it.get_mut("schema")) {
                Some(schema) if part == "content" => {
                    *schema = json!({"anyOf": [schema.take(), value.get("schema")]});
                }
                _ => drop(own.insert(name.clone(), value.clone())),
            }
        }
    }
    let more = refusal.get("description").and_then(Value::as_str).unwrap_or_default();
    if let Some(Value::String(description)) = response.get_mut("description") {
        *description = format!("{description} Or {more}");
    }
}
