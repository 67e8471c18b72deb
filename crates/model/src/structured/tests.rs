//! Formats on every wire.

use protocol::Block;
use serde_json::json;

use super::*;
use crate::recorded::{body_for, format, request, target, user};
use crate::table::Thinking;

const WIRES: [Wire; 4] = [Wire::Anthropic, Wire::OpenaiResponses, Wire::OpenaiChat, Wire::Gemini];

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name", "age"]
    })
}

fn asking(output: Option<OutputFormat>) -> ModelRequest {
    let mut request = request(vec![user(vec![Block::text("who?")])]);
    request.output = output;
    request
}

fn with(schemas: Schemas) -> Target {
    Target { schemas, ..target(Thinking::None) }
}

/// Finds the format in a body, where there is one.
fn sent(wire: Wire, body: &Value) -> Option<&Value> {
    match wire {
        Wire::Anthropic => body.pointer("/output_config/format/schema"),
        Wire::OpenaiResponses => body.pointer("/text/format"),
        Wire::Gemini => body.pointer("/generationConfig/responseJsonSchema"),
        Wire::OpenaiChat | Wire::Scripted => body.pointer("/response_format/json_schema"),
    }
}

fn system(wire: Wire, body: &Value) -> &str {
    let place = match wire {
        Wire::Anthropic => "/system/0/text",
        Wire::OpenaiResponses => "/instructions",
        Wire::Gemini => "/systemInstruction/parts/0/text",
        Wire::OpenaiChat | Wire::Scripted => "/messages/0/content",
    };
    body.pointer(place).and_then(Value::as_str).unwrap()
}

#[test]
fn each_wire_sends_it_by_its_own_means_beside_tools() {
    let request = asking(format(person(), true));
    let mut closed = person();
    closed["additionalProperties"] = json!(false);
    for wire in WIRES {
        let body = body_for(wire, &with(Schemas::Taken), &request);
        assert_eq!(system(wire, &body), "be brief", "{wire:?}");
        let sent = sent(wire, &body).unwrap();
        match wire {
            Wire::Anthropic => {
                assert_eq!(sent["additionalProperties"], false);
                let age = json!({"type": "integer", "description": "{\"minimum\":0}"});
                assert_eq!(sent["properties"]["age"], age);
            }
            Wire::Gemini => assert_eq!(*sent, person()),
            _ => {
                assert_eq!((&sent["name"], &sent["strict"]), (&json!("answer"), &json!(true)));
                assert_eq!(sent["schema"], closed);
            }
        }
    }
}

#[test]
fn in_words_it_stands_behind_the_system_prompt() {
    let mut output = format(person(), true);
    output.as_mut().unwrap().name = Some("person".to_owned());
    let request = asking(output);
    for wire in WIRES {
        for schemas in [Schemas::Refused, Schemas::TakenAlone] {
            let body = body_for(wire, &with(schemas), &request);
            assert!(sent(wire, &body).is_none(), "{wire:?}: {body}");
            let system = system(wire, &body);
            assert!(system.starts_with("be brief\n\nYour last answer"), "{system}");
            assert!(system.ends_with(&format!("\"person\":\n{}", person())), "{system}");
        }
        let mut alone = request.clone();
        alone.tools = [].into();
        let body = body_for(wire, &with(Schemas::TakenAlone), &alone);
        assert!(sent(wire, &body).is_some(), "{wire:?}: {body}");
    }
    let body = body_for(Wire::Gemini, &with(Schemas::Refused), &request);
    assert!(body.get("generationConfig").is_none(), "no type of an answer without its schema");
}

#[test]
fn names_become_words_that_wires_take() {
    let mut output = format(person(), true);
    output.as_mut().unwrap().name = Some("a name".to_owned());
    let body = body_for(Wire::OpenaiResponses, &with(Schemas::Taken), &asking(output));
    let name = sent(Wire::OpenaiResponses, &body).unwrap()["name"].as_str().unwrap();
    assert!(name.starts_with("a_name_") && name.len() <= 64, "{name}");
}

#[test]
fn openai_is_strict_about_what_it_can_be_strict_about() {
    let strict = |schema: Value| fit::openai(&schema, true).map(|(_, is_strict)| is_strict);
    let of = |property: Value| {
        let properties = json!({"a": property});
        json!({"type": "object", "properties": properties, "required": ["a"]})
    };
    assert_eq!(strict(person()), Some(true));
    assert_eq!(fit::openai(&person(), false).map(|(_, is_strict)| is_strict), Some(false));
    for taken in [
        json!({"type": ["string", "null"]}),
        json!({"anyOf": [{"type": "string"}, of(json!({"const": 1}))]}),
        json!({"type": "array", "items": {"enum": ["x"]}, "minItems": 2}),
        json!({"type": "string", "format": "date"}),
        // A property may have the name of a keyword.
        json!({"type": "object", "properties": {"allOf": {"type": "string"}},
            "required": ["allOf"], "additionalProperties": false}),
    ] {
        assert_eq!(strict(of(taken.clone())), Some(true), "{taken}");
    }
    let mut optional = person();
    optional["required"] = json!(["name"]);
    assert_eq!(strict(optional), Some(false), "what is optional stays so");
    for loose in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"],
            "additionalProperties": {"type": "string"}}),
        json!({"allOf": [{"type": "string"}]}),
        json!({"type": "string", "minLength": 3}),
        json!({"type": "string", "format": "iri"}),
        json!({}),
        json!(true),
    ] {
        assert_eq!(strict(of(loose.clone())), Some(false), "{loose}");
    }
    for refused in [
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"type": "object", "anyOf": [{"type": "object"}]}),
        json!({"anyOf": [{"type": "object"}]}),
        json!(true),
    ] {
        assert_eq!(strict(refused.clone()), None, "{refused}");
        let body = body_for(
            Wire::OpenaiChat,
            &with(Schemas::Taken),
            &asking(format(refused.clone(), true)),
        );
        assert!(system(Wire::OpenaiChat, &body).ends_with(&refused.to_string()));
    }
    let mut deep = json!({"type": "string"});
    for _ in 0..12 {
        deep = of(deep);
    }
    assert_eq!(strict(deep), Some(false));
}

#[test]
fn anthropic_gets_what_it_takes_and_the_rest_in_words() {
    let of = |property: Value| json!({"type": "object", "properties": {"a": property}});
    let text = json!({"type": "string", "maxLength": 9, "description": "A name.", "$comment": "c"});
    let fitted = fit::anthropic(&of(text)).unwrap();
    let said = "A name.\n{\"maxLength\":9}";
    assert_eq!(fitted["properties"]["a"], json!({"type": "string", "description": said}));
    assert!(fitted.get("required").is_none(), "what is optional stays so");
    for refused in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"b": {"type": "null"}},
            "additionalProperties": true}),
        json!({"oneOf": [{"type": "string"}]}),
        json!({"enum": [{"b": 1}]}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"$ref": "#"}),
    ] {
        assert!(fit::anthropic(&of(refused.clone())).is_none(), "{refused}");
    }
    let named = |parts: Value| {
        let mut schema = of(json!({"$ref": "#/$defs/x"}));
        schema["$defs"] = parts;
        schema
    };
    let chain = json!({"x": of(json!({"$ref": "#/$defs/y"})), "y": {"type": "string"}});
    assert!(fit::anthropic(&named(chain)).is_some());
    let circle =
        json!({"x": of(json!({"$ref": "#/$defs/y"})), "y": of(json!({"$ref": "#/$defs/x"}))});
    assert!(fit::anthropic(&named(circle.clone())).is_none());
    let (_, is_strict) = fit::openai(&person(), true).unwrap();
    assert!(is_strict);
}

#[test]
fn settings_and_models_decide() {
    use StructuredOutput::{Auto, Native, Prompt};
    for (setting, wire, model, is_vendor, expected) in [
        (Auto, Wire::Anthropic, "claude-sonnet-4-6", false, Schemas::Taken),
        (Auto, Wire::Anthropic, "claude-3-5-haiku-latest", false, Schemas::Refused),
        (Auto, Wire::OpenaiChat, "gpt-5", true, Schemas::Taken),
        (Auto, Wire::OpenaiChat, "qwen3:8b", false, Schemas::TakenAlone),
        (Auto, Wire::OpenaiResponses, "gpt-5", false, Schemas::Taken),
        (Auto, Wire::Gemini, "gemini-2.5-flash", false, Schemas::TakenAlone),
        (Auto, Wire::Gemini, "gemini-3-pro", false, Schemas::Taken),
        (Native, Wire::OpenaiChat, "qwen3:8b", false, Schemas::Taken),
        (Prompt, Wire::OpenaiResponses, "gpt-5", true, Schemas::Refused),
    ] {
        assert_eq!(Schemas::of(setting, wire, model, is_vendor), expected, "{setting:?} {model}");
    }
}
