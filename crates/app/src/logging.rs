//! The log file: only where it was asked for, and never with a secret or a prompt.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;

use door_cli::Failure;
use tracing::level_filters::LevelFilter;

use crate::settings::Level;

/// Starts to write `logs/narthex.log` in the home folder.
///
/// # Errors
/// When the file cannot be opened: whoever asks for a log wants one.
pub(crate) fn start(home: &Path, level: Level) -> Result<(), Failure> {
    let folder = home.join("logs");
    let path = folder.join("narthex.log");
    let problem =
        |error: std::io::Error| Failure::usage(format!("open log {}: {error}", path.display()));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(problem)?;
    let file =
        OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(problem)?;
    let filter = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(filter)
        .with_ansi(false)
        .with_writer(Mutex::new(file))
        .finish();
    // Only a test that opens two programs in one process can have set one before.
    drop(tracing::subscriber::set_global_default(subscriber));
    Ok(())
}
