//! A call that somebody asks about, `tool(argument)`: what the policy has to know of it.

use std::fs;
use std::path::{Component, Path, PathBuf};

use door_cli::Failure;
use narthex::Rule;
use policy::{Call, PathUse};
use protocol::Effect;

use crate::settings::Places;

/// How many links are followed before a path counts as one that leads nowhere.
const LINKS_MAX: usize = 40;

/// A call that somebody asks about, with the facts that tools look up.
#[derive(Debug)]
pub(super) struct Asked {
    tool: String,
    effect: Effect,
    command: Option<String>,
    host: Option<String>,
    path: Option<PathBuf>,
    roots: Vec<PathBuf>,
    cwd: PathBuf,
    home: Option<PathBuf>,
    notice: Option<String>,
}

impl Asked {
    /// Reads a call and looks up where its path really is.
    ///
    /// # Errors
    /// A failure of usage that says how a call is written.
    pub(super) fn read(
        text: &str,
        places: &Places,
        add_roots: &[PathBuf],
    ) -> Result<Self, Failure> {
        let (name, argument) = split(text.trim())?;
        let rule: Rule = name.parse().map_err(|error| Failure::usage(format!("{error}")))?;
        if rule.tool() == "*" {
            return Err(Failure::usage("name one tool: '*' is for rules"));
        }
        let mut roots = vec![places.cwd.clone()];
        for root in add_roots {
            roots.extend(places.launched_in.join(root).canonicalize());
        }
        let mut asked = Self {
            tool: rule.tool().to_owned(),
            effect: effect(rule.tool()),
            command: None,
            host: None,
            path: None,
            roots,
            cwd: places.cwd.clone(),
            home: places.user_home.clone(),
            notice: rule.unknown_tool().map(|unknown| unknown.to_string()),
        };
        let Some(argument) = argument else {
            // These search the working folder where nothing else is said.
            if matches!(asked.tool.as_str(), "list_dir" | "glob" | "grep") {
                asked.path = Some(asked.cwd.clone());
            }
            return Ok(asked);
        };
        match asked.tool.as_str() {
            "run_shell" => asked.command = Some(argument.to_owned()),
            "read_file" | "list_dir" | "glob" | "grep" | "write_file" | "edit_file"
            | "apply_patch" => asked.path = Some(asked.real(argument)),
            "web_fetch" => asked.host = Some(host(argument)?),
            tool => {
                let message = format!("{tool} is asked about by its name alone: without brackets");
                return Err(Failure::usage(message));
            }
        }
        Ok(asked)
    }

    /// Returns the tool's native name.
    pub(super) fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns what the call does.
    pub(super) fn effect(&self) -> Effect {
        self.effect
    }

    /// Says what is odd about the call.
    pub(super) fn notice(&self) -> Option<String> {
        self.notice.clone()
    }

    /// Hands the call to whoever judges it.
    pub(super) fn with<T>(&self, judge: impl FnOnce(&Call<'_>) -> T) -> T {
        let path = self.path.as_deref().map(|real| PathUse {
            real,
            is_write: self.effect == Effect::Write,
            is_inside: self.roots.iter().any(|root| real.starts_with(root)),
        });
        judge(&Call {
            tool: &self.tool,
            effect: self.effect,
            command: self.command.as_deref(),
            host: self.host.as_deref(),
            paths: path.as_slice(),
            cwd: &self.cwd,
            homes: self.home.as_deref().into(),
        })
    }

    fn real(&self, argument: &str) -> PathBuf {
        let path = match (argument.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.cwd.join(argument),
        };
        real(&path)
    }
}

fn split(text: &str) -> Result<(&str, Option<&str>), Failure> {
    let wrong = |what: &str| {
        let example = "write it as 'run_shell(git push origin main)'";
        Err(Failure::usage(format!("the call '{text}' {what}; {example}")))
    };
    let Some((name, rest)) = text.split_once('(') else {
        return if text.is_empty() { wrong("is empty") } else { Ok((text, None)) };
    };
    let Some(argument) = rest.strip_suffix(')') else {
        return wrong("has no bracket at its end");
    };
    if argument.trim().is_empty() {
        wrong("has nothing in its brackets")
    } else {
        Ok((name, Some(argument)))
    }
}

/// Returns the effect that calls of a tool have. Of a tool that only its server knows, the one
/// that such a tool has where the server says nothing.
fn effect(tool: &str) -> Effect {
    match tool {
        "read_file" | "list_dir" | "glob" | "grep" | "shell_output" | "todos" => Effect::Read,
        "ask_question" | "exit_plan" => Effect::Interact,
        "write_file" | "edit_file" | "apply_patch" => Effect::Write,
        "run_shell" | "shell_kill" | "delegate" => Effect::Execute,
        _ => Effect::Network,
    }
}

/// Takes the host out of an address, or takes a domain as it is.
fn host(argument: &str) -> Result<String, Failure> {
    let text = argument.trim();
    let text = text.strip_prefix("domain:").unwrap_or(text);
    let address = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = outbound::Url::parse(&address)
        .map_err(|error| Failure::usage(format!("the address '{text}': {error}")))?;
    match url.host_str() {
        Some(host) => Ok(host.to_owned()),
        None => Err(Failure::usage(format!("the address '{text}' names no host"))),
    }
}

/// Follows every link of a path, the last parts of which need not be there.
fn real(path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    let mut links = 0;
    let mut ahead: Vec<PathBuf> =
        path.components().rev().map(|part| part.as_os_str().into()).collect();
    while let Some(part) = ahead.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                real.pop();
                continue;
            }
            Some(Component::CurDir) | None => continue,
            _ => real.push(&part),
        }
        let is_link = fs::symlink_metadata(&real).is_ok_and(|stat| stat.is_symlink());
        if !is_link || links == LINKS_MAX {
            continue;
        }
        if let Ok(target) = fs::read_link(&real) {
            links += 1;
            real.pop();
            // An absolute target begins at the root, which takes the place of what was found.
            ahead.extend(target.components().rev().map(|part| PathBuf::from(part.as_os_str())));
        }
    }
    real
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_as_far_as_there_is_something() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", root.join("relative")).unwrap();
        std::os::unix::fs::symlink("/etc/none", root.join("dangling")).unwrap();
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        for (path, expected) in [
            ("a/b/new", root.join("a/b/new")),
            ("relative/x", root.join("a/b/x")),
            ("relative/../x", root.join("a/x")),
            ("./none/../x", root.join("x")),
            ("dangling", PathBuf::from("/etc/none")),
        ] {
            assert_eq!(real(&root.join(path)), expected, "{path}");
        }
        assert!(real(&root.join("loop/x")).starts_with(&root));
    }

    #[test]
    fn hosts_are_taken_out_of_addresses() {
        for (text, expected) in [
            ("https://Example.com:8443/a?b", "example.com"),
            ("example.com/a", "example.com"),
            ("domain:example.com", "example.com"),
            ("http://user@evil.example#@good.example", "evil.example"),
        ] {
            assert_eq!(host(text).unwrap(), expected);
        }
        assert!(host("https://").is_err());
    }

    #[test]
    fn a_call_is_a_name_with_brackets() {
        assert_eq!(split("run_shell(echo (a))").unwrap(), ("run_shell", Some("echo (a)")));
        assert_eq!(split("todos").unwrap(), ("todos", None));
        for text in ["", "run_shell(", "run_shell()", "run_shell(ls) x"] {
            assert_eq!(split(text).unwrap_err().exit.code(), 2, "{text}");
        }
    }
}
