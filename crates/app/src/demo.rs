//! The demo's project, embedded.

use std::fs;
use std::path::PathBuf;

use door_cli::{DemoProject, Failure};

const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("../demo/README.md")),
    ("slug.sh", include_str!("../demo/slug.sh")),
    ("test.sh", include_str!("../demo/test.sh")),
];

/// What the agent is asked.
const PROMPT: &str = "The tests of this project fail. Find the bug, fix it, and run the tests.";

/// Copies the project into a fresh folder, which stays: people want to look at it.
pub(crate) fn copy() -> Result<DemoProject, Failure> {
    let problem =
        |error: std::io::Error| Failure::failed(format!("copy the demo's project: {error}"));
    let folder: PathBuf =
        tempfile::Builder::new().prefix("narthex-demo-").tempdir().map_err(problem)?.keep();
    let folder = folder.canonicalize().map_err(problem)?;
    for (name, text) in FILES {
        fs::write(folder.join(name), text).map_err(problem)?;
    }
    let files = FILES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Ok(DemoProject {
        folder,
        files: files.collect(),
        prompt: PROMPT.to_owned(),
        proof: "test.sh".to_owned(),
    })
}
