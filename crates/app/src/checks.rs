//! The checks of `narthex doctor`. They look and change nothing.

mod server;

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use door_cli::{Check, CheckStatus};

use crate::environment::Environment;
use crate::model_choice;
use crate::settings::{BUILT_IN, Project, Settings, Want, shown_url};

/// How every SQLite file begins.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Runs every check.
pub(crate) async fn all(want: Want<'_>) -> Vec<Check> {
    let mut checks = vec![program(want.environment)];
    let settings = match Settings::load(want) {
        Ok(settings) => settings,
        Err(failure) => {
            let fix = "mend the file, variable or flag that is named here";
            checks.push(fail("settings", "files", failure.message, fix));
            return checks;
        }
    };
    checks.extend(files(&settings, want));
    checks.push(home(&settings.places.home));
    checks.push(store(&settings));
    checks.push(agent(&settings, want.environment));
    checks.extend(server::checks(&settings).await);
    checks.extend(models(&settings).await);
    checks
}

fn check(group: &str, name: &str, status: CheckStatus, message: impl Into<String>) -> Check {
    Check {
        group: group.to_owned(),
        name: name.to_owned(),
        status,
        message: message.into(),
        fix: None,
    }
}

fn ok(group: &str, name: &str, message: impl Into<String>) -> Check {
    check(group, name, CheckStatus::Ok, message)
}

fn warn(group: &str, name: &str, message: impl Into<String>, fix: &str) -> Check {
    Check { fix: Some(fix.to_owned()), ..check(group, name, CheckStatus::Warn, message) }
}

fn fail(group: &str, name: &str, message: impl Into<String>, fix: &str) -> Check {
    Check { fix: Some(fix.to_owned()), ..check(group, name, CheckStatus::Fail, message) }
}

fn program(environment: &Environment) -> Check {
    let version = env!("CARGO_PKG_VERSION");
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let path = environment.program.display();
    ok("program", "version", format!("{version} ({os}, {arch}) at {path}"))
}

fn files(settings: &Settings, want: Want<'_>) -> Vec<Check> {
    let places = &settings.places;
    let mut checks = Vec::new();
    let user = places.user.display();
    let is_open = mode(&places.user).is_some_and(|mode| mode & 0o077 != 0);
    let holds_key = settings.providers.iter().any(|known| match &known.key {
        Some(crate::Origin::File(_, path)) => *path == places.user,
        _ => false,
    });
    checks.push(match places.user.is_file() {
        true if is_open && holds_key => warn(
            "settings",
            "user file",
            format!("{user} holds a key and others can read it"),
            &format!("chmod 600 {user}"),
        ),
        true => ok("settings", "user file", format!("{user}")),
        false => ok("settings", "user file", format!("{user} (missing; nothing is needed in it)")),
    });
    if let Some(path) = &places.managed {
        checks.push(ok("settings", "managed", format!("{} is in force", path.display())));
    }
    if let Ok(Some(project)) = Project::find(places, want.globals.trust_project) {
        let path = project.path.display();
        checks.push(match &project.mistake {
            None if project.is_trusted => {
                ok("settings", "project file", format!("{path}, trusted"))
            }
            Some(mistake) => warn(
                "settings",
                "project file",
                format!("{mistake}; it is not trusted and was left out"),
                "mend it, or take it away",
            ),
            None => warn(
                "settings",
                "project file",
                format!("{path} is not trusted; only its deny rules hold"),
                "read it, then: narthex config trust",
            ),
        });
    }
    checks
}

fn mode(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|stat| stat.permissions().mode())
}

fn home(home: &Path) -> Check {
    let shown = home.display();
    let Ok(stat) = std::fs::metadata(home) else {
        let parent = home.ancestors().skip(1).find(|folder| folder.is_dir());
        return match parent {
            Some(folder) if is_writable(folder) => {
                ok("store", "home", format!("{shown} (made with the first session)"))
            }
            _ => fail(
                "store",
                "home",
                format!("{shown} is missing and cannot be made"),
                "set NARTHEX_HOME to a folder that you can write",
            ),
        };
    };
    let mode = stat.permissions().mode();
    if !stat.is_dir() || !is_writable(home) {
        let fix = "set NARTHEX_HOME to a folder that you can write";
        return fail("store", "home", format!("{shown} cannot be written"), fix);
    }
    if mode & 0o077 != 0 {
        let fix = format!("chmod 700 {shown}");
        return warn("store", "home", format!("others can look into {shown}"), &fix);
    }
    ok("store", "home", format!("{shown}"))
}

fn is_writable(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

fn store(settings: &Settings) -> Check {
    let usual = settings.places.home.join("narthex.db");
    let path = settings.store.value.clone().unwrap_or(usual);
    let shown = path.display();
    let mut head = [0; SQLITE_MAGIC.len()];
    let read = std::fs::File::open(&path).and_then(|mut file| file.read_exact(&mut head));
    match read {
        Ok(()) if head == SQLITE_MAGIC => {
            let size = std::fs::metadata(&path).map(|stat| stat.len()).unwrap_or(0);
            ok("store", "sessions", format!("{shown}, {}", stdx::bytes(size)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            ok("store", "sessions", format!("{shown} (made with the first session)"))
        }
        Ok(()) => fail(
            "store",
            "sessions",
            format!("{shown} is no SQLite file"),
            "move it away, or name another with NARTHEX_STORE=sqlite:PATH",
        ),
        Err(error) => fail(
            "store",
            "sessions",
            format!("{shown}: {error}"),
            "make it readable, or name another with NARTHEX_STORE=sqlite:PATH",
        ),
    }
}

fn agent(settings: &Settings, environment: &Environment) -> Check {
    let command = &settings.agent_command.value;
    let Some(program) = command.first() else {
        let fix = "set agent_command to a program and its arguments, or leave it out";
        return fail("agent", "workspace agent", "agent_command is empty", fix);
    };
    if find_program(program, environment).is_some() {
        return ok("agent", "workspace agent", command.join(" "));
    }
    let fix = "install narthex-agent beside narthex, or correct agent_command";
    fail("agent", "workspace agent", format!("{program} is no program"), fix)
}

fn find_program(program: &str, environment: &Environment) -> Option<PathBuf> {
    let can_run = |path: &PathBuf| path.is_file() && mode(path).is_some_and(|m| m & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(can_run);
    }
    let folders = std::env::split_paths(environment.variable("PATH").unwrap_or_default());
    folders.map(|folder| folder.join(program)).find(can_run)
}

async fn models(settings: &Settings) -> Vec<Check> {
    let mut checks = Vec::new();
    for built_in in BUILT_IN.iter().filter(|built_in| built_in.key_variable.is_some()) {
        let known = settings.providers.iter().find(|known| known.provider.name == built_in.name);
        let origin = known.and_then(|known| known.key.as_ref());
        checks.push(match origin {
            Some(origin) => ok("models", built_in.name, format!("key set ({origin})")),
            None => ok("models", built_in.name, "no key"),
        });
    }
    let found = model_choice::servers(settings).await;
    for server in &found {
        let name = model_choice::provider_name(server.kind);
        let count = stdx::plural(u64::try_from(server.models.len()).unwrap_or(0), "model");
        let first: Vec<&str> = server.models.iter().take(5).map(String::as_str).collect();
        let address = shown_url(&server.base_url);
        let message = format!("{address} answers, {count}: {}", first.join(", "));
        checks.push(ok("local servers", name, message));
    }
    if found.is_empty() {
        checks.push(ok("local servers", "none", "no model server answered on this machine"));
    }
    let choice = model_choice::choose(settings).await;
    checks.push(match choice {
        Ok(choice) => {
            let origin = &settings.model.origin;
            ok("models", "new sessions", format!("{} ({origin})", choice.model))
        }
        Err(failure) => {
            let (first, _) = failure.message.split_once(". ").unwrap_or((&failure.message, ""));
            let first = first.lines().next().unwrap_or_default();
            let fix = "export ANTHROPIC_API_KEY=…, or narthex login anthropic, or narthex config \
                       set model PROVIDER/MODEL, or start Ollama; narthex demo needs none of them";
            fail("models", "new sessions", first, fix)
        }
    });
    checks.sort_by(|left, right| right.group.cmp(&left.group));
    checks
}
