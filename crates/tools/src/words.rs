//! Words of a model that people are to read: bounded, not blank.

use driver_api::ToolError;

use crate::limit::{grouped, head};

/// Characters of the line that names a question or a plan to people.
const SUMMARY_CHARS_MAX: usize = 100;

/// Returns a text without the space around it.
///
/// # Errors
/// When it is blank or too long; `what` names it to the model.
pub(crate) fn text<'a>(what: &str, text: &'a str, chars_max: usize) -> Result<&'a str, ToolError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ToolError::Invalid(format!("{what} is blank")));
    }
    // A character has at least one byte, so most texts need not be counted.
    if text.len() > chars_max {
        let count = text.chars().count();
        if count > chars_max {
            let (count, limit) = (grouped(count as u64), grouped(chars_max as u64));
            return Err(ToolError::Invalid(format!(
                "{what} has {count} characters, at most {limit} are taken"
            )));
        }
    }
    Ok(text)
}

/// Returns a text of one line, as [`text`] does.
///
/// # Errors
/// As [`text`], and when it has a line break or another control character.
pub(crate) fn line<'a>(what: &str, line: &'a str, chars_max: usize) -> Result<&'a str, ToolError> {
    let line = text(what, line, chars_max)?;
    if line.contains(char::is_control) {
        return Err(ToolError::Invalid(format!("{what} must be one line of plain text")));
    }
    Ok(line)
}

/// Returns the first line that says something, for a list.
pub(crate) fn summary(text: &str) -> String {
    let says = |line: &&str| line.contains(char::is_alphanumeric);
    let line = text.lines().map(|line| line.trim_start_matches('#').trim()).find(says);
    let line = line.unwrap_or_else(|| text.trim());
    let kept = head(line, SUMMARY_CHARS_MAX);
    let end = if kept.len() < line.len() { "…" } else { "" };
    format!("{kept}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_counts_characters_and_not_the_space_around() {
        assert_eq!(text("it", "  ü ü\n", 3).unwrap(), "ü ü");
        let error = text("the plan", &"ü".repeat(1_001), 1_000).unwrap_err().to_string();
        assert_eq!(error, "the plan has 1,001 characters, at most 1,000 are taken");
        for blank in ["", " \n\t"] {
            assert_eq!(text("it", blank, 3).unwrap_err().to_string(), "it is blank");
        }
        assert!(line("it", "a\nb", 9).is_err() && line("it", "a\u{1b}[2J", 9).is_err());
        assert_eq!(line("it", "a b\n", 9).unwrap(), "a b");
    }

    #[test]
    fn a_summary_is_the_first_line_that_says_something() {
        assert_eq!(summary("\n---\n## The plan\n1. do it"), "The plan");
        assert_eq!(summary("???"), "???");
        assert_eq!(summary(&"ü".repeat(101)), "ü".repeat(100) + "…");
    }
}
