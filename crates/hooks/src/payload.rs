//! What a hook reads on standard input: one JSON object.

use driver_api::{Happening, HookPlace, HookedCall, Spawn};
use protocol::Mode;
use serde_json::{Map, Value, json};

use crate::names::View;

/// Builds what a hook is told. `view` is the call in the words that the hook knows, at moments
/// with one.
///
/// # Errors
/// More bytes than a process may be given.
pub(crate) fn build(
    happening: &Happening,
    place: HookPlace<'_>,
    view: Option<&View>,
) -> Result<Vec<u8>, String> {
    let mut told = Map::new();
    let mut tell = |key: &str, value: Value| drop(told.insert(key.to_owned(), value));
    tell("session_id", place.session.as_str().into());
    tell("cwd", place.workspace.cwd().to_string_lossy().into());
    tell("permission_mode", common_mode(place.mode).into());
    tell("mode", place.mode.as_str().into());
    tell("hook_event_name", happening.moment().as_str().into());
    match happening {
        Happening::SessionStart { source } => tell("source", (*source).into()),
        Happening::UserPromptSubmit { prompt } => tell("prompt", prompt.as_str().into()),
        Happening::PreToolUse(call) => tell_call(&mut told, call, view),
        Happening::PermissionRequest { call, suggestions } => {
            tell("permission_suggestions", suggestions.as_slice().into());
            tell_call(&mut told, call, view);
        }
        Happening::PostToolUse { call, response, is_error } => {
            let response = json!({"content": response, "is_error": is_error, "success": !is_error});
            tell("tool_response", response);
            tell_call(&mut told, call, view);
        }
        Happening::Notification { message, kind } => {
            tell("message", message.as_str().into());
            tell("notification_type", (*kind).into());
        }
        Happening::Stop { is_repeated, text, .. } => {
            tell("stop_hook_active", (*is_repeated).into());
            tell("last_assistant_message", text.as_str().into());
        }
        Happening::PreCompact { automatic, focus } => {
            tell("trigger", trigger(*automatic).into());
            tell("custom_instructions", focus.as_deref().unwrap_or_default().into());
        }
    }
    written(told)
}

/// Returns what matchers are held against at moments without a tool; nothing where they count for
/// nothing.
pub(crate) fn kind(happening: &Happening) -> Option<&'static str> {
    match happening {
        Happening::SessionStart { source } => Some(source),
        Happening::Notification { kind, .. } => Some(kind),
        Happening::PreCompact { automatic, .. } => Some(trigger(*automatic)),
        Happening::UserPromptSubmit { .. }
        | Happening::PreToolUse(_)
        | Happening::PermissionRequest { .. }
        | Happening::PostToolUse { .. }
        | Happening::Stop { .. } => None,
    }
}

/// Returns the call of a moment that has one.
pub(crate) fn call(happening: &Happening) -> Option<&HookedCall> {
    match happening {
        Happening::PreToolUse(call)
        | Happening::PermissionRequest { call, .. }
        | Happening::PostToolUse { call, .. } => Some(call),
        Happening::SessionStart { .. }
        | Happening::UserPromptSubmit { .. }
        | Happening::Notification { .. }
        | Happening::Stop { .. }
        | Happening::PreCompact { .. } => None,
    }
}

fn trigger(automatic: bool) -> &'static str {
    if automatic { "auto" } else { "manual" }
}

/// The mode as existing hooks know it.
fn common_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "plan",
        Mode::Ask => "default",
        Mode::AutoEdit => "acceptEdits",
        Mode::FullAuto => "bypassPermissions",
    }
}

fn tell_call(told: &mut Map<String, Value>, call: &HookedCall, view: Option<&View>) {
    let (tool, input) = view.map_or((&call.tool, &call.input), |view| (&view.tool, &view.input));
    let pairs = [
        ("tool_name", tool.as_str().into()),
        ("tool_input", Value::Object(input.clone())),
        ("tool_use_id", call.id.as_str().into()),
        ("native_tool_name", call.tool.as_str().into()),
        ("native_tool_input", Value::Object(call.input.clone())),
        ("paths", call.paths.as_slice().into()),
    ];
    told.extend(pairs.map(|(key, value)| (key.to_owned(), value)));
}

fn written(mut told: Map<String, Value>) -> Result<Vec<u8>, String> {
    let write = |told: &Map<String, Value>| {
        serde_json::to_vec(told).map_err(|error| format!("write what it is told: {error}"))
    };
    let bytes = write(&told)?;
    if bytes.len() <= Spawn::STDIN_MAX {
        return Ok(bytes);
    }
    // A large file would be told twice; once may fit.
    told.shift_remove("native_tool_input");
    let bytes = write(&told)?;
    if bytes.len() <= Spawn::STDIN_MAX {
        return Ok(bytes);
    }
    let size = stdx::bytes(bytes.len() as u64);
    Err(format!("{size} are more than a hook can be told"))
}
