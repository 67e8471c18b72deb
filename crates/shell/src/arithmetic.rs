//! Arithmetic: which variables it evaluates.
//!
//! A variable's value is itself evaluated as arithmetic, and the subscript of an array in it may
//! run commands. So arithmetic is clear only where each variable in it holds a number.

/// Returns the variables of an expression; `None` where it is more than numbers, variables and
/// operators.
pub(crate) fn names(text: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut rest = text;
    let mut after_value = false;
    while let Some(c) = rest.chars().next() {
        let bare = rest.strip_prefix("${").or_else(|| rest.strip_prefix('$')).unwrap_or(rest);
        let is_braced = rest.starts_with("${");
        let length = bare.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let (word, behind) = bare.split_at(length.unwrap_or(bare.len()));
        if !word.is_empty() {
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            // `$1` is what the line was given, two values in a row are no expression.
            if after_value || is_number && rest.starts_with('$') {
                return None;
            }
            if !is_number {
                names.push(word);
            }
            rest = if is_braced { behind.strip_prefix('}')? } else { behind };
            after_value = true;
            continue;
        }
        match c {
            '$' => {
                // Only what is always a number.
                rest = rest.strip_prefix('$')?.strip_prefix(['#', '?', '$', '!'])?;
                after_value = true;
                continue;
            }
            ' ' | '\t' | '\n' => {}
            '(' => after_value = false,
            ')' => after_value = true,
            '+' | '-' if rest.starts_with("++") || rest.starts_with("--") => {
                // Behind a value it belongs to it, before one too.
                rest = rest.get(2..)?;
                continue;
            }
            '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | '&' | '|' | '^' | '~' | '?'
            | ':' | ',' | ';' => after_value = false,
            _ => return None,
        }
        rest = rest.get(c.len_utf8()..)?;
    }
    Some(names)
}
