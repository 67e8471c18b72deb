//! The JSON files of MCP servers, in the form that other programs share.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use connect::Origin as ServerOrigin;
use connect::settings::{Configured, Lookup, from_json};
use door_cli::Failure;

use super::variables::Noting;
use super::{layer_of, offered};
use crate::environment::Environment;
use crate::settings::document::{read_text, unreadable};
use crate::settings::project::{is_trusted, locate, passed_over};
use crate::settings::{Places, Settings};

/// The file of a project, in its folder.
const FILE: &str = ".mcp.json";

/// Returns where the user's own file is.
pub(crate) fn home_file(home: &Path) -> PathBuf {
    home.join("mcp.json")
}

/// A project's file of servers.
#[derive(Clone, Debug)]
pub(crate) struct ServersFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What it holds.
    pub(crate) text: String,
}

impl ServersFile {
    /// Finds the file in a folder, or above it up to the top of the repository.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub(crate) fn find(places: &Places, from: &Path) -> Result<Option<Self>, Failure> {
        let Some(path) = locate(places, from, FILE) else { return Ok(None) };
        match read_text(&path) {
            Ok(text) => Ok(Some(Self { path, text })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    /// Checks that it can be read as a whole.
    ///
    /// # Errors
    /// As [`ServersFile::read`].
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.read(&Environment::default()).map(drop)
    }

    /// Reads what it says, for the folder that it lies in.
    ///
    /// # Errors
    /// Names the file and what is wrong with it as a whole.
    pub(crate) fn read(&self, environment: &Environment) -> Result<Configured, Failure> {
        let folder = self.path.parent().unwrap_or(Path::new("/")).to_owned();
        let lookup = |name: &str| environment.raw(name).map(str::to_owned);
        read(&self.text, &self.path, &ServerOrigin::Folder(folder), &lookup)
    }
}

fn read(
    text: &str,
    path: &Path,
    origin: &ServerOrigin,
    lookup: Lookup<'_>,
) -> Result<Configured, Failure> {
    from_json(text, origin, lookup)
        .map_err(|mistake| Failure::usage(format!("{}: {mistake}", path.display())))
}

impl Settings {
    /// Takes the servers of the home folder's `mcp.json`, after those of the user's settings.
    ///
    /// # Errors
    /// When the file cannot be read; the text names it.
    pub(in crate::settings) fn take_home_servers(
        &mut self,
        environment: &Environment,
    ) -> Result<(), Failure> {
        let path = home_file(&self.places.home);
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(&path, &error)),
        };
        let noting = Noting::new(environment);
        let lookup = |name: &str| noting.look(name);
        let configured = read(&text, &path, &ServerOrigin::Settings, &lookup)?;
        self.mcp.secret_variables.extend(noting.secret());
        self.take_servers(configured, &path, false);
        Ok(())
    }

    /// Takes the servers of a project's file, where it is trusted as it is.
    ///
    /// # Errors
    /// When the file is there and cannot be read, or is trusted and wrong.
    pub(in crate::settings) fn take_project_servers(
        &mut self,
        environment: &Environment,
        trusts_all: bool,
    ) -> Result<(), Failure> {
        let places = &self.places;
        self.notices.extend(passed_over(places, &places.cwd, FILE));
        let Some(file) = ServersFile::find(places, &places.cwd)? else { return Ok(()) };
        if trusts_all || is_trusted(places, &file.path, &file.text)? {
            let configured = file.read(environment)?;
            self.take_servers(configured, &file.path, true);
            return Ok(());
        }
        match file.read(environment) {
            Ok(configured) if configured == Configured::default() => return Ok(()),
            Ok(configured) => {
                self.notices.push(format!(
                    "{} is not trusted, so its MCP servers are not used; to use them: narthex \
                     config trust",
                    file.path.display()
                ));
                let mut summary: Vec<String> = configured.servers.iter().map(offered).collect();
                let wrong = configured.mistakes.iter();
                summary.extend(
                    wrong.map(|mistake| format!("bring a server that is wrong: {mistake}")),
                );
                self.offer(&file.path, &file.text, summary);
            }
            // Trust in a file that is wrong would stop every start.
            Err(failure) => self.notices.push(format!("{}; it was left out", failure.message)),
        }
        Ok(())
    }

    fn take_servers(&mut self, configured: Configured, path: &Path, is_project: bool) {
        let Configured { servers, mistakes } = configured;
        let origin = layer_of(path, is_project);
        let told = mistakes.iter();
        self.notices.extend(
            told.map(|mistake| format!("{}: {mistake}; the server is left out", path.display())),
        );
        let taken: BTreeSet<String> = self.mcp.taken.clone();
        let (known, new): (Vec<_>, Vec<_>) =
            servers.into_iter().partition(|server| taken.contains(&server.name));
        if is_project {
            // Whoever has a server of that name means that one: a repository takes no name over.
            self.notices.extend(known.iter().map(|server| {
                format!(
                    "{}: the MCP server {} is left out, since your settings have one of that name",
                    path.display(),
                    server.name
                )
            }));
        }
        self.mcp.taken.extend(new.iter().map(|server| server.name.clone()));
        self.mcp.add(new, &origin);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use door_cli::Globals;

    use super::*;
    use crate::settings::{Want, trust};

    struct House {
        folder: tempfile::TempDir,
        globals: Globals,
    }

    impl House {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["home", "project/.git", "project/src"] {
                fs::create_dir_all(folder.path().join(name)).unwrap();
            }
            Self { folder, globals: Globals::default() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().canonicalize().unwrap().join(name)
        }

        fn file(self, name: &str, text: &str) -> Self {
            fs::write(self.path(name), text).unwrap();
            self
        }

        fn load(&self) -> Settings {
            self.try_load().unwrap()
        }

        fn try_load(&self) -> Result<Settings, Failure> {
            let home = self.path("home").display().to_string();
            let variables = [("NARTHEX_HOME", home.as_str()), ("KEY", "s3cret")];
            let environment = Environment::new(&self.path("project/src"), &variables);
            Settings::load(Want { globals: &self.globals, environment: &environment })
        }
    }

    fn names(settings: &Settings) -> Vec<(&str, String)> {
        let known = settings.mcp.servers.iter();
        known.map(|it| (it.server.name.as_str(), super::super::shown(&it.server))).collect()
    }

    #[test]
    fn the_users_settings_win_over_mcp_json_and_both_show_no_secret() {
        let house = House::new()
            .file(
                "home/config.toml",
                "[mcp]\ndefer_threshold = 3\n[mcp.servers.files]\ncommand = \"mine\"\n\
                 args = [\"${KEY}\"]\n[mcp.servers.off]\nenabled = false\n",
            )
            .file(
                "home/mcp.json",
                r#"{"mcpServers": {"files": {"command": "other"}, "off": {"command": "x"},
                    "web": {"url": "https://mcp.example/mcp?key=${KEY}"},
                    "broken": {"command": "${NOPE}"}}}"#,
            );
        let settings = house.load();
        let expected =
            [("files", "mine …".to_owned()), ("web", "https://mcp.example/mcp?…".to_owned())];
        assert_eq!(names(&settings), expected);
        assert_eq!(settings.mcp.defer_threshold.value, 3);
        let told = settings.notices.join("\n");
        assert!(told.contains("mcp.json: mcpServers.broken.command: the variable NOPE"), "{told}");
        let listed = format!("{:?}", settings.mcp.list());
        assert!(!listed.contains("s3cret"), "{listed}");
    }

    #[test]
    fn a_projects_servers_need_trust_and_take_no_name_over() {
        let text = r#"{"mcpServers": {"mine": {"command": "theirs"},
                       "tool": {"command": "./serve", "args": ["--all"]}}}"#;
        let house = House::new()
            .file("home/config.toml", "[mcp.servers.mine]\ncommand = \"mine\"\n")
            .file("project/.mcp.json", text);
        let settings = house.load();
        assert_eq!(names(&settings), [("mine", "mine".to_owned())]);
        let offered = settings.untrusted.clone().unwrap().files;
        assert_eq!((offered.len(), offered[0].path.clone()), (1, house.path("project/.mcp.json")));
        let summary = offered[0].summary.join("\n");
        assert!(summary.contains("run the MCP server tool: ./serve --all"), "{summary}");
        trust(&settings.places, None).unwrap();
        let settings = house.load();
        let expected = [("mine", "mine".to_owned()), ("tool", "./serve …".to_owned())];
        assert_eq!(names(&settings), expected);
        assert!(settings.untrusted.is_none());
        let told = settings.notices.join("\n");
        assert!(told.contains("the MCP server mine is left out"), "{told}");
        // As it was trusted, and not as it became.
        let house = house.file("project/.mcp.json", &text.replace("./serve", "curl"));
        assert_eq!(names(&house.load()).len(), 1);
    }

    #[test]
    fn without_servers_nothing_is_asked_and_a_flag_leaves_all_out() {
        let house = House::new().file("project/.mcp.json", "{\"mcpServers\": {}}");
        assert!(house.load().untrusted.is_none());
        let mut house = house.file("home/config.toml", "[mcp.servers.a]\ncommand = \"a\"\n");
        assert_eq!(house.load().mcp.servers.len(), 1);
        house.globals.no_mcp = true;
        assert!(house.load().mcp.servers.is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_without_what_may_be_a_key() {
        for (text, part) in [
            ("[mcp.servers.a]\ncomand = \"s3cret\"", "unknown key 'mcp.servers.a.comand'"),
            ("[mcp.servers.a]\nenv = \"s3cret\"", "mcp.servers.a.env"),
            ("[mcp]\ndefer_threshold = -1", "mcp.defer_threshold"),
        ] {
            let problem = House::new().file("home/config.toml", text).try_load().unwrap_err();
            assert!(problem.message.contains(part), "{problem}");
            assert!(!problem.message.contains("s3cret"), "{problem}");
        }
        let problem = House::new().file("home/mcp.json", "{").try_load().unwrap_err();
        assert!(problem.message.contains("mcp.json: mcpServers: the file is no JSON"), "{problem}");
    }
}
