//! How much of a prompt an earlier request had sent already: what a provider's cache would find.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash as _, Hasher as _};

use serde_json::Value;

use super::request::{Api, text_at};

/// How many prompts are kept for each opening. The newest ones are the longest; older ones
/// matter after a fork or a rewind only.
const PROMPTS_MAX: usize = 16;
/// How many bytes are compared at once.
const BLOCK_BYTES: usize = 256;

/// The prompts that came before, by what stands in front of their messages.
#[derive(Debug, Default)]
pub(super) struct Prompts(HashMap<u64, VecDeque<Vec<u8>>>);

impl Prompts {
    /// Measures the messages of a request against those before it and keeps them; returns their
    /// length and the longest common prefix.
    ///
    /// Only requests with an equal first message are compared: a provider caches no part of a
    /// message.
    pub(super) fn measure(&mut self, api: Api, model: &str, body: &Value) -> (usize, usize) {
        let list = body.get(api.messages_field()).and_then(Value::as_array);
        let list = list.map_or(&[][..], Vec::as_slice);
        let is_system =
            |message: &&Value| matches!(text_at(message, "role"), "system" | "developer");
        let system_count = list.iter().take_while(is_system).count();
        let (system, messages) = list.split_at(system_count);
        let mut hasher = DefaultHasher::new();
        (api, model).hash(&mut hasher);
        for field in ["system", "instructions", "systemInstruction", "tools"] {
            canonical(body.get(field).unwrap_or(&Value::Null)).hash(&mut hasher);
        }
        system.iter().for_each(|message| canonical(message).hash(&mut hasher));
        let mut bytes = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            bytes.extend(canonical(message));
            bytes.push(b'\n');
            if index == 0 {
                bytes.hash(&mut hasher);
            }
        }
        let earlier = self.0.entry(hasher.finish()).or_default();
        let shared = earlier.iter().map(|prompt| common(prompt, &bytes)).max().unwrap_or(0);
        let length = bytes.len();
        if earlier.len() == PROMPTS_MAX {
            earlier.pop_front();
        }
        earlier.push_back(bytes);
        (length, shared)
    }
}

/// Compares in blocks first: prompts are long and mostly equal.
fn common(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.chunks_exact(BLOCK_BYTES).zip(other.chunks_exact(BLOCK_BYTES));
    let equal = blocks.take_while(|(a, b)| a == b).count() * BLOCK_BYTES;
    let rest = one.iter().skip(equal).zip(other.iter().skip(equal));
    equal + rest.take_while(|(a, b)| a == b).count()
}

/// Writes a value as it was sent, without white space and without cache marks: a mark may move
/// from request to request and changes nothing of what a provider caches.
fn canonical(value: &Value) -> Vec<u8> {
    let mut value = value.clone();
    unmark(&mut value);
    value.to_string().into_bytes()
}

fn unmark(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(unmark),
        Value::Object(fields) => {
            fields.shift_remove("cache_control");
            fields.values_mut().for_each(unmark);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::common;

    #[test]
    fn the_common_prefix_is_exact_at_every_length() {
        let one: Vec<u8> = (0..700_u32).map(|index| (index % 251).to_le_bytes()[0]).collect();
        for length in 0..one.len() {
            let mut other = one.clone();
            other[length] ^= 1;
            assert_eq!(common(&one, &other), length);
            assert_eq!(common(&one, &one[..length]), length);
        }
    }
}
