//! Others that keep a process apart: bubblewrap and runc, where they are installed. Both with
//! fewer layers than a neuron has: see `bench/README.md`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::program::bare;
use crate::summary::ms;
use crate::{memory, table};

/// What keeps a sandbox alive while others are measured.
const SLEEP: &str = "600";

/// The links that a root needs for its programs to be found.
const LINKS: [(&str, &str); 4] =
    [("/bin", "usr/bin"), ("/lib", "usr/lib"), ("/lib64", "usr/lib64"), ("/sbin", "usr/sbin")];

/// Those that are here.
#[derive(Debug)]
pub(super) struct Peers {
    bubblewrap: Option<PathBuf>,
    runc: Option<Runc>,
    notes: Vec<String>,
}

#[derive(Debug)]
struct Runc {
    program: PathBuf,
    /// Where it keeps what it knows.
    state: PathBuf,
    /// A bundle whose command is `true`, and one whose command sleeps.
    quick: PathBuf,
    slow: PathBuf,
}

/// A container that runs, until this is dropped.
#[derive(Debug)]
pub(super) struct Container<'a>(Option<&'a Runc>);

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let further = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(further)
        .map(|folder| folder.join(name))
        .find(|it| it.is_file())
}

impl Peers {
    /// Finds them, and tries each once: one that does not run here is left out, and told.
    pub(super) fn find(folder: &Path) -> Result<Self> {
        let mut peers = Self { bubblewrap: find("bwrap"), runc: None, notes: Vec::new() };
        match &peers.bubblewrap {
            None => peers.notes.push("bubblewrap is not installed.".to_owned()),
            Some(_) => {
                if let Err(error) = peers.bubblewrap() {
                    peers.leave_out("bubblewrap", &error);
                    peers.bubblewrap = None;
                }
            }
        }
        match find("runc") {
            None => peers.notes.push("runc is not installed.".to_owned()),
            Some(program) => {
                peers.runc = Some(Runc::prepare(program, &folder.join("runc"))?);
                if let Err(error) = peers.runc(0) {
                    peers.leave_out("runc", &error);
                    peers.runc = None;
                }
            }
        }
        Ok(peers)
    }

    fn leave_out(&mut self, name: &str, error: &anyhow::Error) {
        table::complain(&format!("{name} is left out: {error:#}"));
        self.notes.push(format!("{name} does not run here."));
    }

    /// Says which there are, in their own words.
    pub(super) fn describe(&self) -> String {
        let mut parts = self.notes.clone();
        let programs = [self.bubblewrap.as_ref(), self.runc.as_ref().map(|runc| &runc.program)];
        for program in programs.into_iter().flatten() {
            let said = bare(program).arg("--version").output().map(|ran| ran.stdout);
            let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
            parts.push(format!("{}.", said.lines().next().unwrap_or("?").trim()));
        }
        parts.join(" ")
    }

    /// Runs `true` as it is, in ms.
    pub(super) fn bare(&self) -> Result<f64> {
        let program = find("true").context("there is no true")?;
        timed(bare(&program), "true")
    }

    /// Runs `true` in a sandbox of bubblewrap.
    pub(super) fn bubblewrap(&self) -> Result<Option<f64>> {
        let Some(program) = &self.bubblewrap else { return Ok(None) };
        let mut command = bare(program);
        command.args(bubblewrap_arguments()).arg("true");
        timed(command, "bwrap").map(Some)
    }

    /// Runs `true` in a container of runc.
    pub(super) fn runc(&self, turn: usize) -> Result<Option<f64>> {
        let Some(runc) = &self.runc else { return Ok(None) };
        let mut command = runc.command();
        command.args(["run", "--bundle"]).arg(&runc.quick).arg(name("quick", turn));
        timed(command, "runc run").map(Some)
    }

    /// Starts a container in which commands can be run.
    pub(super) fn start_container(&self) -> Result<Container<'_>> {
        if let Some(runc) = &self.runc {
            runc.start("running", 0)?;
        }
        Ok(Container(self.runc.as_ref()))
    }

    /// Lets many live in bubblewrap and returns what they take together: proportional and resident
    /// memory in MiB.
    pub(super) fn alive_in_bubblewrap(&self, count: usize) -> Result<Option<(f64, f64)>> {
        let Some(program) = &self.bubblewrap else { return Ok(None) };
        let mut alive = Alive::default();
        for _ in 0..count {
            let mut command = bare(program);
            command.args(bubblewrap_arguments()).args(["sleep", SLEEP]);
            alive.0.push(command.stdin(Stdio::null()).spawn().context("start bwrap")?);
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
        let roots: HashSet<u32> = alive.0.iter().map(Child::id).collect();
        Ok(Some(memory::of_trees(&roots)))
    }

    /// The same in containers of runc.
    pub(super) fn alive_in_runc(&self, count: usize) -> Result<Option<(f64, f64)>> {
        let Some(runc) = &self.runc else { return Ok(None) };
        let mut roots = HashSet::new();
        let mut outcome = Ok(());
        for number in 0..count {
            match runc.start("alive", number) {
                Ok(pid) => drop(roots.insert(pid)),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let sizes = memory::of_trees(&roots);
        for number in 0..count {
            runc.delete("alive", number);
        }
        outcome.map(|()| Some(sizes))
    }
}

impl Runc {
    /// Makes bundles over the system's own folders.
    fn prepare(program: PathBuf, folder: &Path) -> Result<Self> {
        let runc = Self {
            program,
            state: folder.join("state"),
            quick: folder.join("quick"),
            slow: folder.join("slow"),
        };
        for (bundle, arguments) in [(&runc.quick, vec!["true"]), (&runc.slow, vec!["sleep", SLEEP])]
        {
            let root = bundle.join("rootfs");
            std::fs::create_dir_all(root.join("usr")).context("make a bundle")?;
            for (link, target) in LINKS {
                let link = root.join(link.trim_start_matches('/'));
                std::os::unix::fs::symlink(target, link).context("make a bundle")?;
            }
            let made = bare(&runc.program).arg("spec").current_dir(bundle).status();
            if !made.context("start runc")?.success() {
                bail!("runc spec failed");
            }
            let path = bundle.join("config.json");
            let text = std::fs::read_to_string(&path).context("read a bundle")?;
            let mut config: Value = serde_json::from_str(&text).context("read a bundle")?;
            set(&mut config, "/process", "terminal", json!(false));
            set(&mut config, "/process", "args", json!(arguments));
            set(&mut config, "/linux/resources", "memory", json!({ "limit": 1 << 30 }));
            set(&mut config, "/linux/resources", "pids", json!({ "limit": 4_096 }));
            let usr = json!({
                "destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]
            });
            let mounts = config.get_mut("mounts").and_then(Value::as_array_mut);
            let mounts = mounts.context("a bundle without mounts")?;
            mounts.push(usr);
            std::fs::write(&path, config.to_string()).context("write a bundle")?;
        }
        Ok(runc)
    }

    fn command(&self) -> std::process::Command {
        let mut command = bare(&self.program);
        command.arg("--root").arg(&self.state);
        command
    }

    /// Starts a container that lives, and returns its first process.
    fn start(&self, kind: &str, number: usize) -> Result<u32> {
        let name = name(kind, number);
        let pid_file = self.state.with_file_name(&name);
        let mut command = self.command();
        command.args(["run", "--detach", "--bundle"]).arg(&self.slow);
        command.arg("--pid-file").arg(&pid_file).arg(&name);
        timed(command, "runc run --detach")?;
        let pid = std::fs::read_to_string(&pid_file).context("read the id of a container")?;
        pid.trim().parse().context("read the id of a container")
    }

    fn delete(&self, kind: &str, number: usize) {
        let mut command = self.command();
        command.args(["delete", "--force"]).arg(name(kind, number));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        drop(command.status());
    }
}

impl Container<'_> {
    /// Runs `true` in it.
    pub(super) fn run(&self) -> Result<Option<f64>> {
        let Some(runc) = self.0 else { return Ok(None) };
        let mut command = runc.command();
        command.arg("exec").arg(name("running", 0)).arg("true");
        timed(command, "runc exec").map(Some)
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        if let Some(runc) = self.0 {
            runc.delete("running", 0);
        }
    }
}

/// Processes that end with this.
#[derive(Debug, Default)]
struct Alive(Vec<Child>);

impl Drop for Alive {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Names a container so that no other bench has it.
fn name(kind: &str, number: usize) -> String {
    format!("bench-{}-{kind}-{number}", std::process::id())
}

/// All namespaces, the system's programs, an empty rest: what its own examples do.
fn bubblewrap_arguments() -> Vec<&'static str> {
    let mut arguments =
        vec!["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"];
    for (link, target) in LINKS {
        arguments.extend(["--symlink", target, link]);
    }
    arguments.extend(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/", "--"]);
    arguments
}

/// Runs a command to its good end and returns how long that took, in ms.
fn timed(mut command: std::process::Command, what: &str) -> Result<f64> {
    // Nobody reads: a container that lives on would keep a pipe open.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let since = Instant::now();
    let status = command.status().with_context(|| format!("start {what}"))?;
    let took = ms(since.elapsed());
    if !status.success() {
        bail!("{what} ended with {status}");
    }
    Ok(took)
}

/// Puts a field into the object at a place of a document.
fn set(document: &mut Value, place: &str, name: &str, value: Value) {
    if let Some(Value::Object(fields)) = document.pointer_mut(place) {
        fields.insert(name.to_owned(), value);
    }
}
