//! Rules that are kept beyond the session they were said in, and so beyond its folder.

use std::path::Path;

use crate::rule::Pattern;
use crate::wildcard::escape;
use crate::{Rule, RuleError};

impl Rule {
    /// Returns the rule so that it means the same files from every working folder: a pattern over
    /// files that is relative to `cwd`, the real working folder in which it was said, begins with
    /// that folder then. Every other rule stays as it is.
    ///
    /// # Errors
    /// When the folder's name is no text, or the rule becomes too long.
    pub fn anchored(&self, cwd: &Path) -> Result<Rule, RuleError> {
        let (Pattern::Place(_), Some(text)) = (self.pattern(), self.pattern_text()) else {
            return Ok(self.clone());
        };
        if text.starts_with('/') || text.starts_with("~/") || text == "~" {
            return Ok(self.clone());
        }
        let Some(folder) = cwd.to_str() else {
            let what = format!("the name of the folder {} is no text", cwd.display());
            return Err(RuleError { rule: self.to_string(), what });
        };
        let folder = escape(folder.trim_end_matches('/'));
        format!("{}({folder}/{text})", self.tool()).parse()
    }

    /// Returns the program of a rule for commands, where it is named by a path that is relative to
    /// the working folder: `./build.sh` of `run_shell(./build.sh *)`. Such a rule means another
    /// program in another folder.
    #[must_use]
    pub fn relative_program(&self) -> Option<&str> {
        let Pattern::Shell(_) = self.pattern() else { return None };
        // Assignments before it are no program.
        let is_program = |word: &&str| {
            let name = word.split('=').next().unwrap_or_default();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            name.len() == word.len() || name.is_empty() || !name.chars().all(is_name)
        };
        let program = self.pattern_text()?.split(' ').find(is_program)?;
        let bare = program.trim_start_matches(['"', '\'', '\\']);
        (bare.contains('/') && !bare.starts_with(['/', '~'])).then_some(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    #[test]
    fn patterns_over_files_are_tied_to_their_folder() {
        let cwd = Path::new("/home/me/a*b");
        for (text, expected) in [
            ("edit_file(**)", r"edit_file(/home/me/a\*b/**)"),
            ("read_file(../x/*.rs)", r"read_file(/home/me/a\*b/../x/*.rs)"),
            ("write_file(./a.txt)", r"write_file(/home/me/a\*b/./a.txt)"),
            ("edit_file(/src/**)", "edit_file(/src/**)"),
            ("edit_file(~/notes/**)", "edit_file(~/notes/**)"),
            ("edit_file", "edit_file"),
            ("run_shell(./make.sh *)", "run_shell(./make.sh *)"),
            ("web_fetch(domain:example.com)", "web_fetch(domain:example.com)"),
        ] {
            assert_eq!(rule(text).anchored(cwd).unwrap().to_string(), expected);
        }
        let root = rule("edit_file(a)").anchored(Path::new("/")).unwrap();
        assert_eq!(root.to_string(), "edit_file(/a)");
        let long = "x".repeat(985);
        assert!(rule(&format!("edit_file({long})")).anchored(cwd).is_err());
    }

    #[test]
    fn programs_of_the_folder_are_known() {
        for (text, expected) in [
            ("run_shell(./build.sh *)", Some("./build.sh")),
            ("run_shell(bin/x)", Some("bin/x")),
            ("run_shell(A=1 ./x)", Some("./x")),
            ("run_shell('./my x')", Some("'./my")),
            ("run_shell(*/x)", Some("*/x")),
            ("run_shell(* --version)", None),
            ("run_shell(/usr/bin/x *)", None),
            ("run_shell(~/bin/x *)", None),
            ("run_shell(cargo test *)", None),
            ("run_shell(A=./x make)", None),
            ("run_shell", None),
            ("edit_file(./x)", None),
        ] {
            assert_eq!(rule(text).relative_program(), expected, "{text}");
        }
    }
}
