//! Which tools, or which kinds of a moment, a group of hooks wants to hear of.

use regex::{Regex, RegexBuilder};

/// How much memory a compiled expression may take. A list of all tools takes a hundredth of it;
/// counted repetitions could ask for any amount.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A compiled matcher.
#[derive(Clone, Debug)]
pub(crate) enum Matcher {
    /// Fits everything.
    All,
    /// Fits what the expression describes from beginning to end.
    Pattern(Regex),
}

impl Matcher {
    /// Compiles a matcher: empty or `*` for everything, else a regular expression.
    ///
    /// # Errors
    /// What is wrong with the expression, in one line.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        if matches!(text, "" | "*") {
            return Ok(Matcher::All);
        }
        // By itself first: a bracket that is closed but never opened would close ours.
        build(text)?;
        build(&format!(r"\A(?:{text})\z")).map(Matcher::Pattern)
    }

    pub(crate) fn fits(&self, text: &str) -> bool {
        match self {
            Matcher::All => true,
            Matcher::Pattern(pattern) => pattern.is_match(text),
        }
    }
}

fn build(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(text).size_limit(COMPILED_BYTES_MAX).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the expression is too large".to_owned(),
        // The parser draws below the expression where it stopped; the last line says why.
        error => {
            let text = error.to_string();
            let why = text.lines().last().unwrap_or_default();
            format!("no regular expression: {}", why.trim_start_matches("error: "))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matcher_fits_whole_names() {
        let table = [
            ("", "anything", true),
            ("*", "anything", true),
            ("Bash", "Bash", true),
            ("Bash", "BashOutput", false),
            ("Bash", "bash", false),
            ("Edit|Write", "Write", true),
            ("Edit|Write", "MultiEdit", false),
            ("Edit|Write", "Writer", false),
            ("mcp__.*__write.*", "mcp__files__write_file", true),
            ("mcp__files__", "mcp__files__write_file", false),
            (".*", "Read", true),
            ("(?i)bash", "Bash", true),
            ("Read$", "Read", true),
            ("^Read", "Read", true),
        ];
        for (pattern, name, expected) in table {
            let matcher = Matcher::compile(pattern).unwrap();
            assert_eq!(matcher.fits(name), expected, "{pattern} against {name}");
        }
    }

    #[test]
    fn what_is_no_expression_is_told() {
        let table = [
            ("Bash(", "no regular expression: unclosed group"),
            // It would be one inside of our brackets.
            ("a)|(?:b", "no regular expression: unopened group"),
            ("[z-a]", "no regular expression: invalid character class range, the start must be"),
            ("(((a{1000}){1000}){1000})", "the expression is too large"),
        ];
        for (pattern, start) in table {
            let error = Matcher::compile(pattern).unwrap_err();
            assert!(error.starts_with(start) && !error.contains('\n'), "{pattern}: {error}");
        }
    }
}
