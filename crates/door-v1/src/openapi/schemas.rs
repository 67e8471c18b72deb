//! Schemas of bodies and events, with what they refer to.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use protocol::event::EventClass;
use protocol::{Event, EventKind};
use schemars::generate::{Contract, SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value, json};

use crate::feed::{SessionState, SnapshotEnd, SnapshotStart};
use crate::stream::ReplayGap;

/// Where the document keeps schemas.
const HOME: &str = "#/components/schemas/";

/// Collects schemas while the document is made: of what is read, and of what is written.
#[derive(Debug)]
pub(crate) struct Schemas {
    requests: SchemaGenerator,
    replies: SchemaGenerator,
    /// Made here: events and their unions.
    made: BTreeMap<String, Value>,
}

fn generator(contract: Contract) -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    settings.contract = contract;
    settings.into_generator()
}

/// The requests that wait for an answer.
const REQUESTS: [EventKind; 3] =
    [EventKind::PermissionRequest, EventKind::QuestionRequest, EventKind::PlanRequest];

impl Schemas {
    pub(crate) fn new() -> Self {
        Self {
            requests: generator(Contract::Deserialize),
            replies: generator(Contract::Serialize),
            made: BTreeMap::new(),
        }
    }

    /// Returns the schema of a body that is read.
    pub(crate) fn of_request<T: JsonSchema>(&mut self) -> Value {
        self.requests.subschema_for::<T>().into()
    }

    /// Returns the schema of a body that is written.
    pub(crate) fn of_reply<T: JsonSchema>(&mut self) -> Value {
        self.replies.subschema_for::<T>().into()
    }

    /// Returns the schema of what a frame of a session's stream holds.
    pub(crate) fn session_event(&mut self) -> Value {
        let mut forms = self.events(|kind| kind.class() != EventClass::Internal);
        forms.push(("replay_gap", self.of_reply::<ReplayGap>()));
        self.union("SessionEvent", "What a frame of a session's stream holds.", &forms)
    }

    /// Returns the schema of what a frame of the multiplexed stream holds.
    pub(crate) fn feed_event(&mut self) -> Value {
        let is_fed = |kind: EventKind| {
            REQUESTS.contains(&kind)
                || matches!(kind, EventKind::RequestResolved | EventKind::Usage)
        };
        let mut forms = vec![
            ("snapshot_start", self.of_reply::<SnapshotStart>()),
            ("session_state", self.of_reply::<SessionState>()),
            ("snapshot_end", self.of_reply::<SnapshotEnd>()),
        ];
        forms.extend(self.events(is_fed));
        self.union("FeedEvent", "What a frame of the multiplexed stream holds.", &forms)
    }

    /// Returns the schema of a request that waits.
    pub(crate) fn request(&mut self) -> Value {
        let forms = self.events(|kind| REQUESTS.contains(&kind));
        self.union("Request", "A request that waits for an answer.", &forms)
    }

    fn union(&mut self, name: &str, description: &str, forms: &[(&str, Value)]) -> Value {
        let one_of: Vec<_> = forms.iter().map(|(_, schema)| schema.clone()).collect();
        let mapping: Map<_, _> = forms
            .iter()
            .filter_map(|(kind, schema)| Some(((*kind).to_owned(), schema.get("$ref")?.clone())))
            .collect();
        let union = json!({
            "description": description, "oneOf": one_of,
            "discriminator": {"propertyName": "type", "mapping": mapping}
        });
        self.made.insert(name.to_owned(), union);
        json!({"$ref": format!("{HOME}{name}")})
    }

    /// Makes one closed schema per kind of event: its own fields and those of the envelope.
    fn events(&mut self, is_wanted: impl Fn(EventKind) -> bool) -> Vec<(&'static str, Value)> {
        let whole = Value::from(Event::json_schema(&mut self.replies));
        let envelope = whole.get("properties").cloned().unwrap_or_default();
        let forms = whole.get("oneOf").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut made = Vec::new();
        for form in forms {
            let name = form.pointer("/properties/type/const").and_then(Value::as_str);
            let Some(kind) = name.and_then(EventKind::from_wire) else { continue };
            if !is_wanted(kind) {
                continue;
            }
            let title = format!("{}Event", pascal(kind.as_str()));
            if !self.made.contains_key(&title) {
                let event = self.event(&form, &envelope, kind);
                self.made.insert(title.clone(), event);
            }
            made.push((kind.as_str(), json!({"$ref": format!("{HOME}{title}")})));
        }
        made
    }

    fn event(&self, form: &Value, envelope: &Value, kind: EventKind) -> Value {
        let body = form.get("$ref").and_then(Value::as_str).unwrap_or_default();
        let body = body.strip_prefix(HOME).and_then(|name| self.replies.definitions().get(name));
        let field = |name: &str| body.and_then(|body| body.get(name));
        let mut properties = Map::new();
        properties.insert("type".to_owned(), json!({"type": "string", "const": kind.as_str()}));
        let own = field("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        properties.extend(own);
        properties.extend(envelope.as_object().cloned().unwrap_or_default());
        let mut required = vec![json!("type")];
        required.extend(field("required").and_then(Value::as_array).cloned().unwrap_or_default());
        required.extend([json!("sessionId"), json!("ts")]);
        // Fields that repeat (session_start names its session in the envelope) are asked for once.
        let mut seen = BTreeSet::new();
        required.retain(|name| seen.insert(name.to_string()));
        json!({
            "description": form.get("description"), "type": "object",
            "properties": properties, "required": required
        })
    }

    /// Returns all schemas that `roots` refers to, directly or not, by name.
    pub(crate) fn into_components(mut self, roots: &[&Value]) -> Value {
        // `Request` is written by hand and referred to by its name alone.
        self.request();
        let mut all: BTreeMap<String, Value> =
            self.replies.take_definitions(true).into_iter().collect();
        // An event holds more than its body, which may bear the same name (`UsageEvent`).
        all.extend(self.made);
        for schema in all.values_mut() {
            never_null(schema);
        }
        for (name, schema) in self.requests.take_definitions(true) {
            all.entry(name).or_insert(schema);
        }
        let mut used = BTreeSet::new();
        let mut found = Vec::new();
        roots.iter().for_each(|root| referred(root, &mut found));
        while let Some(name) = found.pop() {
            if let Some(schema) = all.get(&name).filter(|_| !used.contains(&name)) {
                referred(schema, &mut found);
                used.insert(name);
            }
        }
        all.retain(|name, _| used.contains(name));
        all.into_iter().collect::<Map<_, _>>().into()
    }
}

/// Collects the names of schemas that a value refers to.
fn referred(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(name)) = fields.get("$ref") {
                found.extend(name.strip_prefix(HOME).map(str::to_owned));
            }
            fields.values().for_each(|value| referred(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| referred(value, found)),
        _ => {}
    }
}

/// What may be absent is left out when it is not there, and never sent as null: the derive cannot
/// know that.
fn never_null(schema: &mut Value) {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            if !required.iter().any(|it| it == name) {
                without_null(property);
            }
        }
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(never_null),
        Value::Array(items) => items.iter_mut().for_each(never_null),
        _ => {}
    }
}

fn without_null(property: &mut Value) {
    let Some(fields) = property.as_object_mut() else { return };
    if let Some(Value::Array(kinds)) = fields.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            fields.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(forms)) = fields.get_mut("anyOf") {
        forms.retain(|form| form.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(form)] = forms.as_slice() {
            let form = form.clone();
            fields.remove("anyOf");
            fields.extend(form);
        }
    }
}

/// Turns `tool_call` into `ToolCall`.
pub(super) fn pascal(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for word in name.split('_') {
        let mut letters = word.chars();
        text.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        text.push_str(letters.as_str());
    }
    text
}

impl JsonSchema for crate::wire::Request {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Request".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"$ref": format!("{HOME}Request")})
    }
}
