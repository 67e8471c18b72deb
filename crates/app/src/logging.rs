//! The log: a file where one was asked for, standard error of a server; never with a secret or a
//! prompt.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use door_cli::Failure;
use driver_api::{Clock, SystemClock};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

use crate::settings::{Level, LogFormat, Settings};

/// How many lines of a log may wait for whoever reads standard error. A reader that stands still
/// loses lines; the server does not wait for it.
const LINES_MAX: usize = 4_096;
/// How long the end of a server waits for its last lines to be read.
const FLUSH_WAIT: Duration = Duration::from_millis(500);

/// Starts to write `logs/narthex.log` in the home folder, where a level is set.
///
/// # Errors
/// When the file cannot be opened: whoever asks for a log wants one.
pub(crate) fn to_file(settings: &Settings) -> Result<(), Failure> {
    let Some(level) = settings.log_level.value else { return Ok(()) };
    let file = open(&settings.places.home)?;
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(Mutex::new(file));
    begin(layer.with_filter(targets(level, settings)));
    Ok(())
}

fn open(home: &Path) -> Result<fs::File, Failure> {
    let folder = home.join("logs");
    let path = folder.join("narthex.log");
    let problem =
        |error: io::Error| Failure::usage(format!("open log {}: {error}", path.display()));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(problem)?;
    OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(problem)
}

/// Starts to write to standard error: for people on a terminal, for programs elsewhere.
///
/// # Errors
/// When the thread that writes cannot be started.
pub(crate) fn to_stderr(settings: &Settings) -> Result<Flush, Failure> {
    let level = settings.log_level.value.unwrap_or(Level::Info);
    let is_json = match settings.log_format.value {
        LogFormat::Auto => !io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let lines = Lines::start(io::stderr(), is_json)
        .map_err(|error| Failure::failed(format!("start the log: {error}")))?;
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(lines.clone());
    let filter = targets(level, settings);
    if is_json {
        let layer = layer.json().flatten_event(true).with_span_list(false);
        begin(layer.with_filter(filter));
    } else {
        begin(layer.with_filter(filter));
    }
    Ok(Flush { lines, is_json })
}

/// Sets the log of the process.
fn begin<L>(layer: L)
where
    L: Layer<tracing_subscriber::Registry> + Send + Sync,
{
    let subscriber = tracing_subscriber::registry().with(layer);
    // Only a test that opens two programs in one process can have set one before.
    drop(tracing::subscriber::set_global_default(subscriber));
}

/// Modules of which less is told unless somebody names them: the statements of the store, which are
/// many; and what MCP servers say, whole, with the arguments and results of calls in it.
const QUIET: [&str; 2] = ["sqlx", "rmcp"];

/// Says what is logged of which module.
fn targets(level: Level, settings: &Settings) -> Targets {
    let level = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let quiet = QUIET.map(|module| (module, level.min(LevelFilter::WARN)));
    let usual = Targets::new().with_default(level).with_targets(quiet);
    let filter = settings.log_filter.value.as_deref().unwrap_or_default();
    // It was read once already, with the file that it stands in.
    let own: Targets = filter.parse().unwrap_or_default();
    usual.with_targets(own.iter())
}

/// What goes to the thread that writes.
enum Line {
    Text(Vec<u8>),
    /// Says so when everything before was written.
    Flush(SyncSender<()>),
}

/// Lines on their way to a writer that may stand still.
#[derive(Clone)]
struct Lines {
    queue: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

impl Lines {
    fn start(writer: impl Write + Send + 'static, is_json: bool) -> io::Result<Self> {
        let (queue, lines) = sync_channel(LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let own = Arc::clone(&lost);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(&lines, writer, &own, is_json))?;
        Ok(Self { queue, lost })
    }
}

/// Writes what comes. Whoever does not read any more is no reason to stop.
fn write_all(lines: &Receiver<Line>, mut writer: impl Write, lost: &AtomicU64, is_json: bool) {
    while let Ok(line) = lines.recv() {
        match line {
            Line::Text(text) => {
                let count = lost.swap(0, Ordering::Relaxed);
                if count > 0 {
                    drop(writeln!(writer, "{}", loss(count, is_json)));
                }
                drop(writer.write_all(&text));
            }
            Line::Flush(done) => {
                drop(writer.flush());
                let _ = done.try_send(());
            }
        }
    }
}

/// Says how many lines were lost, as the lines around it are written.
fn loss(count: u64, is_json: bool) -> String {
    let timestamp = SystemClock::default().now();
    let lines = stdx::plural(count, "line");
    let message = format!("{lines} of the log were lost: nobody read them in time");
    match is_json {
        true => serde_json::json!({
            "timestamp": timestamp, "level": "WARN", "message": message, "lines": count,
            "target": module_path!(),
        })
        .to_string(),
        false => format!("{timestamp}  WARN {}: {message}", module_path!()),
    }
}

impl Write for &Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Line::Text(bytes.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Lines;

    fn make_writer(&'a self) -> &'a Lines {
        self
    }
}

/// Writes what waits at the end.
pub(crate) struct Flush {
    lines: Lines,
    is_json: bool,
}

impl Flush {
    /// Tells whether programs read the log.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Waits until everything was written, or for half a second.
    pub(crate) fn now(&self) {
        let (done, written) = sync_channel(1);
        if self.lines.queue.try_send(Line::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH_WAIT);
        }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        self.now();
    }
}

#[cfg(test)]
mod tests {
    use crate::environment::Environment;
    use crate::settings::Want;

    use super::*;

    /// A reader that stands still until it is told to go on.
    struct Stuck {
        go: Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Whoever has gone stands still no more.
            let _ = self.go.recv();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stands_still_loses_lines_and_holds_nobody_up() {
        let (go, wait) = sync_channel(0);
        let written = Arc::new(Mutex::new(Vec::new()));
        let lines = Lines::start(Stuck { go: wait, written: Arc::clone(&written) }, true).unwrap();
        let count = LINES_MAX + 100;
        for number in 0..count {
            (&lines).write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        assert!(lines.lost.load(Ordering::Relaxed) >= 99);
        drop(go);
        let (done, flushed) = sync_channel(1);
        lines.queue.send(Line::Flush(done)).unwrap();
        flushed.recv().unwrap();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(text.contains("line 0\n") && text.contains("of the log were lost"), "{text}");
        assert!(!text.contains(&format!("line {}\n", count - 1)));
    }

    #[test]
    fn what_servers_say_is_in_no_log_unless_somebody_asks_for_it() {
        let house = tempfile::tempdir().unwrap();
        let settings = |filter: &str| {
            let text = format!("[log]\nfilter = \"{filter}\"\n");
            std::fs::write(house.path().join("config.toml"), text).unwrap();
            let home = house.path().display().to_string();
            let environment = Environment::new(house.path(), &[("NARTHEX_HOME", &home)]);
            let globals = door_cli::Globals::default();
            Settings::load(Want { globals: &globals, environment: &environment }).unwrap()
        };
        let quiet = settings("");
        for level in [Level::Info, Level::Debug, Level::Trace] {
            let targets = targets(level, &quiet);
            assert!(targets.would_enable("rmcp::service", &tracing::Level::WARN));
            assert!(!targets.would_enable("rmcp::service", &tracing::Level::INFO), "{targets}");
            assert!(!targets.would_enable("sqlx::query", &tracing::Level::INFO));
            assert!(targets.would_enable("egress", &tracing::Level::INFO));
        }
        let loud = targets(Level::Info, &settings("rmcp=debug"));
        assert!(loud.would_enable("rmcp::service", &tracing::Level::DEBUG));
    }

    #[test]
    fn a_loss_is_told_in_the_form_of_the_log() {
        let record: serde_json::Value = serde_json::from_str(&loss(7, true)).unwrap();
        assert_eq!((&record["level"], &record["lines"]), (&"WARN".into(), &7.into()));
        assert!(record["timestamp"].as_str().unwrap().ends_with('Z'), "{record}");
        let text = loss(1, false);
        assert!(text.contains("Z  WARN app::logging: 1 line of the log"), "{text}");
    }
}
