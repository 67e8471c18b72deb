//! Programs that tests and builds need, and how they come onto the machine.

use std::path::Path;

use anyhow::{Result, bail};

use crate::{process, say};

/// Something that must be on the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// What it is called.
    name: &'static str,
    /// A command that succeeds when it is there.
    probe: &'static [&'static str],
    /// The Debian packages that bring it.
    packages: &'static [&'static str],
}

/// The version control that tests and the demonstration use.
pub(crate) const GIT: Need =
    Need { name: "git", probe: &["git", "--version"], packages: &["git", "ca-certificates"] };
/// The shell that the shell tool runs.
pub(crate) const BASH: Need =
    Need { name: "bash", probe: &["bash", "--version"], packages: &["bash"] };
/// The C compiler that SQLite and ring are built with.
pub(crate) const COMPILER: Need =
    Need { name: "a C compiler", probe: &["cc", "--version"], packages: &["gcc", "libc6-dev"] };
/// Python with venv and pip, for tests that speak through other people's libraries.
pub(crate) const PYTHON: Need = Need {
    name: "python3 with venv",
    probe: &["python3", "-c", "import venv, ensurepip"],
    packages: &["python3", "python3-venv"],
};

/// The package manager of Node.js; it brings a Node.js where the system's is too old.
pub(crate) const NPM: Need =
    Need { name: "npm", probe: &["npm", "--version"], packages: &["nodejs", "npm"] };

impl Need {
    fn is_met(&self) -> bool {
        match self.probe.split_first() {
            Some((program, arguments)) => process::succeeds(program, arguments),
            None => true,
        }
    }
}

/// Installs what is missing where this may be done: on Debian, as root. Elsewhere says how.
///
/// # Errors
/// When something is missing and stays so.
pub(crate) fn ensure(needs: &[Need]) -> Result<()> {
    let missing = || needs.iter().filter(|need| !need.is_met()).collect::<Vec<_>>();
    let absent = missing();
    if absent.is_empty() {
        return Ok(());
    }
    let names = absent.iter().map(|need| need.name).collect::<Vec<_>>().join(", ");
    let packages = absent.iter().flat_map(|need| need.packages).copied().collect::<Vec<_>>();
    if !Path::new("/etc/debian_version").exists() || process::find("apt-get").is_none() {
        bail!("missing: {names}; install them with this system's package manager and try again");
    }
    if !is_root() {
        bail!("missing: {names}; run `sudo apt-get install {}`, then again", packages.join(" "));
    }
    say::step(&format!("install {names}"), || {
        apt(&["update"])?;
        apt(&[&["install", "--yes", "--no-install-recommends"][..], &packages].concat())
    })?;
    match missing().first() {
        Some(need) => bail!("{} is still missing after {}", need.name, packages.join(" ")),
        None => Ok(()),
    }
}

fn apt(arguments: &[&str]) -> Result<()> {
    let mut command = process::program("apt-get");
    command.arg("--quiet=2").args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    process::run(&mut command)
}

fn is_root() -> bool {
    process::output(process::program("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_there_meets_its_need() {
        let need = Need { name: "sh", probe: &["sh", "-c", "exit 0"], packages: &[] };
        assert!(need.is_met());
    }

    #[test]
    fn a_program_that_fails_or_is_absent_does_not() {
        let fails = Need { name: "sh", probe: &["sh", "-c", "exit 3"], packages: &[] };
        let absent = Need { name: "none", probe: &["no-such-program-here"], packages: &[] };
        assert!(!fails.is_met() && !absent.is_met());
    }
}
