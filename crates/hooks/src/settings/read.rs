//! Reads a set of hooks from a value, and says exactly what is wrong with it.

use driver_api::Moment;
use serde_json::{Map, Value};

use super::{
    COMMAND_BYTES_MAX, GROUPS_MAX, HOOKS_MAX, HookCommand, HookGroup, HookKind, HookSet,
    HookSetError, MATCHER_BYTES_MAX, TIMEOUT_DEFAULT, TIMEOUT_MAX,
};
use crate::matcher::Matcher;
use crate::nearest::{most_alike, nearest};

type Read<T> = Result<T, HookSetError>;

pub(super) fn file(value: &Value) -> Read<HookSet> {
    let map = object(value, "hooks")?;
    match map.get("hooks") {
        Some(inner) => {
            if let Some(other) = map.keys().find(|key| *key != "hooks") {
                let what = format!("unknown key '{other}' beside 'hooks'");
                return Err(HookSetError::new("hooks", what));
            }
            set(inner)
        }
        None => set(value),
    }
}

pub(super) fn set(value: &Value) -> Read<HookSet> {
    let mut set = HookSet::default();
    for (name, value) in object(value, "hooks")? {
        let moment = Moment::ALL.into_iter().find(|moment| moment.as_str() == name);
        let Some(moment) = moment else { return Err(unknown_moment(name)) };
        let at = format!("hooks.{name}");
        *set.groups_mut(moment) = list(value, &at, GROUPS_MAX, group)?;
    }
    Ok(set)
}

fn unknown_moment(name: &str) -> HookSetError {
    let known = Moment::ALL.map(Moment::as_str);
    let nearest = most_alike(name, &known).unwrap_or_default();
    let all = known.join(", ");
    let what = format!("no moment is called '{name}'; the nearest is '{nearest}' (known: {all})");
    HookSetError::new("hooks", what)
}

fn group(value: &Value, at: &str) -> Read<HookGroup> {
    let map = object(value, at)?;
    known_keys(map, at, &["matcher", "hooks"])?;
    let matcher = match map.get("matcher") {
        None | Some(Value::Null) => String::new(),
        Some(value) => text(value, &format!("{at}.matcher"), MATCHER_BYTES_MAX)?,
    };
    if let Err(why) = Matcher::compile(&matcher) {
        return Err(HookSetError::new(format!("{at}.matcher"), format!("'{matcher}': {why}")));
    }
    let inner = format!("{at}.hooks");
    let hooks = map.get("hooks").ok_or_else(|| HookSetError::new(at, "'hooks' is missing"))?;
    Ok(HookGroup { matcher, hooks: list(hooks, &inner, HOOKS_MAX, command)? })
}

fn command(value: &Value, at: &str) -> Read<HookCommand> {
    let map = object(value, at)?;
    known_keys(map, at, &["type", "command", "timeout"])?;
    if let Some(kind) = map.get("type").filter(|kind| *kind != "command") {
        let what = format!("{kind} is no kind of hook here; the only one is \"command\"");
        return Err(HookSetError::new(format!("{at}.type"), what));
    }
    let inner = format!("{at}.command");
    let command =
        map.get("command").ok_or_else(|| HookSetError::new(at, "'command' is missing"))?;
    let command = text(command, &inner, COMMAND_BYTES_MAX)?;
    if command.trim().is_empty() || command.contains('\0') {
        return Err(HookSetError::new(inner, "a command has words, and no NUL character"));
    }
    let timeout = match map.get("timeout") {
        None => TIMEOUT_DEFAULT,
        Some(value) => {
            let seconds = value.as_u64().filter(|seconds| (1..=TIMEOUT_MAX).contains(seconds));
            seconds.ok_or_else(|| {
                let what = format!("{value} is no number of seconds from 1 to {TIMEOUT_MAX}");
                HookSetError::new(format!("{at}.timeout"), what)
            })?
        }
    };
    Ok(HookCommand { kind: HookKind::Command, command, timeout })
}

fn object<'a>(value: &'a Value, at: &str) -> Read<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| HookSetError::new(at, "an object is expected here"))
}

fn list<T>(
    value: &Value,
    at: &str,
    limit: usize,
    read: impl Fn(&Value, &str) -> Read<T>,
) -> Read<Vec<T>> {
    let items = value.as_array().ok_or_else(|| HookSetError::new(at, "a list is expected here"))?;
    if items.len() > limit {
        let what = format!("{} entries are more than {limit}", items.len());
        return Err(HookSetError::new(at, what));
    }
    items.iter().enumerate().map(|(place, item)| read(item, &format!("{at}[{place}]"))).collect()
}

fn text(value: &Value, at: &str, limit: usize) -> Read<String> {
    let text = value.as_str().ok_or_else(|| HookSetError::new(at, "a text is expected here"))?;
    if text.len() > limit {
        let what = format!("{} bytes are more than {limit}", text.len());
        return Err(HookSetError::new(at, what));
    }
    Ok(text.to_owned())
}

fn known_keys(map: &Map<String, Value>, at: &str, known: &[&str]) -> Read<()> {
    let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let what = match nearest(key, known) {
        Some(nearest) => format!("unknown key '{key}'; did you mean '{nearest}'?"),
        None => format!("unknown key '{key}' (known: {})", known.join(", ")),
    };
    Err(HookSetError::new(at, what))
}
