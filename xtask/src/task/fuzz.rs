//! `cargo xtask fuzz`: runs the fuzz targets with the nightly toolchain.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::house::House;
use crate::{process, say};

/// How long a target runs unless it is said otherwise: long enough to be worth the build, short
/// enough for a coffee.
const SECONDS: u64 = 600;

/// The longest input that a run makes, in bytes. Long inputs make runs slow, and what is wrong
/// with one is wrong with a short one too.
const INPUT_BYTES_MAX: usize = 4096;

/// How many files a corpus in git has at most, spread evenly over the sizes.
const CORPUS_FILES_MAX: usize = 150;

/// The longest file of a corpus in git, in bytes.
const CORPUS_FILE_BYTES_MAX: u64 = 1024;

/// What the arguments ask for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    seconds: Option<u64>,
    /// Whether to put what was found into the corpora in git instead of running.
    keeps: bool,
    targets: Vec<String>,
}

/// Runs every target, or those that are named, for some time each.
///
/// # Errors
/// When cargo-fuzz or the nightly toolchain is missing, a target does not build, or it finds
/// something.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let wish = wish(arguments)?;
    let house = House::open()?;
    let folder = house.root.join("fuzz");
    let known = targets(&folder)?;
    if let Some(unknown) = wish.targets.iter().find(|name| !known.contains(name)) {
        bail!("no target '{unknown}': there are {}", known.join(", "));
    }
    if !process::succeeds("cargo", &["+nightly", "fuzz", "--version"]) {
        bail!(
            "needs cargo-fuzz and a nightly toolchain: `cargo install cargo-fuzz --locked` and \
             `rustup toolchain install nightly`"
        );
    }
    let chosen = if wish.targets.is_empty() { &known } else { &wish.targets };
    for target in chosen {
        if wish.keeps {
            say::step(&format!("keep the corpus of {target}"), || keep(&folder, target))?;
        } else {
            let seconds = wish.seconds.unwrap_or(SECONDS);
            say::step(&format!("fuzz {target} for {seconds} s"), || {
                fuzz(&folder, target, seconds)
            })?;
        }
    }
    Ok(())
}

fn wish(arguments: &[String]) -> Result<Wish> {
    let mut wish = Wish::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seconds" => {
                let value = rest.next().context("--seconds needs a number")?;
                wish.seconds = Some(value.parse().with_context(|| format!("read '{value}'"))?);
            }
            "--keep" => wish.keeps = true,
            option if option.starts_with('-') => {
                bail!("does not know '{option}': it takes --seconds N, --keep and names of targets")
            }
            name => wish.targets.push(name.to_owned()),
        }
    }
    Ok(wish)
}

/// Lists the targets by their files.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.join("fuzz_targets");
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// What a run finds on its way goes to a folder of its own, which git does not see; the corpus
/// and the seeds in git are only read.
fn folders(folder: &Path, target: &str) -> Result<[PathBuf; 3]> {
    let folders = ["work", "corpus", "seeds"].map(|name| folder.join(name).join(target));
    for folder in &folders {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    Ok(folders)
}

fn cargo_fuzz(folder: &Path, target: &str) -> std::process::Command {
    let mut command = process::program("cargo");
    command.args(["+nightly", "fuzz", "run", "--sanitizer", "none", target]);
    // The toolchain that runs this task must not be handed on to that one.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command.current_dir(folder);
    command
}

fn fuzz(folder: &Path, target: &str, seconds: u64) -> Result<()> {
    let folders = folders(folder, target)?;
    let mut command = cargo_fuzz(folder, target);
    command.args(folders).arg("--");
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command.args(["-timeout=20", "-print_final_stats=1"]);
    process::run(&mut command)
}

/// Puts what runs found into the corpus in git: the files that reach something new, small ones.
fn keep(folder: &Path, target: &str) -> Result<()> {
    let [work, corpus, seeds] = folders(folder, target)?;
    let merged = folder.join("work").join(format!("{target}.merged"));
    if merged.exists() {
        std::fs::remove_dir_all(&merged).with_context(|| format!("clear {}", merged.display()))?;
    }
    std::fs::create_dir_all(&merged).with_context(|| format!("make {}", merged.display()))?;
    let mut command = cargo_fuzz(folder, target);
    command.arg(&merged).args([&corpus, &work, &seeds]).args(["--", "-merge=1"]);
    command.arg(format!("-max_len={CORPUS_FILE_BYTES_MAX}"));
    process::run(&mut command)?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&merged).context("list what was merged")? {
        let path = entry.context("list what was merged")?.path();
        let bytes = path.metadata().map(|metadata| metadata.len()).context("look at a file")?;
        found.push((bytes, path));
    }
    found.sort_unstable();
    found.retain(|(bytes, _)| *bytes <= CORPUS_FILE_BYTES_MAX);
    let spread = |at: usize| at * found.len() / CORPUS_FILES_MAX;
    let found = match found.len() > CORPUS_FILES_MAX {
        true => (0..CORPUS_FILES_MAX).filter_map(|at| found.get(spread(at)).cloned()).collect(),
        false => found,
    };
    std::fs::remove_dir_all(&corpus).with_context(|| format!("clear {}", corpus.display()))?;
    std::fs::create_dir_all(&corpus).with_context(|| format!("make {}", corpus.display()))?;
    for (_, path) in &found {
        let name = path.file_name().context("a file has a name")?;
        std::fs::copy(path, corpus.join(name)).context("copy a file of the corpus")?;
    }
    std::fs::remove_dir_all(&merged).with_context(|| format!("clear {}", merged.display()))?;
    say::line(&format!("{target}: {} files", found.len()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Wish> {
        wish(&arguments.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read() {
        assert_eq!(read(&[]).unwrap(), Wish::default());
        let wish = read(&["shell", "--seconds", "60", "rule"]).unwrap();
        assert_eq!((wish.seconds, wish.keeps), (Some(60), false));
        assert_eq!(wish.targets, ["shell", "rule"]);
        assert!(read(&["--keep"]).unwrap().keeps);
        assert!(read(&["--seconds"]).is_err() && read(&["--seconds", "x"]).is_err());
        assert!(read(&["--fast"]).unwrap_err().to_string().contains("--keep"));
    }

    #[test]
    fn targets_are_found_by_their_files() {
        let house = House::open().unwrap();
        let targets = targets(&house.root.join("fuzz")).unwrap();
        assert!(targets.contains(&"shell".to_owned()) && targets.contains(&"rule".to_owned()));
    }
}
