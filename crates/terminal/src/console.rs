//! The two output streams: data on one, words for people on the other.
//!
//! The only module that writes to them. It knows when a line of the answer is open on a terminal,
//! so that a word for people never lands in the middle of it.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::ProgressBar;

use crate::paint::{Color, Paint};
use crate::{escape, spinner};

/// The width of lines where a terminal does not tell its own.
const DEFAULT_WIDTH: u16 = 100;

/// What the standard streams are.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamFacts {
    /// Standard input is a terminal.
    pub input_is_terminal: bool,
    /// Standard output is a terminal.
    pub out_is_terminal: bool,
    /// Standard error is a terminal.
    pub err_is_terminal: bool,
    /// `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// `CLICOLOR_FORCE` is set, not empty and not 0.
    pub force_color: bool,
    /// The terminal knows no control sequences (`TERM=dumb`).
    pub is_dumb: bool,
    /// Lines are typed into an editor: standard input is a terminal that can move its cursor.
    pub has_line_editor: bool,
    /// The width of the terminal, where it is known.
    pub width: Option<u16>,
}

/// Both output streams.
pub struct Console {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    facts: StreamFacts,
    out_paint: Paint,
    err_paint: Paint,
    line_is_open: bool,
    spinner: Option<ProgressBar>,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Console {
    pub fn new(
        out: Box<dyn Write + Send>,
        err: Box<dyn Write + Send>,
        facts: StreamFacts,
        color: Color,
    ) -> Self {
        let paint = |is_terminal| match color {
            Color::Always => Paint::on(),
            Color::Never => Paint::off(),
            Color::Auto if facts.no_color || facts.is_dumb => Paint::off(),
            Color::Auto if facts.force_color || is_terminal => Paint::on(),
            Color::Auto => Paint::off(),
        };
        Self {
            out,
            err,
            facts,
            out_paint: paint(facts.out_is_terminal),
            err_paint: paint(facts.err_is_terminal),
            line_is_open: false,
            spinner: None,
        }
    }

    pub fn facts(&self) -> &StreamFacts {
        &self.facts
    }

    /// Returns the colours of words for people.
    pub fn paint(&self) -> Paint {
        self.err_paint
    }

    /// Returns the colours of data.
    pub fn data_paint(&self) -> Paint {
        self.out_paint
    }

    pub fn width(&self) -> usize {
        usize::from(self.facts.width.unwrap_or(DEFAULT_WIDTH)).max(40)
    }

    /// Writes data. What is not ours was escaped by the caller where this is a terminal.
    pub fn data(&mut self, text: &str) -> io::Result<()> {
        self.rest();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        if self.facts.out_is_terminal && !text.is_empty() {
            self.line_is_open = !text.ends_with('\n');
        }
        Ok(())
    }

    /// Writes text that a model or a tool wrote as data: as it is into a pipe, escaped on a
    /// terminal.
    pub fn foreign(&mut self, text: &str) -> io::Result<()> {
        if self.facts.out_is_terminal { self.data(&escape::text(text)) } else { self.data(text) }
    }

    /// Writes one line of JSON as data.
    pub fn json(&mut self, json: &str) -> io::Result<()> {
        let mut line =
            if self.facts.out_is_terminal { escape::json(json) } else { json.to_owned() };
        line.push('\n');
        self.data(&line)
    }

    /// Ends a line of data that is open on the terminal.
    pub fn end_line(&mut self) -> io::Result<()> {
        if self.line_is_open { self.data("\n") } else { Ok(()) }
    }

    /// Writes lines for people. Nobody is told when they cannot be written.
    pub fn say(&mut self, text: &str) {
        self.rest();
        if self.facts.err_is_terminal {
            // Best effort: data reports a broken pipe itself, when it is written.
            drop(self.end_line());
        }
        // One write, so that lines of several processes do not mix.
        let line = format!("{text}\n");
        drop(self.err.write_all(line.as_bytes()).and_then(|()| self.err.flush()));
    }

    /// Shows on a terminal that something is going on, until the next words or data.
    pub fn busy(&mut self, doing: &str, since: Duration) {
        if !self.facts.err_is_terminal || self.facts.is_dumb || self.line_is_open {
            return;
        }
        let doing = escape::line(doing, self.width());
        if let Some(spinner) = &self.spinner {
            spinner.set_message(doing);
            return;
        }
        // A test may say that there is a terminal where there is none.
        if io::stderr().is_terminal() {
            self.spinner = spinner::begin(doing, since);
        }
    }

    /// Takes the spinner away.
    pub fn rest(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }
}
