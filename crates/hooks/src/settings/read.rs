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

/// Keys of existing files that stand beside the hooks and change nothing of them.
const HARMLESS_BESIDE: [&str; 2] = ["$schema", "description"];

/// A key of existing hooks that is for whoever watches them run.
const HARMLESS: &str = "statusMessage";

/// Keys of existing hooks that would make a hook mean something else than it does here, the value
/// with which they change nothing (in JSON), and what is said of any other.
const FOREIGN: [(&str, &str, &str); 5] = [
    ("once", "false", "the hook would run every time; leave it out if that is meant"),
    ("async", "false", "every hook is waited for; leave it out if that is meant"),
    ("asyncRewake", "false", "every hook is waited for; leave it out if that is meant"),
    ("shell", r#""bash""#, "commands are bash's; start another shell in the command itself"),
    ("if", "", "the hook would run for more calls than meant; test in the command what it is told"),
];

pub(super) fn file(value: &Value) -> Read<HookSet> {
    let map = object(value, "hooks")?;
    match map.get("hooks") {
        Some(inner) => {
            let is_known = |key: &str| key == "hooks" || HARMLESS_BESIDE.contains(&key);
            if let Some(other) = map.keys().find(|key| !is_known(key)) {
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
    known_keys(map.keys(), at, &["matcher", "hooks"])?;
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
    // First, since a hook of another kind has other keys as well.
    if let Some(kind) = map.get("type").filter(|kind| *kind != "command") {
        let what = format!(
            "{kind} is no kind of hook here; the only one is \"command\", a command line that is \
             told on standard input"
        );
        return Err(HookSetError::new(format!("{at}.type"), what));
    }
    let foreign = |key: &str| FOREIGN.iter().find(|(name, ..)| *name == key);
    for (key, value) in map {
        let value = value.to_string();
        if let Some((.., why)) = foreign(key).filter(|(_, same, _)| value != *same) {
            return Err(HookSetError::new(format!("{at}.{key}"), format!("not supported: {why}")));
        }
    }
    let is_own = |key: &&String| key.as_str() != HARMLESS && foreign(key).is_none();
    known_keys(map.keys().filter(is_own), at, &["type", "command", "timeout"])?;
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

fn known_keys<'a>(
    mut keys: impl Iterator<Item = &'a String>,
    at: &str,
    known: &[&str],
) -> Read<()> {
    let Some(key) = keys.find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let what = match nearest(key, known) {
        Some(nearest) => format!("unknown key '{key}'; did you mean '{nearest}'?"),
        None => format!("unknown key '{key}' (known: {})", known.join(", ")),
    };
    Err(HookSetError::new(at, what))
}
