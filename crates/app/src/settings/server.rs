//! What the settings say about the server.

use std::path::{Path, PathBuf};

use door_cli::{Failure, Setting};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::document::Document;
use super::{Origin, Sourced};

/// The port where nothing else is said.
const PORT: u16 = 7420;
/// The address where nothing else is said: nobody outside of this machine reaches it.
const HOST: &str = "127.0.0.1";
/// Open sessions of one server where nothing else is said: more than people watch, fewer than the
/// memory of a small machine holds.
const SESSIONS: u32 = 64;
/// The most open sessions of one server that settings may name.
const SESSIONS_MAX: u32 = 10_000;

/// `narthex serve`. Not in a project's file. Flags win.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerTable {
    /// The port; 0 takes any that is free. 7420 where nothing is said.
    pub(crate) port: Option<u16>,
    /// The address to listen on. 127.0.0.1 where nothing is said; one that other machines reach
    /// needs the flag --allow-remote and a token in `NARTHEX_SERVER_TOKEN` as well.
    pub(crate) host: Option<String>,
    /// The folders in which sessions may work, absolute or beginning with `~/`. The folder in
    /// which the server was started where nothing is said.
    pub(crate) roots: Option<Vec<String>>,
    /// How many sessions may be open at once; 64 where nothing is said.
    #[serde(alias = "maxSessions", deserialize_with = "sessions")]
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) max_sessions: Option<u32>,
    /// Web origins whose pages may call the server beside those of this machine, for example
    /// `https://app.example.com`.
    pub(crate) origins: Option<Vec<String>>,
}

fn sessions<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(from)? {
        Some(count) if !(1..=SESSIONS_MAX).contains(&count) => Err(serde::de::Error::custom(
            format!("{count} is too few or too many sessions: expected 1 to {SESSIONS_MAX}"),
        )),
        count => Ok(count),
    }
}

/// The server's settings, each with where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerSettings {
    pub(crate) port: Sourced<u16>,
    pub(crate) host: Sourced<String>,
    /// The folders as they are written; none where the working folder is meant.
    pub(crate) roots: Sourced<Vec<PathBuf>>,
    pub(crate) max_sessions: Sourced<u32>,
    pub(crate) origins: Sourced<Vec<String>>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            port: Sourced::built_in(PORT),
            host: Sourced::built_in(HOST.to_owned()),
            roots: Sourced::built_in(Vec::new()),
            max_sessions: Sourced::built_in(SESSIONS),
            origins: Sourced::built_in(Vec::new()),
        }
    }
}

impl ServerSettings {
    /// Takes what a file says.
    pub(super) fn take_document(
        &mut self,
        document: &Document,
        user_home: Option<&Path>,
        origin: &Origin,
    ) -> Result<(), Failure> {
        let ServerTable { port, host, roots, max_sessions, origins } = &document.server;
        self.port.take(*port, origin);
        self.host.take(host.clone(), origin);
        self.max_sessions.take(*max_sessions, origin);
        self.origins.take(origins.clone(), origin);
        let real = |(place, root): (usize, &String)| {
            absolute(root, user_home).ok_or_else(|| {
                Failure::usage(format!(
                    "{origin}: server.roots[{place}]: '{root}' is no absolute path: expected one \
                     that begins with / or ~/"
                ))
            })
        };
        if let Some(roots) = roots {
            let roots: Vec<PathBuf> =
                roots.iter().enumerate().map(real).collect::<Result<_, _>>()?;
            self.roots.take(Some(roots), origin);
        }
        Ok(())
    }

    /// Lists the settings.
    pub(super) fn list(&self) -> Vec<Setting> {
        let one = |key: &str, value: String, origin: &Origin| Setting {
            key: format!("server.{key}"),
            value,
            origin: origin.to_string(),
        };
        let roots: Vec<String> =
            self.roots.value.iter().map(|root| root.display().to_string()).collect();
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        vec![
            one("port", self.port.value.to_string(), &self.port.origin),
            one("host", quoted(&self.host.value), &self.host.origin),
            one("roots", super::show::texts(&roots), &self.roots.origin),
            one("max_sessions", self.max_sessions.value.to_string(), &self.max_sessions.origin),
            one("origins", super::show::texts(&self.origins.value), &self.origins.origin),
        ]
    }
}

/// Makes a path of settings absolute, where it says from where.
fn absolute(path: &str, user_home: Option<&Path>) -> Option<PathBuf> {
    if let Some(rest) = path.strip_prefix("~/") {
        return Some(user_home?.join(rest));
    }
    if path == "~" {
        return user_home.map(Path::to_owned);
    }
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServerSettings, String> {
        let path = Path::new("c.toml");
        let document = Document::parse(text, path).map_err(|failure| failure.message)?;
        let origin = Origin::File(narthex::LayerName::User, path.to_owned());
        let mut settings = ServerSettings::default();
        let taken = settings.take_document(&document, Some(Path::new("/home/me")), &origin);
        taken.map_err(|failure| failure.message)?;
        Ok(settings)
    }

    #[test]
    fn a_file_says_where_to_serve_and_for_whom() {
        let text = "[server]\nport = 0\nhost = \"::1\"\nroots = [\"/srv/a\", \"~/src\"]\n\
                    maxSessions = 7\norigins = [\"https://app.example.com\"]\n";
        let settings = read(text).unwrap();
        assert_eq!((settings.port.value, settings.host.value.as_str()), (0, "::1"));
        assert_eq!(settings.roots.value, [Path::new("/srv/a"), Path::new("/home/me/src")]);
        assert_eq!(settings.max_sessions.value, 7);
        let listed = settings.list();
        let origin = "user settings, c.toml";
        assert!(listed.iter().all(|one| one.origin == origin), "{listed:?}");
        assert_eq!(listed[2].value, "[\"/srv/a\", \"/home/me/src\"]");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            ("max_sessions = 0", "server.max_sessions: 0 is too few"),
            ("max_sessions = 10001", "server.max_sessions: 10001 is too few or too many"),
            ("port = 70000", "server.port"),
            ("roots = [\"/a\", \"src\"]", "server.roots[1]: 'src' is no absolute path"),
            ("tokn = \"x\"", "unknown key 'server.tokn'"),
        ];
        for (line, part) in table {
            let problem = read(&format!("[server]\n{line}\n")).unwrap_err();
            assert!(problem.contains(part), "{problem:?} should contain {part:?}");
        }
    }
}
