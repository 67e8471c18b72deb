//! `${NAME}` in values.

use super::Lookup;

/// Puts variables of the environment into a text: `${NAME}`, and `${NAME:-default}` for one that
/// may be unset. A dollar sign without a brace stands for itself.
///
/// # Errors
/// The reason, for the message about the field.
pub(super) fn expand(text: &str, environment: Lookup<'_>) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        whole.push_str(before);
        let Some((inner, tail)) = after.split_once('}') else {
            return Err("'${' without '}': write ${NAME}".to_owned());
        };
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if !is_name(name) {
            return Err(format!("'${{{inner}}}' names no variable: write ${{NAME}}"));
        }
        // An empty variable counts as unset where there is a default, as in a shell.
        let value = environment(name).filter(|value| default.is_none() || !value.is_empty());
        match value.as_deref().or(default) {
            Some(value) => whole.push_str(value),
            None => {
                return Err(format!(
                    "the variable {name} is not set: set it, or write ${{{name}:-default}}"
                ));
            }
        }
        rest = tail;
    }
    whole.push_str(rest);
    Ok(whole)
}

/// Tells whether a text can be a variable's name.
pub(super) fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(is_part) && !text.starts_with(|c: char| c.is_ascii_digit())
}
