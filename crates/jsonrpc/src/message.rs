//! Messages: what a line may be.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The id of a request of the other side, handed back in the answer as it came.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Id(Value);

impl Id {
    /// The id of an answer to what has none that can be told.
    pub(crate) const NONE: Id = Id(Value::Null);

    fn of(value: &Value) -> Option<Self> {
        (value.is_string() || value.is_number()).then(|| Self(value.clone()))
    }
}

/// Something that the other side asks or tells.
#[derive(Debug)]
pub struct Call {
    /// The id to answer; none where nothing is to be answered.
    pub id: Option<Id>,
    /// What it asks.
    pub method: String,
    /// With what: an object, a list, or null where there is nothing.
    pub params: Value,
}

/// An answer that says no.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// The code: -32768 to -32000 are those of the protocol.
    pub code: i64,
    /// One sentence for people.
    #[serde(default)]
    pub message: String,
    /// What programs read besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl ErrorObject {
    /// The line is no JSON.
    pub const PARSE: i64 = -32700;
    /// The JSON is no message, or the message has no place here.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub const NO_METHOD: i64 = -32601;
    /// The params are wrong.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A failure of ours.
    pub const INTERNAL: i64 = -32603;

    /// Makes an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds what programs read.
    #[must_use]
    pub fn with(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// What a line is.
pub(crate) enum Message {
    Call(Call),
    Answer(u64, Result<Value, ErrorObject>),
    /// An answer to nothing that was asked here.
    Stray,
    /// No message; to be answered so.
    Wrong(Id, ErrorObject),
}

impl Message {
    pub(crate) fn read(line: &[u8]) -> Self {
        let wrong =
            |id: Id, code: i64, what: &str| Message::Wrong(id, ErrorObject::new(code, what));
        let value: Value = match serde_json::from_slice(line) {
            Ok(value) => value,
            Err(error) => {
                return wrong(Id::NONE, ErrorObject::PARSE, &format!("no JSON: {error}"));
            }
        };
        let Value::Object(mut map) = value else {
            let what = "expected one object per line; batches are not taken";
            return wrong(Id::NONE, ErrorObject::INVALID_REQUEST, what);
        };
        let id = map.get("id").and_then(Id::of);
        let told = || id.clone().unwrap_or(Id::NONE);
        if map.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return wrong(told(), ErrorObject::INVALID_REQUEST, "jsonrpc: expected \"2.0\"");
        }
        if !map.contains_key("method") {
            return Self::answer(&mut map, told());
        }
        let Some(Value::String(method)) = map.remove("method") else {
            return wrong(told(), ErrorObject::INVALID_REQUEST, "method: expected a text");
        };
        if map.contains_key("id") && id.is_none() {
            let what = "id: expected a text or a number";
            return wrong(Id::NONE, ErrorObject::INVALID_REQUEST, what);
        }
        let params = map.remove("params").unwrap_or_default();
        if !(params.is_object() || params.is_array() || params.is_null()) {
            let what = "params: expected an object";
            return wrong(told(), ErrorObject::INVALID_REQUEST, what);
        }
        Message::Call(Call { id, method, params })
    }

    fn answer(map: &mut Map<String, Value>, told: Id) -> Self {
        let number = map.get("id").and_then(Value::as_u64);
        let answer = match (map.remove("result"), map.remove("error")) {
            (Some(result), None) => Ok(result),
            (None, Some(error)) => Err(serde_json::from_value(error).unwrap_or_else(|_| {
                ErrorObject::new(ErrorObject::INTERNAL, "an error without a code")
            })),
            _ => {
                let what = "expected a method, or a result or an error";
                let error = ErrorObject::new(ErrorObject::INVALID_REQUEST, what);
                return Message::Wrong(told, error);
            }
        };
        number.map_or(Message::Stray, |number| Message::Answer(number, answer))
    }
}

/// Writes a request or, without an id, a notification.
pub(crate) fn call(id: Option<u64>, method: &str, params: &Value) -> Vec<u8> {
    #[derive(Serialize)]
    struct Outgoing<'a> {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        method: &'a str,
        params: &'a Value,
    }
    line(&Outgoing { jsonrpc: "2.0", id, method, params })
}

/// Writes an answer.
pub(crate) fn answer(id: &Id, answer: &Result<Value, ErrorObject>) -> Vec<u8> {
    match answer {
        Ok(result) => line(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
        Err(error) => line(&json!({"jsonrpc": "2.0", "id": id, "error": error})),
    }
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // Texts, numbers and JSON values have a JSON form always.
    let mut line = serde_json::to_vec(message).unwrap_or_else(|error| {
        tracing::error!(%error, "a message has no JSON form");
        b"{\"jsonrpc\":\"2.0\",\"method\":\"$/lost\"}".to_vec()
    });
    line.push(b'\n');
    line
}
