//! What a server is to be: flags over settings, checked before anything is opened.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use door_cli::{Failure, Globals, ServeArgs};
use outbound::Url;

use super::address;
use super::token::{self, OwnToken};
use crate::environment::Environment;
use crate::settings::{Origin, Settings, Want};

/// How long an unanswered request waits where nothing else is said, in milliseconds: five minutes,
/// in which somebody who watches has answered.
pub(super) const PERMISSION_TIMEOUT_MS: u64 = 300_000;

/// What a server is to be.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) settings: Settings,
    pub(super) globals: Globals,
    pub(super) environment: Environment,
    pub(super) address: SocketAddr,
    /// Real and absolute; at least one.
    pub(super) roots: Vec<PathBuf>,
    pub(super) token: OwnToken,
    pub(super) sessions_max: usize,
    pub(super) origins: Vec<String>,
    /// Whether the server is one that only its launcher uses.
    pub(super) is_private: bool,
}

impl Plan {
    /// Reads settings and flags.
    ///
    /// # Errors
    /// Names the flag, setting or variable that is wrong.
    pub(super) async fn make(
        globals: &Globals,
        args: ServeArgs,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let mut globals = globals.clone();
        let mut settings = Settings::load(Want { globals: &globals, environment })?;
        take_flags(&mut settings, &args);
        let roots = roots(&settings)?;
        // The settings are those of the first folder, unless somebody names another for them.
        if globals.cwd.is_none()
            && let Some(first) = roots.first()
            && *first != settings.places.cwd
        {
            globals.cwd = Some(first.clone());
            settings = Settings::load(Want { globals: &globals, environment })?;
            take_flags(&mut settings, &args);
        }
        if roots.len() > 1 {
            settings.leave_projects_grants_out();
        }
        settings.bounds.wait_for_answers(PERMISSION_TIMEOUT_MS);
        let token = token::choose(args.token, environment)?;
        if matches!(&token.origin, Some(Origin::Flag(_))) {
            settings.notices.push(
                "every user of this machine can read --token from the list of processes; rather \
                 set NARTHEX_SERVER_TOKEN"
                    .to_owned(),
            );
        }
        settings.notices.extend(settings.telemetry.notice.clone());
        settings.hidden_env.extend(token::VARIABLES.map(str::to_owned));
        let server = &settings.server;
        let ip = address::resolve(&server.host.value).await?;
        address::check_remote(ip, args.allow_remote, token.origin.is_some())?;
        Ok(Self {
            address: SocketAddr::new(ip, server.port.value),
            roots,
            token,
            sessions_max: usize::try_from(server.max_sessions.value).unwrap_or(usize::MAX),
            origins: origins(&settings)?,
            is_private: args.no_announce,
            settings,
            globals,
            environment: environment.clone(),
        })
    }

    /// Returns the folders as texts.
    ///
    /// # Errors
    /// For one whose name is no text.
    pub(super) fn root_texts(&self) -> Result<Vec<String>, Failure> {
        self.roots.iter().map(|root| crate::machine::text(root)).collect()
    }
}

fn take_flags(settings: &mut Settings, args: &ServeArgs) {
    let flag = |name: &str| Origin::Flag(name.to_owned());
    let server = &mut settings.server;
    server.port.take(args.port, &flag("--port"));
    server.host.take(args.host.clone(), &flag("--host"));
    server.max_sessions.take(args.max_sessions, &flag("--max-sessions"));
    if !args.root.is_empty() {
        let launched_in = &settings.places.launched_in;
        let roots = args.root.iter().map(|root| launched_in.join(root)).collect();
        server.roots.take(Some(roots), &flag("--root"));
    }
    if !args.origin.is_empty() {
        server.origins.take(Some(args.origin.clone()), &flag("--origin"));
    }
}

/// Finds the folders, each once, in their order.
fn roots(settings: &Settings) -> Result<Vec<PathBuf>, Failure> {
    let given = &settings.server.roots;
    if given.value.is_empty() {
        return Ok(vec![settings.places.cwd.clone()]);
    }
    let mut roots: Vec<PathBuf> = Vec::new();
    for path in &given.value {
        let root = real(path).map_err(|problem| {
            Failure::usage(format!("root {} ({}): {problem}", path.display(), given.origin))
        })?;
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    Ok(roots)
}

fn real(path: &Path) -> Result<PathBuf, String> {
    let real = path.canonicalize().map_err(|error| error.to_string())?;
    match real.is_dir() {
        true => Ok(real),
        false => Err("it is no folder".to_owned()),
    }
}

fn origins(settings: &Settings) -> Result<Vec<String>, Failure> {
    let given = &settings.server.origins;
    let check = |text: &String| {
        let normal = Url::parse(text).ok().map(|url| url.origin().ascii_serialization());
        let is_web = text.starts_with("http://") || text.starts_with("https://");
        match normal.filter(|_| is_web) {
            Some(normal) if normal == *text => Ok(normal),
            Some(normal) if normal == text.trim_end_matches('/').to_ascii_lowercase() => Ok(normal),
            normal => {
                let example = normal.unwrap_or_else(|| "https://app.example.com".to_owned());
                Err(Failure::usage(format!(
                    "origin {text} ({}): expected a scheme, a host and perhaps a port, for \
                     example {example}",
                    given.origin
                )))
            }
        }
    };
    given.value.iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct House(tempfile::TempDir);

    impl House {
        fn new() -> Self {
            let house = Self(tempfile::tempdir().unwrap());
            for name in ["home", "one", "two"] {
                fs::create_dir(house.path(name)).unwrap();
            }
            house
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        async fn plan(&self, args: ServeArgs) -> Result<Plan, String> {
            let home = self.path("home").display().to_string();
            let environment = Environment::new(&self.path("one"), &[("NARTHEX_HOME", &home)]);
            let plan = Plan::make(&Globals::default(), args, &environment).await;
            plan.map_err(|failure| failure.message)
        }
    }

    fn roots(names: &[&str]) -> ServeArgs {
        let root = names.iter().map(PathBuf::from).collect();
        ServeArgs { root, ..ServeArgs::default() }
    }

    #[tokio::test]
    async fn without_flags_it_serves_this_folder_to_this_machine() {
        let house = House::new();
        let plan = house.plan(ServeArgs::default()).await.unwrap();
        assert_eq!(plan.address.to_string(), "127.0.0.1:7420");
        assert_eq!((plan.roots, plan.sessions_max), (vec![house.path("one")], 64));
    }

    #[tokio::test]
    async fn flags_win_over_the_file() {
        let house = House::new();
        let file = format!(
            "permission_timeout_ms = 7\n[server]\nport = 1\nhost = \"::1\"\nmax_sessions = 3\n\
             roots = [\"{}\"]\norigins = [\"https://a.example\"]\n",
            house.path("two").display()
        );
        fs::write(house.path("home/config.toml"), file).unwrap();
        let plan = house.plan(ServeArgs::default()).await.unwrap();
        assert_eq!((plan.address.to_string().as_str(), plan.sessions_max), ("[::1]:1", 3));
        assert_eq!(
            (&plan.roots, &plan.settings.places.cwd),
            (&vec![house.path("two")], &house.path("two"))
        );
        assert_eq!(plan.origins, ["https://a.example"]);
        let agent = crate::settings::agent(&plan.settings, &plan.globals);
        assert_eq!(agent.interaction_timeout_ms, 7);
        let args = ServeArgs {
            port: Some(2),
            host: Some("127.0.0.1".to_owned()),
            max_sessions: Some(9),
            origin: vec!["http://b.example:8080".to_owned()],
            ..roots(&["."])
        };
        let plan = house.plan(args).await.unwrap();
        assert_eq!((plan.address.to_string().as_str(), plan.sessions_max), ("127.0.0.1:2", 9));
        assert_eq!(
            (plan.roots, plan.origins),
            (vec![house.path("one")], vec!["http://b.example:8080".to_owned()])
        );
    }

    #[tokio::test]
    async fn roots_are_real_folders_and_named_once() {
        let house = House::new();
        std::os::unix::fs::symlink(house.path("two"), house.path("one/link")).unwrap();
        let plan = house.plan(roots(&["link", "../two", ".", "../one/"])).await.unwrap();
        assert_eq!(plan.roots, [house.path("two"), house.path("one")]);
        fs::write(house.path("one/file"), "").unwrap();
        for (name, part) in [("missing", "No such file"), ("file", "it is no folder")] {
            let problem = house.plan(roots(&[name])).await.unwrap_err();
            let place = house.path("one").join(name).display().to_string();
            assert!(problem.contains(part) && problem.contains(&place), "{problem}");
            assert!(problem.contains("flag --root"), "{problem}");
        }
    }

    #[tokio::test]
    async fn origins_are_those_of_the_web() {
        let house = House::new();
        let plan = |origin: &str| {
            house.plan(ServeArgs { origin: vec![origin.to_owned()], ..ServeArgs::default() })
        };
        assert_eq!(plan("https://A.example/").await.unwrap().origins, ["https://a.example"]);
        for wrong in
            ["*", "null", "a.example", "ftp://a.example", "https://a.example/x", "file:///x"]
        {
            let problem = plan(wrong).await.unwrap_err();
            assert!(problem.starts_with(&format!("origin {wrong} (flag --origin)")), "{problem}");
        }
    }

    #[tokio::test]
    async fn a_project_grants_nothing_beyond_its_own_folder() {
        let house = House::new();
        fs::create_dir_all(house.path("one/.narthex")).unwrap();
        let rules = "[permissions]\nallow = [\"run_shell(make *)\"]\ndeny = [\"web_fetch\"]\n";
        fs::write(house.path("one/.narthex/config.toml"), rules).unwrap();
        let home = house.path("home").display().to_string();
        let environment = Environment::new(&house.path("one"), &[("NARTHEX_HOME", &home)]);
        let globals = Globals { trust_project: true, ..Globals::default() };
        let counts = async |args: ServeArgs| {
            let plan = Plan::make(&globals, args, &environment).await.unwrap();
            let layer = plan.settings.policy.layers().next().cloned().unwrap();
            (layer.allow.len(), layer.deny.len())
        };
        assert_eq!(counts(ServeArgs::default()).await, (1, 1));
        assert_eq!(counts(roots(&[".", "../two"])).await, (0, 1));
    }
}
