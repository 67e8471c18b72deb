//! The line that turns while something is going on.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::tty;

/// How often it turns: often enough to look alive, rarely enough to cost nothing.
const TICK: Duration = Duration::from_millis(120);
/// How often it is drawn at most, a second.
const DRAWN_HZ: u8 = 20;
/// How many columns stay free after it. What is typed meanwhile appears there, mostly `^C`; where
/// it had no room it would go to the next line, and the line of before could not be cleared.
const ECHO_COLUMNS: u16 = 10;
/// The width where a terminal does not tell its own.
const DEFAULT_COLUMNS: u16 = 80;

/// Begins to turn at standard error.
pub(crate) fn begin(doing: String, since: Duration) -> Option<ProgressBar> {
    let spinner = on(Line::new(Box::new(io::stderr()), tty::terminal_width), doing, since)?;
    spinner.enable_steady_tick(TICK);
    Some(spinner)
}

fn on(line: Line, doing: String, since: Duration) -> Option<ProgressBar> {
    // A message as wide as there is room never wraps.
    let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}").ok()?;
    let target = ProgressDrawTarget::term_like_with_hz(Box::new(line), DRAWN_HZ);
    let spinner = ProgressBar::with_draw_target(None, target);
    Some(spinner.with_elapsed(since).with_style(style).with_message(doing))
}

/// The terminal as the spinner sees it: narrower than it is.
struct Line {
    sink: Mutex<Box<dyn Write + Send>>,
    /// What is drawn with the next flush, in one write.
    drawn: Mutex<String>,
    columns: fn() -> Option<u16>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

impl Line {
    fn new(sink: Box<dyn Write + Send>, columns: fn() -> Option<u16>) -> Self {
        Self { sink: Mutex::new(sink), drawn: Mutex::default(), columns }
    }

    fn put(&self, text: &str) -> io::Result<()> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    fn go(&self, count: usize, letter: char) -> io::Result<()> {
        if count > 0 { self.put(&format!("\u{1b}[{count}{letter}")) } else { Ok(()) }
    }
}

impl TermLike for Line {
    fn width(&self) -> u16 {
        let columns = (self.columns)().unwrap_or(DEFAULT_COLUMNS);
        columns.saturating_sub(ECHO_COLUMNS).max(1)
    }

    fn move_cursor_up(&self, count: usize) -> io::Result<()> {
        self.go(count, 'A')
    }

    fn move_cursor_down(&self, count: usize) -> io::Result<()> {
        self.go(count, 'B')
    }

    fn move_cursor_right(&self, count: usize) -> io::Result<()> {
        self.go(count, 'C')
    }

    fn move_cursor_left(&self, count: usize) -> io::Result<()> {
        self.go(count, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.put(&format!("{text}\r\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.put(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.put("\r\u{1b}[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let drawn = std::mem::take(&mut *self.drawn.lock().unwrap_or_else(PoisonError::into_inner));
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.write_all(drawn.as_bytes())?;
        sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn there_is_room_for_a_typed_control_c_and_the_line_is_cleared() {
        for doing in ["short".to_owned(), "long ".repeat(40), "日本語 ".repeat(40)] {
            let screen = Screen::default();
            let line = Line::new(Box::new(screen.clone()), || Some(40));
            let spinner = on(line, doing, Duration::ZERO).unwrap();
            spinner.tick();
            let drawn = String::from_utf8(screen.0.lock().unwrap().clone()).unwrap();
            let frame = drawn.rsplit('\r').next().unwrap();
            let columns = console_columns(frame);
            assert!((1..=30).contains(&columns), "{columns} columns: {drawn:?}");
            assert!(!drawn.contains('\n'), "{drawn:?}");
            spinner.finish_and_clear();
            let all = String::from_utf8(screen.0.lock().unwrap().clone()).unwrap();
            assert!(all.ends_with("\r\u{1b}[2K"), "{all:?}");
        }
    }

    /// Counts columns: two for the wide letters of this test.
    fn console_columns(text: &str) -> usize {
        text.chars().map(|letter| if letter > '\u{2fff}' { 2 } else { 1 }).sum()
    }
}
