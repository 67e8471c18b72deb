//! Fields of JSON objects that are there only sometimes.

use serde_json::Value;

/// Puts a field into an object.
pub(crate) fn put(object: &mut Value, name: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = object {
        fields.insert(name.to_owned(), value.into());
    }
}
