//! The JSON that an answer must be, against a server that refuses what providers refuse.

use std::sync::Arc;

use driver_api::{Model, ModelRequest, ToolSpec};
use model::{Options, Provider, StructuredOutput, build};
use protocol::event::OutputFormat;
use protocol::{Block, Wire};
use serde_json::{Value, json};
use stdx::Secret;
use testkit::model_server::{Answer, ModelServer};
use tokio::sync::mpsc;

use crate::provider::request;

const WIRES: [(Wire, &str, &str); 4] = [
    (Wire::Anthropic, "claude-sonnet-4-6", "/output_config/format/schema"),
    (Wire::OpenaiResponses, "gpt-5", "/text/format/schema"),
    (Wire::OpenaiChat, "gpt-4o", "/response_format/json_schema/schema"),
    (Wire::Gemini, "gemini-3-pro", "/generationConfig/responseJsonSchema"),
];

fn model_of(
    server: &ModelServer,
    (name, wire, model): (&str, Wire, &str),
    structured_output: StructuredOutput,
) -> Arc<dyn Model> {
    let provider = Provider {
        name: name.to_owned(),
        wire,
        base_url: server.url(),
        key: Some(Secret::new("k".to_owned())),
        headers: vec![],
        structured_output,
    };
    let models = build(Options { providers: vec![provider], scenario: None }).unwrap();
    models.resolve(&format!("{name}/{model}")).unwrap()
}

fn asking(schema: Value, strict: bool) -> ModelRequest {
    let mut request = request("who?");
    request.output = Some(OutputFormat { name: Some("person".to_owned()), schema, strict });
    request.tools = [ToolSpec {
        name: "grep".to_owned(),
        description: "finds".to_owned(),
        input_schema: json!({"type": "object", "properties": {}}),
    }]
    .into();
    request
}

/// Asks and returns the body of the request; nothing of it may break a rule.
async fn body_of(server: &ModelServer, model: &dyn Model, request: &ModelRequest) -> Value {
    server.push(Answer::text("{\"name\":\"Ada\"}"));
    let (sender, _deltas) = mpsc::channel(64);
    let answer = model.ask(request, sender).await.unwrap();
    assert_eq!(answer.content, [Block::text("{\"name\":\"Ada\"}")]);
    server.assert_clean();
    server.request(server.request_count()).await.body.clone()
}

/// Schemas that people write, from closed to such as no provider is strict about.
fn schemas() -> Vec<Value> {
    let name = json!({"type": "string", "minLength": 1, "pattern": "^A"});
    vec![
        json!({"type": "object", "properties": {"name": {"type": "string"}},
            "required": ["name"], "additionalProperties": false}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {"name": name, "tags": {"type": "array", "items": {"type": "object",
            "properties": {"key": {"type": "string"}}, "required": ["key"]}}}}),
        json!({"type": "object", "properties": {"name": {"$ref": "#/$defs/name"}},
            "required": ["name"], "$defs": {"name": {"type": "object",
            "properties": {"first": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            "required": ["first"]}}}),
        json!({"type": "object"}),
        json!({"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}),
        json!({"oneOf": [{"type": "object"}, {"type": "null"}]}),
    ]
}

#[tokio::test]
async fn no_provider_is_asked_for_what_it_refuses() {
    let server = ModelServer::start().await;
    for (wire, name, place) in WIRES {
        // The name under which a server counts as the vendor's own.
        let model = model_of(&server, ("openai", wire, name), StructuredOutput::Auto);
        for (index, schema) in schemas().into_iter().enumerate() {
            for strict in [true, false] {
                let request = asking(schema.clone(), strict);
                let body = body_of(&server, &*model, &request).await;
                let is_native = body.pointer(place).is_some();
                let in_words = body.to_string().contains("must fit this JSON Schema of");
                assert!(is_native != in_words, "{wire:?} {schema}: {body}");
                assert!(is_native || index > 2, "{wire:?} {schema}: {body}");
            }
        }
    }
}

#[tokio::test]
async fn servers_and_models_that_do_not_know_it_are_told_in_words() {
    let server = ModelServer::start().await;
    let told = |name, wire, model, setting| {
        let model = model_of(&server, (name, wire, model), setting);
        let (server, request) = (&server, asking(schemas().remove(0), true));
        async move {
            let body = body_of(server, &*model, &request).await;
            body.to_string().contains("must fit this JSON Schema of")
        }
    };
    use StructuredOutput::{Auto, Native, Prompt};
    assert!(told("local", Wire::OpenaiChat, "qwen3", Auto).await);
    assert!(!told("local", Wire::OpenaiChat, "qwen3", Native).await);
    assert!(told("gemini", Wire::Gemini, "gemini-2.5-pro", Auto).await);
    for (wire, model, _) in WIRES {
        assert!(told("openai", wire, model, Prompt).await, "{wire:?}");
    }
}
