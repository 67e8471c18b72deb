//! Packages in a neuron. They come through its egress like everything else.

use std::time::Duration;

use driver_api::{CallFacts, NeuronDriver, Spawn, Workspace, WorkspaceError};
use protocol::{Effect, NeuronId, Refusal, RefusalCode};
use runtime_api::Error;
use runtime_api::neuron::{Executed, Install, PackageManager};

use super::command::Failure;
use super::exec::check_timeout;
use super::{House, invalid};

/// Packages of one installation: what a project needs, in a line that can be read.
const PACKAGES_MAX: usize = 50;

/// Characters of a package's name with its version.
const PACKAGE_CHARS_MAX: usize = 128;

/// Milliseconds that an installation may take: large packages over a slow line.
const TIMEOUT_MS_MAX: u64 = 1_800_000;

/// How long it is looked whether a neuron can have packages of the system.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// What of the superuser's rights the system's package manager needs, as bits of the kernel's:
/// to give files away, to write where it may not, and to set modes of files of others.
const RIGHTS_NEEDED: [(&str, u32); 3] = [("CHOWN", 0), ("DAC_OVERRIDE", 1), ("FOWNER", 3)];

/// The lists of packages are fetched first: those that an image came with are old, or not there.
/// Where that fails the lists that are there may still do, so the installation tells the end.
const APT: &str = "apt-get -q update; exec apt-get -q -y -o APT::Sandbox::User=root \
                   --no-install-recommends install -- \"$@\"";

impl House {
    pub(super) async fn install_packages(
        &self,
        neuron: &NeuronId,
        install: Install,
    ) -> Result<Executed, Error> {
        check(&install)?;
        let _admitted = self.admit()?;
        let workspace = self.enter(neuron).await?;
        let line = format!("{} {}", shown(install.manager), install.packages.join(" "));
        let facts = CallFacts {
            effect: Effect::Execute,
            summary: line.clone(),
            paths: Vec::new(),
            command: Some(line),
        };
        self.pass("run_shell", &facts, self.grounds(&*workspace), &self.spill_of(neuron))?;
        self.check_can(neuron, &*workspace, install.manager).await?;
        let spawn = spawn(&install, &*workspace);
        let limit = Duration::from_millis(install.timeout_ms);
        match self.run(&*workspace, spawn, limit).await {
            Ok(executed) => Ok(executed),
            Err(Failure::Start(WorkspaceError::NotFound(_))) => {
                let program = program(install.manager);
                let text = format!("manager: there is no {program} in this neuron");
                Err(not_supported(text).into())
            }
            Err(Failure::Start(error) | Failure::Watch(error)) => {
                Err(self.broken(neuron, error).await)
            }
        }
    }

    /// Refuses what this neuron cannot have, with the reason.
    async fn check_can(
        &self,
        neuron: &NeuronId,
        workspace: &dyn Workspace,
        manager: PackageManager,
    ) -> Result<(), Error> {
        // Into its own folder any neuron may put packages.
        if manager == PackageManager::Npm {
            return Ok(());
        }
        let info = self.options.neurons.info(neuron).await.map_err(super::refused)?;
        if info.driver == Some(NeuronDriver::Host) {
            let text = "manager: this neuron has the driver host, so that the packages would \
                        become those of the machine; npm puts them into the working folder, and \
                        python3 -m venv makes a place for those of pip";
            return Err(not_supported(text).into());
        }
        if manager == PackageManager::Pip {
            return Ok(());
        }
        let argv = ["cat", "/proc/self/status"].map(str::to_owned).into();
        let cwd = workspace.cwd().to_owned();
        let look = Spawn { argv, cwd, env: Vec::new(), stdin: Vec::new() };
        let seen = match self.run(workspace, look, LOOK_MAX).await {
            Ok(seen) => seen,
            Err(Failure::Start(error) | Failure::Watch(error)) => {
                return Err(self.broken(neuron, error).await);
            }
        };
        match lacking(&seen.stdout) {
            None => Ok(()),
            Some(lack) => {
                let text = format!(
                    "manager: apt cannot work in this neuron: its commands run {lack}; pip and \
                     npm can"
                );
                Err(not_supported(text).into())
            }
        }
    }
}

/// Says what a process lacks to put packages into the system, as its status tells.
fn lacking(status: &str) -> Option<String> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(1).or(line.split_whitespace().next()).map(str::to_owned)
    };
    let user = field("Uid:").unwrap_or_default();
    if user != "0" {
        return Some(format!("as the ordinary user {user}"));
    }
    let rights = field("CapEff:").and_then(|rights| u64::from_str_radix(&rights, 16).ok());
    let rights = rights.unwrap_or(0);
    let missing = RIGHTS_NEEDED.iter().filter(|(_, bit)| rights >> bit & 1 == 0);
    let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
    let text = format!("without the rights {}", missing.join(", "));
    (!missing.is_empty()).then_some(text)
}

fn check(install: &Install) -> Result<(), Refusal> {
    let count = install.packages.len();
    if !(1..=PACKAGES_MAX).contains(&count) {
        return Err(invalid(format!("packages: there are {count}, expected 1 to {PACKAGES_MAX}")));
    }
    check_timeout(install.timeout_ms, TIMEOUT_MS_MAX)?;
    for (index, package) in install.packages.iter().enumerate() {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"@._+:/=<>~^-".contains(&byte);
        let is_plain = (1..=PACKAGE_CHARS_MAX).contains(&package.len())
            && package.bytes().all(fits)
            && !package.starts_with('-');
        if !is_plain {
            return Err(invalid(format!(
                "packages[{index}]: expected 1 to {PACKAGE_CHARS_MAX} letters, digits and \
                 @._+:/=<>~^- without a '-' at the beginning"
            )));
        }
        if install.manager == PackageManager::Apt && package.ends_with('-') {
            let text = format!("packages[{index}]: apt takes a '-' at the end for a removal");
            return Err(invalid(text));
        }
    }
    Ok(())
}

fn program(manager: PackageManager) -> &'static str {
    match manager {
        PackageManager::Apt => "sh",
        PackageManager::Pip => "python3",
        PackageManager::Npm => "npm",
    }
}

/// Returns the command that rules are held against.
fn shown(manager: PackageManager) -> &'static str {
    match manager {
        PackageManager::Apt => "apt-get install",
        PackageManager::Pip => "pip install",
        PackageManager::Npm => "npm install",
    }
}

fn spawn(install: &Install, workspace: &dyn Workspace) -> Spawn {
    let (arguments, env): (&[&str], &[(&str, &str)]) = match install.manager {
        PackageManager::Apt => (&["-c", APT, "apt-get"], &[("DEBIAN_FRONTEND", "noninteractive")]),
        // A neuron is an environment of its own, whatever the system says about its Python.
        PackageManager::Pip => (
            &["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--"],
            &[("PIP_BREAK_SYSTEM_PACKAGES", "1"), ("PIP_ROOT_USER_ACTION", "ignore")],
        ),
        // Into the working folder, where code that runs there finds them.
        PackageManager::Npm => {
            (&["install", "--no-fund", "--no-audit", "--no-update-notifier", "--"], &[])
        }
    };
    let argv = [program(install.manager)].into_iter().chain(arguments.iter().copied());
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
    Spawn {
        argv: argv.map(str::to_owned).chain(install.packages.iter().cloned()).collect(),
        cwd: workspace.cwd().to_owned(),
        env: env.collect(),
        stdin: Vec::new(),
    }
}

fn not_supported(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::NotSupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_tells_what_is_lacking() {
        let status = |user: u32, rights: &str| {
            format!("Name:\tcat\nUid:\t{user}\t{user}\t{user}\t{user}\nCapEff:\t{rights}\n")
        };
        assert_eq!(lacking(&status(0, "000001ffffffffff")), None);
        assert_eq!(lacking(&status(0, "000000000000000b")), None);
        let without = lacking(&status(0, "0000000000000002")).unwrap();
        assert_eq!(without, "without the rights CHOWN, FOWNER");
        assert_eq!(lacking(&status(1500, "0")).unwrap(), "as the ordinary user 1500");
        assert!(lacking("").is_some() && lacking("Uid:\t0\t0\n").is_some());
    }
}
