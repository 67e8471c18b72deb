//! The messages of this door as a JSON schema, made of the types that read and write them.

use native_wire::{
    AnswerRequest, Checkpoints, Commands, Rewound, Session, SessionSpending, Tasks, Undone,
};
use protocol::event::{Persist, QuestionOption};
use protocol::{Effect, Event, Finding, Mode, Risk};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::params::{
    Fork, Initialize, ListSessions, NewSession, Nothing, OfSession, PullEvents, Push, Rewind,
    SendPrompt, SetMode, SetModel, Shutdown, Subscribe, Undo,
};
use crate::version::SUPPORTED;

/// Returns the schema: `hostMethods` are what a host asks, `agentMethods` what it is asked,
/// `agentNotifications` what it is told; each with `params` and `result`.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let host = host_methods(&mut generator);
    let agent = agent_methods(&mut generator);
    let told = notifications(&mut generator);
    let mut definitions = generator.take_definitions(true);
    definitions.insert("Message".to_owned(), message());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("Host protocol {SUPPORTED}"),
        "description": "JSON-RPC 2.0, one message per line, requests in both directions.",
        "$ref": "#/$defs/Message",
        "protocolVersion": SUPPORTED,
        "errors": errors(),
        "hostMethods": host,
        "agentMethods": agent,
        "agentNotifications": told,
        "$defs": definitions,
    })
}

/// What one line is.
fn message() -> Value {
    json!({
        "description": "One line: a request, a notification, or an answer.",
        "type": "object",
        "required": ["jsonrpc"],
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "id": {"type": ["string", "number", "null"]},
            "method": {"type": "string"},
            "params": {"type": "object"},
            "result": true,
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {
                    "code": {"type": "integer"},
                    "message": {"type": "string"},
                    "data": {"type": "object"}
                }
            }
        }
    })
}

fn errors() -> Value {
    json!({
        "-32700": "the line is no JSON, or too long",
        "-32600": "the JSON is no message, or initialize came a second time",
        "-32601": "there is no such method",
        "-32602": "params are wrong: the message begins with the field",
        "-32603": "a failure of ours",
        "-32000": "data.code tells: session_not_found, session_busy, locked_by_policy, \
            model_not_allowed, shutting_down, too_many_sessions, checkpoint_not_found, \
            request_not_found, request_resolved, queue_full, owned_elsewhere, payload_too_large, \
            not_supported, neuron_not_found, neuron_exists, neuron_not_running, no_capacity",
        "-32002": "initialize has to come first",
        "-32003": "auth.token is wrong; the connection is closed",
        "-32004": "no common version: data.supported lists those that are spoken here",
        "-32005": "the policy is rejected: data.reason tells why"
    })
}

#[allow(clippy::needless_pass_by_value, reason = "it is made where it is handed over")]
fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

#[allow(clippy::needless_pass_by_value, reason = "they are made where they are handed over")]
fn method(params: Value, result: Value) -> Value {
    json!({"params": params, "result": result})
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn host_methods(make: &mut SchemaGenerator) -> Value {
    let text = || json!({"type": "string"});
    let number = || json!({"type": "integer", "minimum": 0});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let nothing = || object(&[], json!({}));
    let gap = || object(&["from", "to"], json!({"from": number(), "to": number()}));
    let session = of::<Session>(make);
    let sessions = json!({"type": "array", "items": session});
    let event = of::<Event>(make);
    let numbered = object(&["seq", "event"], json!({"seq": number(), "event": event}));
    let mut answer = of::<AnswerRequest>(make);
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("description".to_owned(), json!("beside sessionId and requestId"));
    }
    let of_session = of::<OfSession>(make);
    let mut methods = Map::new();
    let mut add = |name: &str, params: Value, result: Value| {
        methods.insert(name.to_owned(), method(params, result));
    };
    add("initialize", of::<Initialize>(make), hello());
    add(
        "health",
        of::<Nothing>(make),
        object(
            &["status", "version", "uptimeMs", "sessions", "running"],
            json!({
                "status": {"const": "ok"}, "version": text(), "uptimeMs": number(),
                "sessions": number(), "running": number()
            }),
        ),
    );
    add("shutdown", of::<Shutdown>(make), nothing());
    add(
        "policy/push",
        of::<Push>(make),
        object(
            &["accepted", "id", "strippedKeys"],
            json!({"accepted": {"const": true}, "id": text(), "strippedKeys": texts()}),
        ),
    );
    add("session/new", of::<NewSession>(make), session.clone());
    add("session/load", of_session.clone(), session.clone());
    add(
        "session/list",
        of::<ListSessions>(make),
        object(&["sessions"], json!({"sessions": sessions, "nextCursor": text()})),
    );
    add("session/fork", of::<Fork>(make), session.clone());
    add("session/close", of_session.clone(), nothing());
    let accepted = object(&["promptId"], json!({"promptId": text()}));
    add("session/prompt", of::<SendPrompt>(make), accepted);
    let cancelled = object(&["cancelled"], json!({"cancelled": {"type": "boolean"}}));
    add("session/cancel", of_session.clone(), cancelled);
    add("session/set_model", of::<SetModel>(make), session.clone());
    add("session/set_mode", of::<SetMode>(make), session);
    let begun = object(&["lastSeq"], json!({"lastSeq": number(), "gap": gap()}));
    add("session/subscribe", of::<Subscribe>(make), begun);
    let pulled = json!({
        "events": {"type": "array", "items": numbered}, "lastSeq": number(), "gap": gap()
    });
    add("session/events", of::<PullEvents>(make), object(&["events", "lastSeq"], pulled));
    let ids =
        object(&["sessionId", "requestId"], json!({"sessionId": text(), "requestId": text()}));
    let taken = object(&["ok"], json!({"ok": {"const": true}}));
    add("session/answer", json!({"allOf": [ids, answer]}), taken);
    add("session/checkpoints", of_session.clone(), of::<Checkpoints>(make));
    add("session/rewind", of::<Rewind>(make), of::<Rewound>(make));
    add("session/undo", of::<Undo>(make), of::<Undone>(make));
    add("session/tasks", of_session.clone(), of::<Tasks>(make));
    add("session/usage", of_session.clone(), of::<SessionSpending>(make));
    add("session/commands", of_session, of::<Commands>(make));
    Value::Object(methods)
}

fn hello() -> Value {
    let text = || json!({"type": "string"});
    let yes = || json!({"type": "boolean"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let sessions = json!({"load": yes(), "fork": yes(), "rewind": yes()});
    object(
        &["protocolVersion", "agentInfo", "capabilities", "policy"],
        json!({
            "protocolVersion": text(),
            "agentInfo": object(&["name", "version"], json!({"name": text(), "version": text()})),
            "capabilities": object(
                &["sessions", "modes", "images"],
                json!({
                    "sessions": object(&["load", "fork", "rewind"], sessions),
                    "modes": texts(), "images": yes()
                }),
            ),
            "policy": object(&["locked"], json!({"locked": texts(), "source": text()})),
        }),
    )
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn agent_methods(make: &mut SchemaGenerator) -> Value {
    let text = || json!({"type": "string"});
    let number = || json!({"type": "integer", "minimum": 0});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let yes = || json!({"type": "boolean"});
    let nothing = || object(&[], json!({}));
    let request = |more: Value| {
        let mut properties = json!({"sessionId": text(), "requestId": text()});
        let mut required = vec!["sessionId".to_owned(), "requestId".to_owned()];
        if let (Some(properties), Value::Object(more)) = (properties.as_object_mut(), more) {
            required.extend(more.keys().cloned());
            properties.extend(more);
        }
        json!({"type": "object", "required": required, "properties": properties})
    };
    let card = card(make);
    let options = json!({"type": "array", "items": of::<QuestionOption>(make)});
    let outcome = object(
        &["outcome"],
        json!({
            "outcome": {"enum": ["allow_once", "allow_always", "deny"]}, "reason": text(),
            "rule": text(), "persist": of::<Persist>(make)
        }),
    );
    let question = json!({
        "question": text(), "options": options, "multiSelect": yes(), "allowOther": yes()
    });
    let chosen = json!({"answers": texts(), "other": text(), "dismissed": yes()});
    let decided = json!({"approved": yes(), "mode": of::<Mode>(make), "feedback": text()});
    let file = |more: Value| {
        let mut properties = json!({"sessionId": text(), "path": text()});
        if let (Some(properties), Value::Object(more)) = (properties.as_object_mut(), more) {
            properties.extend(more);
        }
        object(&["sessionId", "path"], properties)
    };
    let at =
        || object(&["sessionId", "terminalId"], json!({"sessionId": text(), "terminalId": text()}));
    let exit = || {
        let code = json!({"type": ["integer", "null"]});
        object(&[], json!({"exitCode": code, "signal": {"type": ["string", "null"]}}))
    };
    let variable = object(&["name", "value"], json!({"name": text(), "value": text()}));
    let command = object(
        &["sessionId", "command"],
        json!({
            "sessionId": text(), "command": text(), "args": texts(), "cwd": text(),
            "env": {"type": "array", "items": variable}, "outputByteLimit": number()
        }),
    );
    let reason = json!({"enum": ["initial", "expired", "rejected"]});
    let time = json!({"type": ["string", "null"], "format": "date-time"});
    let shown = json!({"output": text(), "truncated": yes(), "exitStatus": exit()});
    json!({
        "approval/request": method(request(json!({"approval": card})), outcome),
        "interaction/question": method(request(question), object(&[], chosen)),
        "interaction/plan": method(
            request(json!({"plan": text()})),
            object(&["approved"], decided),
        ),
        "auth/token": method(
            object(&["audience", "reason"], json!({"audience": text(), "reason": reason})),
            object(&["token"], json!({"token": text(), "expiresAt": time})),
        ),
        "fs/read_text_file": method(
            file(json!({"line": number(), "limit": number()})),
            object(&["content"], json!({"content": text()})),
        ),
        "fs/write_text_file": method(file(json!({"content": text()})), nothing()),
        "terminal/create": method(command, object(&["terminalId"], json!({"terminalId": text()}))),
        "terminal/output": method(at(), object(&["output", "truncated"], shown)),
        "terminal/wait_for_exit": method(at(), exit()),
        "terminal/kill": method(at(), nothing()),
        "terminal/release": method(at(), nothing()),
    })
}

fn card(make: &mut SchemaGenerator) -> Value {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let findings = json!({"type": "array", "items": of::<Finding>(make)});
    object(
        &[
            "toolName",
            "toolCallId",
            "effect",
            "summary",
            "input",
            "risk",
            "reason",
            "suggestedRules",
        ],
        json!({
            "toolName": text(), "toolCallId": text(), "effect": of::<Effect>(make),
            "summary": text(), "input": {"type": "object"}, "paths": texts(), "command": text(),
            "diff": text(), "risk": of::<Risk>(make), "reason": {"enum": ["ask", "review"]},
            "suggestedRules": texts(),
            "checks": object(
                &["blocking", "findings"],
                json!({"blocking": {"type": "boolean"}, "findings": findings}),
            ),
        }),
    )
}

fn notifications(make: &mut SchemaGenerator) -> Value {
    let text = || json!({"type": "string"});
    let number = || json!({"type": "integer", "minimum": 0});
    let gap = object(
        &["type", "from", "to", "dropped"],
        json!({
            "type": {"const": "replay_gap"}, "from": number(), "to": number(), "dropped": number()
        }),
    );
    let event = json!({"anyOf": [of::<Event>(make), gap]});
    let kinds =
        ["tool_call", "tool_result", "approval", "mode", "model", "policy", "prompt", "session"];
    let entry = object(
        &["seq", "ts", "kind", "event"],
        json!({
            "seq": number(), "ts": {"type": "string", "format": "date-time"}, "sessionId": text(),
            "kind": {"enum": kinds}, "event": text()
        }),
    );
    json!({
        "session/event": {"params": object(
            &["sessionId", "seq", "event"],
            json!({"sessionId": text(), "seq": number(), "event": event}),
        )},
        "activity/event": {"params": object(
            &["events"],
            json!({"events": {"type": "array", "items": entry}}),
        )},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        let schema = schema();
        let text = schema.to_string();
        for part in text.split("\"#/$defs/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schema["$defs"].get(name).is_some(), "{name}");
        }
        assert_eq!(schema["hostMethods"].as_object().unwrap().len(), 22);
        assert_eq!(schema["agentMethods"].as_object().unwrap().len(), 11);
    }
}
