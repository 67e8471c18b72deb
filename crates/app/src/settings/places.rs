//! The folders and files of settings.

use std::path::PathBuf;

use door_cli::Failure;
use narthex::governed::managed_file;

use super::Want;
use crate::environment::Environment;

/// Where things are.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Everything that the program keeps.
    pub(crate) home: PathBuf,
    /// What named it.
    pub(crate) home_origin: super::Origin,
    /// The working folder, real and absolute.
    pub(crate) cwd: PathBuf,
    /// The folder in which the program was started, against which paths of flags are read.
    pub(crate) launched_in: PathBuf,
    /// The user's home folder.
    pub(crate) user_home: Option<PathBuf>,
    /// The machine's file.
    pub(crate) system: PathBuf,
    /// The user's file.
    pub(crate) user: PathBuf,
    /// The managed settings, where there are any.
    pub(crate) managed: Option<PathBuf>,
}

impl Places {
    /// Finds everything. Creates nothing.
    pub(crate) fn find(want: Want<'_>) -> Result<Self, Failure> {
        let Want { globals, environment } = want;
        let launched_in = environment.cwd.clone();
        let (home, home_origin) = home(want)?;
        let asked = globals.cwd.clone().unwrap_or_else(|| launched_in.clone());
        let cwd = launched_in.join(asked);
        let cwd = cwd.canonicalize().map_err(|error| {
            Failure::usage(format!("working folder {}: {error}", cwd.display()))
        })?;
        if !cwd.is_dir() {
            return Err(Failure::usage(format!("--cwd: {} is no folder", cwd.display())));
        }
        let user = match &globals.config {
            Some(path) => launched_in.join(path),
            None => home.join("config.toml"),
        };
        Ok(Self {
            cwd,
            user,
            user_home: environment.user_home(),
            system: environment.system.join("config.toml"),
            managed: managed_file(&environment.system, &launched_in, |name| {
                environment.variable(name).map(PathBuf::from)
            }),
            home,
            home_origin,
            launched_in,
        })
    }
}

fn home(want: Want<'_>) -> Result<(PathBuf, super::Origin), Failure> {
    let Want { globals, environment } = want;
    let launched_in = &environment.cwd;
    if let Some(path) = &globals.home {
        return Ok((launched_in.join(path), super::Origin::Flag("--home".to_owned())));
    }
    // The second name is that of hosts that embed the program.
    for name in ["NARTHEX_HOME", "NEURALINVERSE_CONFIG_DIR"] {
        if let Some(path) = environment.variable(name) {
            return Ok((launched_in.join(path), super::Origin::Variable(name.to_owned())));
        }
    }
    match environment.user_home() {
        Some(home) => Ok((home.join(".narthex"), super::Origin::BuiltIn)),
        None => Err(Failure::usage(
            "HOME is not set, so there is no place to keep anything; set NARTHEX_HOME or --home",
        )),
    }
}

/// Returns how to start the workspace agent: its own small program beside this one, else this one.
pub(super) fn agent_command(environment: &Environment) -> Vec<String> {
    let own = &environment.program;
    let beside = own.with_file_name("narthex-agent");
    if beside.is_file() {
        return vec![beside.display().to_string()];
    }
    vec![own.display().to_string(), "agent".to_owned()]
}
