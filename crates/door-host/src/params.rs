//! What a host's requests hold.

use jsonrpc::ErrorObject;
use native_wire::limited::{List, Object, Text, Word};
use native_wire::{ATTACHMENTS_MAX, AnswerRequest, Attachment, PROMPT_BYTES_MAX};
use protocol::Mode;
use protocol::event::RewindScope;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::capabilities::Capabilities;
use crate::error::invalid;

/// Characters of an id; the core's have 26, imported ones may be longer.
pub(crate) type IdText = Text<1, 64>;

/// Sessions of one list.
pub(crate) const LIST_MAX: u64 = 200;

/// Events of one pull.
pub(crate) const EVENTS_MAX: u64 = 2_000;

/// Reads params; where there are none, those of an empty object.
///
/// # Errors
/// -32602, with the field that is wrong.
pub(crate) fn read<T: DeserializeOwned>(params: Value) -> Result<T, ErrorObject> {
    let params = if params.is_null() { Value::Object(Map::new()) } else { params };
    let read: Result<Object<T>, _> = serde_path_to_error::deserialize(params);
    match read {
        Ok(Object(read)) => Ok(read),
        Err(error) => {
            let path = error.path().to_string();
            let what = error.into_inner();
            Err(invalid(if path == "." { what.to_string() } else { format!("{path}: {what}") }))
        }
    }
}

/// Who a host is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct ClientInfo {
    /// Its name.
    pub(crate) name: Text<1, 200>,
    /// Its version.
    pub(crate) version: Text<1, 200>,
}

/// How a host shows who it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct Auth {
    /// The token of the socket.
    #[expect(dead_code, reason = "it is held against the socket's before the rest is read")]
    pub(crate) token: Option<Text<0, 4_096>>,
}

/// `initialize`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Initialize {
    /// The version of the protocol that the host speaks, for example `1.0.0`.
    #[expect(dead_code, reason = "it is looked at before the rest is read")]
    pub(crate) protocol_version: Text<0, 100>,
    /// Who it is.
    pub(crate) client_info: Object<ClientInfo>,
    /// What it can do.
    pub(crate) capabilities: Object<Capabilities>,
    /// Needed on a socket.
    #[expect(dead_code, reason = "it is looked at before the rest is read")]
    pub(crate) auth: Option<Object<Auth>>,
}

/// Nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct Nothing {}

/// `shutdown`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Shutdown {
    /// How long running turns may go on, in milliseconds; as `--grace` says where absent.
    pub(crate) grace_ms: Option<u32>,
}

/// `policy/push`. What the bundle holds is looked at when its signature was.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Push {
    /// The bundle: `version`, `id`, `issuedAt`, `expiresAt`, `settings`.
    pub(crate) bundle: Value,
    /// The Ed25519 signature over its canonical form (RFC 8785), in base64.
    pub(crate) signature: Option<Value>,
    /// The name of the key.
    pub(crate) key_id: Option<Value>,
}

/// `session/new`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct NewSession {
    /// The working folder, absolute.
    pub(crate) cwd: Text<1, 4_096>,
    /// The permission mode.
    pub(crate) mode: Option<Word<Mode>>,
    /// The model, `provider/model`.
    pub(crate) model: Option<Text<1, 128>>,
    /// A title; the first line of the first prompt by default.
    pub(crate) title: Option<Text<1, 200>>,
    /// Whether MCP servers of the settings are offered; they are.
    #[expect(dead_code, reason = "servers are those of the settings, whatever is said")]
    pub(crate) mcp: Option<bool>,
    /// Text after the system prompt.
    pub(crate) append_system_prompt: Option<Text<0, 100_000>>,
}

/// A request about one session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct OfSession {
    /// The session.
    pub(crate) session_id: IdText,
}

/// `session/list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct ListSessions {
    /// Where the last page ended: its `nextCursor`.
    pub(crate) cursor: Option<Text<1, 200>>,
    /// How many at most, 1 to 200; 50 where absent.
    pub(crate) limit: Option<u64>,
}

/// `session/fork`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Fork {
    /// The session.
    pub(crate) session_id: IdText,
    /// The last message of the copy; the whole session where absent.
    pub(crate) message_id: Option<IdText>,
}

/// `session/prompt`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct SendPrompt {
    /// The session.
    pub(crate) session_id: IdText,
    /// What is said.
    pub(crate) text: Text<1, PROMPT_BYTES_MAX>,
    /// What comes with it.
    pub(crate) attachments: Option<List<Object<Attachment>, ATTACHMENTS_MAX>>,
}

/// `session/set_model`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct SetModel {
    /// The session.
    pub(crate) session_id: IdText,
    /// The model, `provider/model`.
    pub(crate) model: Text<1, 128>,
}

/// `session/set_mode`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct SetMode {
    /// The session.
    pub(crate) session_id: IdText,
    /// The mode.
    pub(crate) mode: Word<Mode>,
}

/// `session/subscribe`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Subscribe {
    /// The session.
    pub(crate) session_id: IdText,
    /// The last number that was processed: what was recorded after it comes first. Live only
    /// where absent.
    pub(crate) after_seq: Option<u64>,
}

/// `session/events`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct PullEvents {
    /// The session.
    pub(crate) session_id: IdText,
    /// The last number that was processed; 0 where absent.
    pub(crate) after_seq: Option<u64>,
    /// How many at most, 1 to 2,000; 2,000 where absent.
    pub(crate) limit: Option<u64>,
}

/// `session/answer`: the fields of an answer of the v1 door beside these.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub(crate) struct SendAnswer {
    pub(crate) session_id: IdText,
    pub(crate) request_id: IdText,
    #[serde(flatten)]
    pub(crate) answer: AnswerRequest,
}

/// `session/rewind`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Rewind {
    /// The session.
    pub(crate) session_id: IdText,
    /// The checkpoint.
    pub(crate) checkpoint_id: IdText,
    /// What goes back; both where absent.
    pub(crate) scope: Option<Word<RewindScope>>,
    /// Whether paths that hold something else than the agent left are brought back as well.
    #[serde(default)]
    pub(crate) force: bool,
    /// Whether only to look what would happen.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// `session/undo`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Undo {
    /// The session.
    pub(crate) session_id: IdText,
    /// Whether paths that hold something else than the agent left are brought back as well.
    #[serde(default)]
    pub(crate) force: bool,
    /// Whether only to look what would happen.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// Reads a number that counts from 1.
///
/// # Errors
/// -32602 for one out of range.
pub(crate) fn limit(given: Option<u64>, default: u64, most: u64) -> Result<usize, ErrorObject> {
    let limit = given.unwrap_or(default);
    if !(1..=most).contains(&limit) {
        return Err(invalid(format!("limit: is {limit}, expected 1 to {most}")));
    }
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}
