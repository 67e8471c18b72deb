//! What governs an agent of this process: the same as the program, without being asked for.

use std::path::{Path, PathBuf};

use hooks::HookLayer;
use policy::Policy;
use protocol::Mode;

use super::{
    GovernError, KeptRules, Remote, SYSTEM_FOLDER, Standing, managed, managed_file, managed_hooks,
    mode_under,
};
use crate::Error;

/// What an agent is to be.
pub(crate) struct Wanted<'a> {
    /// The folder with everything that is kept.
    pub(crate) home: &'a Path,
    /// The mode that was asked for.
    pub(crate) mode: Option<Mode>,
    /// Layers of the program's own.
    pub(crate) policy: Policy,
    /// Managed settings beside those of the machine.
    pub(crate) files: &'a [PathBuf],
}

/// What governs an agent.
#[derive(Debug)]
pub(crate) struct Governing {
    /// Every layer above the session.
    pub(crate) policy: Policy,
    /// The mode of sessions that name none.
    pub(crate) mode: Mode,
    /// Hooks of the organisation.
    pub(crate) hooks: Vec<HookLayer>,
    /// What a person should know, one sentence each.
    pub(crate) notices: Vec<String>,
    /// What keeps the remote policy fresh, where there is one.
    pub(crate) standing: Option<Standing>,
}

impl Governing {
    /// Reads what governs, and waits for a remote policy where none is kept.
    ///
    /// # Errors
    /// [`Error::Governed`] for a file that cannot be read, and where a remote policy is required
    /// and none holds; [`Error::Refused`] with `locked_by_policy` for a mode that was asked for.
    pub(crate) async fn of(wanted: Wanted<'_>) -> Result<Self, Error> {
        let mut own = Governing {
            policy: wanted.policy,
            mode: Mode::default(),
            hooks: Vec::new(),
            notices: Vec::new(),
            standing: None,
        };
        if let Some(kept) = KeptRules::new(wanted.home).everywhere()? {
            own.policy = own.policy.tighten(kept);
        }
        let mut remote = None;
        for path in files(wanted.files) {
            let managed = managed(&path)?;
            own.hooks.extend(managed_hooks(&managed, &path)?);
            own.mode = mode_under(&managed.layer, own.mode).unwrap_or(own.mode);
            own.policy = own.policy.tighten(managed.layer);
            let Some(terms) = managed.remote else { continue };
            if let Some((first, _)) = remote.replace((path.clone(), terms)) {
                let (first, second) = (first.display(), path.display());
                let problem = format!("{first} and {second} both name a remotePolicyUrl");
                return Err(GovernError::Wrong(problem).into());
            }
        }
        if let Some((_, terms)) = remote {
            let remote = Remote::kept(&terms, wanted.home, &own.policy);
            own.take_remote(remote).await?;
        }
        if let Some((_, locked)) = own.policy.locked_mode().filter(|(_, mode)| *mode < own.mode) {
            own.mode = locked;
        }
        if let Some(asked) = wanted.mode {
            own.policy.check_mode(asked)?;
            own.mode = asked;
        }
        Ok(own)
    }

    async fn take_remote(&mut self, mut remote: Remote) -> Result<(), GovernError> {
        self.notices.extend(remote.notice());
        if let Some(accepted) = remote.in_force() {
            self.policy = self.policy.tighten(accepted.layer.clone());
        }
        let held = remote.hold(&self.policy).await?;
        if let Some(layer) = &held.fetched {
            self.policy = self.policy.tighten(layer.clone());
        }
        self.notices.extend(held.notice.clone());
        self.standing = Some(remote.standing(&held, self.policy.clone()));
        Ok(())
    }
}

/// Returns the managed settings of the machine, then the further ones. The variables are looked at
/// whatever the program asked for: they are the word of whoever set the machine up, and a program
/// that forgot to ask would escape it.
fn files(further: &[PathBuf]) -> Vec<PathBuf> {
    let cwd = std::env::current_dir().unwrap_or_default();
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut files = Vec::from_iter(managed_file(Path::new(SYSTEM_FOLDER), &cwd, variable));
    for path in further {
        if !files.contains(path) {
            files.push(path.clone());
        }
    }
    files
}
