//! The schemas that are generated from the program's own types.

use door_cli::SchemaName;

use crate::settings::Document;

/// Returns a schema as JSON text.
pub(crate) fn text(name: SchemaName) -> String {
    let schema = match name {
        SchemaName::V1Openapi => return openapi(),
        SchemaName::HostProtocol => return host_protocol(),
        SchemaName::Event => schemars::schema_for!(protocol::Event),
        SchemaName::Config => schemars::schema_for!(Document),
    };
    // A schema is made of texts and numbers and always has a JSON form.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

/// Returns the OpenAPI document of the v1 door.
fn openapi() -> String {
    serde_json::to_string_pretty(&door_v1::openapi()).unwrap_or_default() + "\n"
}

/// Returns the messages of the host door.
fn host_protocol() -> String {
    serde_json::to_string_pretty(&door_host::schema()).unwrap_or_default() + "\n"
}
