//! The server under minutes of churn, beside the other checks.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::house::House;
use crate::{process, say};

/// The test, which is not among the others: it takes as long as it is told.
const TEST: &str = "memory_and_descriptors_stay_flat";

/// How long it churns here, in seconds.
const SECONDS: &str = "300";

/// The test at work. It uses a fraction of a core.
#[derive(Debug)]
pub(crate) struct Churn(Option<Child>);

impl Churn {
    /// Starts it. The tests of the workspace must be built already, or it builds them.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(house: &House) -> Result<Self> {
        say::line(&format!("churn: {SECONDS} s, beside what follows"));
        let mut command = command();
        command.current_dir(&house.root).env("NARTHEX_CHURN_SECONDS", SECONDS);
        let child = command.stdin(Stdio::null()).spawn().context("start the churn")?;
        Ok(Self(Some(child)))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When memory or descriptors grew.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Some(mut child) = self.0.take() else { return Ok(()) };
        let status = child.wait().context("wait for the churn")?;
        if !status.success() {
            bail!("the churn ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        // Something else has failed: nobody waits for the minutes that are left.
        if let Some(child) = &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn command() -> Command {
    let mut command = process::cargo();
    if process::find("cargo-nextest").is_some() {
        command.args(["nextest", "run", "--workspace", "--run-ignored", "only"]);
        command.args(["-E", &format!("test({TEST})")]);
    } else {
        command.args(["test", "--workspace", "--test", "it", "--", "--ignored", TEST]);
    }
    command
}
