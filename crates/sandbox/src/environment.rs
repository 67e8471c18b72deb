//! The variables that commands get.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use driver_api::WorkspaceError;

/// What a name that holds a secret ends with. A command can print its environment, and what it
/// prints goes to a model and into a log, so credentials of whoever started us stay here.
const SECRET_ENDINGS: [&str; 6] =
    ["API_KEY", "_TOKEN", "_SECRET", "_SECRET_KEY", "_ACCESS_KEY", "_AUTH_KEY"];

/// Secrets that no ending gives away: files of credentials, headers and addresses with passwords
/// in them.
const SECRET_NAMES: [&str; 6] = [
    "ANTHROPIC_CUSTOM_HEADERS",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "NARTHEX_STORE",
    "OTEL_EXPORTER_OTLP_HEADERS",
];

/// What is set for every command.
const FIXED: [(&str, &str); 2] = [
    // Scripts can tell that no person is looking, as they do with `CI`.
    ("NARTHEX", "1"),
    // Nobody can answer: git then says at once which credentials are missing, instead of starting
    // a program that asks for them in a window.
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Variables of a workspace.
#[derive(Debug)]
pub(crate) struct Environment {
    pairs: Vec<(OsString, OsString)>,
}

impl Environment {
    /// Takes over an environment without its secrets, then sets or removes `own`.
    pub(crate) fn new(
        inherited: impl IntoIterator<Item = (OsString, OsString)>,
        own: &[(String, Option<String>)],
    ) -> Self {
        let kept = inherited.into_iter().filter(|(name, _)| !is_secret(name));
        let mut made = Self { pairs: kept.collect() };
        for (name, value) in FIXED {
            made.set(name, Some(value.into()));
        }
        for (name, value) in own {
            made.set(name, value.as_ref().map(OsString::from));
        }
        made
    }

    /// Returns `NAME=value` for each variable of a command in `cwd` with changes of its own.
    ///
    /// # Errors
    /// [`WorkspaceError::Unfit`] for a name or value that no environment can hold.
    pub(crate) fn of_command(
        &self,
        cwd: &Path,
        changes: &[(String, Option<String>)],
    ) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        let mut own = Self { pairs: self.pairs.clone() };
        // Some programs trust it more than the folder that they are in.
        own.set("PWD", Some(cwd.into()));
        own.set("OLDPWD", None);
        for (name, value) in changes {
            let is_bad = name.is_empty()
                || name.contains(['=', '\0'])
                || value.as_ref().is_some_and(|value| value.contains('\0'));
            if is_bad {
                let text = format!("{name:?} cannot be a variable with that value");
                return Err(WorkspaceError::Unfit(text));
            }
            own.set(name, value.as_ref().map(OsString::from));
        }
        let joined = own.pairs.iter().map(|(name, value)| {
            let mut pair = name.as_bytes().to_vec();
            pair.push(b'=');
            pair.extend_from_slice(value.as_bytes());
            pair
        });
        Ok(joined.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    fn set(&mut self, name: &str, value: Option<OsString>) {
        self.pairs.retain(|(known, _)| known != name);
        self.pairs.extend(value.map(|value| (name.into(), value)));
    }
}

fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || SECRET_NAMES.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(inherited: &[(&str, &str)], own: &[(&str, Option<&str>)]) -> Environment {
        let inherited = inherited.iter().map(|(name, value)| (name.into(), value.into()));
        let own: Vec<_> = own
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)))
            .collect();
        Environment::new(inherited, &own)
    }

    #[test]
    fn secrets_stay_here() {
        let names = [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "openrouter_api_key",
            "TAVILY_API_KEY",
            "GITHUB_TOKEN",
            "NARTHEX_SERVER_TOKEN",
            "OAUTH_CLIENT_SECRET",
            "AWS_SECRET_ACCESS_KEY",
            "NARTHEX_STORE",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ];
        for name in names {
            assert_eq!(made(&[(name, "planted")], &[]).get(name), None, "{name}");
        }
    }

    #[test]
    fn all_else_is_inherited() {
        for name in ["PATH", "HOME", "LANG", "CARGO_HOME", "TOKENIZERS_PARALLELISM", "KEYBOARD"] {
            let environment = made(&[(name, "kept")], &[]);
            assert_eq!(environment.get(name), Some(OsStr::new("kept")), "{name}");
        }
    }

    #[test]
    fn what_the_workspace_asks_for_is_set_even_if_it_looks_secret() {
        let environment = made(&[("A", "1"), ("B", "2")], &[("A", None), ("CI_TOKEN", Some("x"))]);
        assert_eq!(environment.get("A"), None);
        assert_eq!(environment.get("CI_TOKEN"), Some(OsStr::new("x")));
        assert_eq!(environment.get("NARTHEX"), Some(OsStr::new("1")));
    }

    #[test]
    fn a_command_has_the_last_word() {
        let environment = made(&[("A", "1"), ("PWD", "/old"), ("OLDPWD", "/older")], &[]);
        let changes = [("A".to_owned(), Some("2".to_owned())), ("NARTHEX".to_owned(), None)];
        let mut pairs = environment.of_command(Path::new("/new"), &changes).unwrap();
        pairs.sort();
        let expected = ["A=2", "GIT_TERMINAL_PROMPT=0", "PWD=/new"];
        assert_eq!(pairs, expected.map(|pair| pair.as_bytes().to_vec()));
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        let environment = made(&[], &[]);
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")] {
            let changes = [(name.to_owned(), Some(value.to_owned()))];
            let refused = environment.of_command(Path::new("/"), &changes);
            assert!(matches!(refused, Err(WorkspaceError::Unfit(_))), "{name:?} {value:?}");
        }
    }
}
