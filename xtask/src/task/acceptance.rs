//! `cargo xtask acceptance`: black-box tests that lie beside the repository, not in it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::house::House;
use crate::{needs, process, say, venv};

/// Tests that are not run, each with its reason.
const LEFT_OUT: &str = "conformance/acceptance-left-out.txt";

/// The files that concern what exists.
const FILES: &[&str] = &[
    "test_cli_run.py",
    "test_cli_processes.py",
    "test_cli_files.py",
    "test_cli_provider.py",
    "test_cli_modes.py",
    "test_cli_shell_rules.py",
    "test_cortex_approvals.py",
    "test_cortex_binding.py",
    "test_cortex_events.py",
    "test_cortex_exec.py",
    "test_cortex_headers.py",
    "test_cortex_limits.py",
    "test_cortex_mcp.py",
    "test_cortex_message.py",
    "test_cortex_neurons.py",
    "test_cortex_run.py",
    "test_cortex_sessions.py",
    "test_cortex_validation.py",
    "test_host_approvals.py",
    "test_host_handshake.py",
    "test_host_models.py",
    "test_host_policy.py",
    "test_host_sessions.py",
    "test_host_socket.py",
    "test_v1_gate.py",
    "test_v1_history.py",
    "test_v1_permissions.py",
    "test_v1_server.py",
    "test_v1_sessions.py",
    "test_v1_stream.py",
];

/// Runs the files, by default those of the parts that exist. A test that fails is run once more
/// before it counts: these tests start many processes and wait for them.
///
/// # Errors
/// When a test fails twice, or a line of the list of left-out tests is stale or has no reason.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let house = House::open()?;
    let folder = match house.root.parent() {
        Some(parent) => parent.join("shared").join("acceptance"),
        None => bail!("the repository has no folder above it"),
    };
    if !folder.is_dir() {
        say::line("acceptance: left out, no ../shared/acceptance beside the repository");
        return Ok(());
    }
    needs::ensure(&[needs::GIT, needs::BASH, needs::PYTHON])?;
    say::step("build the programs", || house.build())?;
    let python = venv::ensure(&house.root, "test", &[venv::PYTEST.to_owned()])?;
    let suite = Suite { house: &house, folder, python };
    let named: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let files = if named.is_empty() { FILES } else { &named };
    say::step("acceptance tests", || suite.run(files))
}

struct Suite<'a> {
    house: &'a House,
    folder: PathBuf,
    python: PathBuf,
}

impl Suite<'_> {
    fn run(&self, files: &[&str]) -> Result<()> {
        let paths: Vec<String> = files
            .iter()
            .map(|file| self.folder.join(file).to_string_lossy().into_owned())
            .collect();
        let left_out = self.left_out(&paths)?;
        let mut command = self.pytest();
        command.args(&paths);
        for id in &left_out {
            command.arg("--deselect").arg(id);
        }
        let mut report = read(&mut command)?;
        if !report.failed.is_empty() {
            say::line(&format!("acceptance: {} failed; once more", report.failed.len()));
            let again = read(self.pytest().args(&report.failed))?;
            report.passed += again.passed;
            report.failed = again.failed;
            report.is_broken |= again.is_broken;
        }
        let skipped = report.skipped + left_out.len();
        let failed = report.failed.len();
        for id in &report.failed {
            say::line(&format!("acceptance: failed twice: {id}"));
        }
        say::line(&format!(
            "acceptance: {} passed, {failed} failed, {skipped} skipped",
            report.passed
        ));
        if failed > 0 || report.is_broken || report.passed == 0 {
            bail!("{failed} acceptance tests failed");
        }
        Ok(())
    }

    /// Reads the list of left-out tests that concern these files, and holds it against the tests
    /// there are.
    fn left_out(&self, paths: &[String]) -> Result<Vec<String>> {
        let file = self.house.root.join(LEFT_OUT);
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {LEFT_OUT}"))?;
        let listed = process::output(self.pytest().args(["--collect-only", "-q"]).args(paths))?;
        let there: BTreeSet<&str> = listed.lines().map(bare).collect();
        let files: Vec<&str> = paths.iter().filter_map(|path| path.rsplit('/').next()).collect();
        let mut ids = Vec::new();
        for (id, reason) in parse_left_out(&text) {
            if !files.iter().any(|file| id.starts_with(file)) {
                continue;
            }
            if reason.is_empty() {
                bail!("{LEFT_OUT}: {id} has no reason: write `{id} # why`");
            }
            // A name without brackets stands for every case of the test.
            let cases = format!("{id}[");
            let before = ids.len();
            let is_meant = |test: &&&str| **test == id || test.starts_with(&cases);
            ids.extend(there.iter().filter(is_meant).map(|test| (*test).to_owned()));
            if ids.len() == before {
                bail!("{LEFT_OUT}: there is no test {id}: take the line out");
            }
        }
        Ok(ids)
    }

    /// Prepares pytest: the folder is not ours and stays as it is, so no caches and no bytecode.
    fn pytest(&self) -> Command {
        let mut command = process::program(&self.python);
        command.args(["-B", "-m", "pytest", "-p", "no:cacheprovider", "-rfE", "--color=no"]);
        command.arg("--rootdir").arg(&self.folder).current_dir(&self.house.root);
        command
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("NARTHEX_BIN", self.house.binary("narthex"));
        command.stdin(Stdio::null());
        command
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    passed: usize,
    skipped: usize,
    /// Ids as pytest takes them again.
    failed: Vec<String>,
    /// Whether pytest ended badly with nothing that could be run again.
    is_broken: bool,
}

/// Runs pytest, shows what it prints, and reads the result of it.
fn read(command: &mut Command) -> Result<Report> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("start pytest")?;
    let mut lines = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.context("read what pytest prints")?;
            say::line(&line);
            lines.push(line);
        }
    }
    let status = child.wait().context("wait for pytest")?;
    let mut report = parse_report(&lines);
    report.is_broken = !status.success() && report.failed.is_empty();
    Ok(report)
}

fn parse_report(lines: &[String]) -> Report {
    let mut report = Report::default();
    for line in lines {
        let id = ["FAILED ", "ERROR "].into_iter().find_map(|word| line.strip_prefix(word));
        if let Some(id) = id.and_then(|id| id.split(" - ").next()).filter(|id| id.contains("::")) {
            // A test whose fixture fails as well is listed twice.
            if !report.failed.iter().any(|failed| failed == id) {
                report.failed.push(id.to_owned());
            }
        }
    }
    let last = lines.iter().rev().find(|line| line.starts_with("==") && line.contains(" in "));
    let words: Vec<&str> = last.map(|line| line.split([' ', ',']).collect()).unwrap_or_default();
    for pair in words.windows(2) {
        let [count, word] = pair else { continue };
        let count = count.parse().unwrap_or(0);
        match *word {
            "passed" => report.passed = count,
            "skipped" => report.skipped = count,
            _ => {}
        }
    }
    report
}

/// Reads lines `file.py::test_name # reason`.
fn parse_left_out(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| match line.split_once(" #") {
        Some((id, reason)) => (id.trim(), reason.trim()),
        None => (line, ""),
    })
}

/// Takes the folders off an id, as the list has it.
fn bare(id: &str) -> &str {
    let (path, _) = id.split_once("::").unwrap_or((id, ""));
    let folders = Path::new(path).parent().map_or(0, |folder| folder.as_os_str().len());
    id.get(folders..).unwrap_or(id).trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Report {
        parse_report(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_report_is_read_from_what_pytest_prints() {
        let text = "FAILED ../a/test_x.py::test_one[a b] - AssertionError: x - y\n\
                    ERROR ../a/test_x.py::test_one[a b] - at teardown\n\
                    ERROR ../a/test_x.py::test_two - boom\n\
                    ==== 1 failed, 7 passed, 2 skipped, 2 errors in 3.20s ====";
        let expected = Report {
            passed: 7,
            skipped: 2,
            failed: vec!["../a/test_x.py::test_one[a b]".into(), "../a/test_x.py::test_two".into()],
            is_broken: false,
        };
        assert_eq!(report(text), expected);
    }

    #[test]
    fn a_report_without_tests_has_passed_none() {
        assert_eq!(report("==== no tests ran in 0.01s ===="), Report::default());
    }

    #[test]
    fn left_out_tests_have_reasons() {
        let text = "# a note\n\nt.py::one # waits for more\nt.py::two\n";
        let read: Vec<_> = parse_left_out(text).collect();
        assert_eq!(read, [("t.py::one", "waits for more"), ("t.py::two", "")]);
    }

    #[test]
    fn ids_are_compared_without_folders() {
        assert_eq!(bare("../shared/acceptance/t.py::one[a/b]"), "t.py::one[a/b]");
        assert_eq!(bare("t.py::one"), "t.py::one");
    }
}
