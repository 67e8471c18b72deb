//! Where to go on from an answer.

use serde_json::{Map, Value, json};

use super::placeholders;
use crate::operation::Operation;

/// Where to go on from what an operation answered: what a client, or a test, can do next. None
/// leads from the first item of a list, which may be empty.
pub(super) fn links(operation: &Operation, all: &[Operation]) -> Map<String, Value> {
    let mut links = Map::new();
    if !["createSession", "forkSession"].contains(&operation.id) {
        return links;
    }
    // Going back needs a checkpoint, which a new session has none of.
    let is_next = |next: &&Operation| placeholders(next.path).eq(["sessionId"]);
    for next in all.iter().filter(is_next).filter(|next| next.id != "rewind") {
        let parameters = json!({"sessionId": "$response.body#/id"});
        let link = json!({"operationId": next.id, "parameters": parameters});
        links.insert(next.id.to_owned(), link);
    }
    let resume = json!({"operationId": "createSession",
                        "requestBody": {"resume": "$response.body#/id"}});
    links.insert("resumeSession".to_owned(), resume);
    links
}
