//! The OpenAPI document, made from the table of operations and the types of the wire.
//!
//! Schemas come from the `schemars` derive that the protocol has anyway, so that a type has one
//! description; texts and lists carry their limits in their types. See [`crate::operation`].

mod links;
mod refusals;
pub(crate) mod schemas;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::links::links;
use self::refusals::Refusals;
use self::schemas::Schemas;
use crate::operation::{Operation, Tag};

/// Words before everything else.
const ABOUT: &str = "Drives agents over HTTP. Bodies are JSON; every route but `GET /v1/health` \
    needs `Authorization: Bearer <token>`; on a loopback bind the `Host` header has to name a \
    loopback address, and a foreign `Origin` is refused. What is refused has the body \
    `{\"error\": {\"code\", \"message\", \"requestId\"}}` with a stable code. Unknown fields and \
    parameters are refused by name. Times are RFC 3339 in UTC with milliseconds. Ids are opaque.";

/// What the document collects while operations are described.
struct Parts {
    schemas: Schemas,
    refusals: Refusals,
}

/// Returns the OpenAPI 3.1 document of this door. Its order is the same every time.
pub fn openapi() -> Value {
    let mut parts = Parts { schemas: Schemas::new(), refusals: Refusals::default() };
    let operations = crate::routes::operations();
    let mut paths: Map<String, Value> = Map::new();
    for operation in &operations {
        let item = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            let method = operation.method.as_str().to_ascii_lowercase();
            item.insert(method, describe(operation, &operations, &mut parts));
        }
    }
    let paths = Value::Object(paths);
    let refused = parts.refusals.into_components();
    let components = parts.schemas.into_components(&[&paths, &refused]);
    let tags = Tag::ALL.map(|tag| json!({"name": tag.name(), "description": tag.description()}));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Narthex, the v1 door",
            "description": ABOUT,
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "/", "description": "This server."}],
        "security": [{"bearer": []}],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {
                "type": "http", "scheme": "bearer",
                "description": "The token that the server printed at its start."
            }},
            "parameters": path_parameters(),
            "headers": headers(),
            "responses": refused,
            "schemas": components,
        },
    })
}

/// The parameters that stand in paths.
fn path_parameters() -> Value {
    let parameter = |name: &str, description: &str| {
        json!({"name": name, "in": "path", "required": true, "description": description,
               "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}})
    };
    json!({
        "sessionId": parameter("sessionId", "The session."),
        "requestId": parameter("requestId", "The request."),
        "taskId": parameter("taskId", "The task."),
    })
}

fn headers() -> Value {
    json!({
        "X-Request-Id": {
            "description": "The request's id: the client's own where it sent a usable one.",
            "schema": {"type": "string"}
        },
        "Idempotency-Replayed": {
            "description": "`true` on an answer that was given before.",
            "schema": {"type": "string", "const": "true"}
        },
        "Retry-After": {
            "description": "After how many seconds to come again.",
            "schema": {"type": "integer", "minimum": 0}
        },
        "Allow": {
            "description": "The methods that the route has.",
            "schema": {"type": "string"}
        },
        "WWW-Authenticate": {
            "description": "How to come in.",
            "schema": {"type": "string"}
        },
    })
}

fn describe(operation: &Operation, all: &[Operation], parts: &mut Parts) -> Value {
    let mut described = Map::new();
    described.insert("operationId".to_owned(), operation.id.into());
    described.insert("tags".to_owned(), json!([operation.tag.name()]));
    described.insert("summary".to_owned(), operation.summary.into());
    if !operation.description.is_empty() {
        described.insert("description".to_owned(), operation.description.into());
    }
    if operation.is_open {
        described.insert("security".to_owned(), json!([{}, {"bearer": []}]));
    }
    let parameters = parameters(operation);
    if !parameters.is_empty() {
        described.insert("parameters".to_owned(), parameters.into());
    }
    if let Some(request) = &operation.request {
        let examples: Map<_, _> = request
            .examples
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!({"value": value})))
            .collect();
        let limit = request.bytes_max / (1024 * 1024);
        described.insert(
            "requestBody".to_owned(),
            json!({
                "description": format!("At most {limit} MiB."),
                "required": request.is_required,
                "content": {"application/json": {
                    "schema": (request.schema)(&mut parts.schemas), "examples": examples
                }}
            }),
        );
    }
    described.insert("responses".to_owned(), responses(operation, all, parts));
    described.into()
}

/// The names between braces in a path.
fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|piece| piece.strip_prefix('{')?.strip_suffix('}'))
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let in_path = placeholders(operation.path)
        .map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
    let others = operation.parameters.iter().map(|parameter| {
        let place = if parameter.is_header { "header" } else { "query" };
        let mut value = json!({
            "name": parameter.name, "in": place, "required": false,
            "description": parameter.description, "schema": parameter.schema,
        });
        let is_list = parameter.schema.get("type").is_some_and(|kind| kind == "array");
        if let (true, Some(value)) = (is_list, value.as_object_mut()) {
            value.insert("style".to_owned(), "form".into());
            value.insert("explode".to_owned(), false.into());
        }
        value
    });
    in_path.chain(others).collect()
}

fn responses(operation: &Operation, all: &[Operation], parts: &mut Parts) -> Value {
    let Parts { schemas, refusals } = parts;
    let mut responses: BTreeMap<u16, Value> = BTreeMap::new();
    for reply in &operation.replies {
        let mut value = json!({
            "description": reply.description,
            "headers": {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}},
        });
        let Some(fields) = value.as_object_mut() else { continue };
        if let Some((media_type, schema)) = reply.content {
            let mut content = json!({"schema": schema(schemas)});
            if let (Some(example), Some(content)) = (&reply.example, content.as_object_mut()) {
                content.insert("example".to_owned(), example.clone());
            }
            fields.insert("content".to_owned(), json!({media_type: content}));
        }
        let links = links(operation, all);
        if reply.status.is_success() && !links.is_empty() {
            fields.insert("links".to_owned(), links.into());
        }
        let is_keyed = operation.parameters.iter().any(|it| it.name == "Idempotency-Key");
        if let (true, Some(Value::Object(headers))) = (is_keyed, fields.get_mut("headers")) {
            let header = json!({"$ref": "#/components/headers/Idempotency-Replayed"});
            headers.insert("Idempotency-Replayed".to_owned(), header);
        }
        responses.insert(reply.status.as_u16(), value);
    }
    refusals.put(&mut responses, operation, schemas);
    let responses = responses.into_iter().map(|(status, value)| (status.to_string(), value));
    Value::Object(responses.collect())
}
