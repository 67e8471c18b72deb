//! The envelope of a bundle: what is sent, fetched and kept.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{ENVELOPE_BYTES_MAX, Reason, Rejection};
use crate::canonical;

/// How many bytes a signature has.
const SIGNATURE_BYTES: usize = 64;

/// The longest name of a key, in bytes.
const KEY_ID_BYTES_MAX: usize = 200;

/// A bundle with its signature, as it came: nothing of it is believed yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// The bundle.
    pub bundle: Value,
    /// The signature over the bundle's canonical form, base64.
    pub signature: Option<String>,
    /// A name of the key, which only serves to say what is wrong.
    pub key_id: Option<String>,
}

impl Envelope {
    /// Reads the text of an envelope.
    ///
    /// # Errors
    /// [`Reason::Malformed`], with what is wrong.
    pub fn parse(text: &str) -> Result<Self, Rejection> {
        if text.len() > ENVELOPE_BYTES_MAX {
            let message = format!("it is longer than {ENVELOPE_BYTES_MAX} bytes");
            return Err(Rejection::new(Reason::Malformed, message));
        }
        let value = canonical::read(text).map_err(|error| {
            Rejection::new(Reason::Malformed, format!("not valid JSON: {error}"))
        })?;
        Self::from_value(&value)
    }

    /// Reads an envelope out of JSON that was read before.
    ///
    /// # Errors
    /// [`Reason::Malformed`], with what is wrong.
    pub fn from_value(value: &Value) -> Result<Self, Rejection> {
        let wrong = |what: String| Rejection::new(Reason::Malformed, what);
        let map = value.as_object().ok_or_else(|| wrong("it is no object".into()))?;
        let known = ["bundle", "signature", "keyId"];
        if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(wrong(format!("unknown key '{key}' beside the bundle")));
        }
        let text = |key: &str| match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong(format!("'{key}' must be a text"))),
        };
        let key_id = text("keyId")?;
        if key_id.as_ref().is_some_and(|id| id.len() > KEY_ID_BYTES_MAX) {
            return Err(wrong(format!("'keyId' is longer than {KEY_ID_BYTES_MAX} bytes")));
        }
        let bundle = map.get("bundle").cloned();
        let bundle = bundle.ok_or_else(|| wrong("'bundle' is missing".into()))?;
        Ok(Self { bundle, signature: text("signature")?, key_id })
    }

    /// Returns the JSON of the envelope.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("bundle".into(), self.bundle.clone());
        if let Some(signature) = &self.signature {
            map.insert("signature".into(), signature.as_str().into());
        }
        if let Some(key_id) = &self.key_id {
            map.insert("keyId".into(), key_id.as_str().into());
        }
        Value::Object(map)
    }
}

/// Reads a signature; `None` for what is none, an empty one too.
pub(super) fn signature_bytes(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok().filter(|bytes| bytes.len() == SIGNATURE_BYTES)
}
