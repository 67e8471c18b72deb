//! The settings of the terminal: kept, so that a way out in the middle of a question leaves the
//! terminal as it was found; without echo while a secret is typed.

use std::io::{self, BufRead};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Puts the terminal's settings back when it is dropped.
pub(crate) struct Kept(Option<Termios>);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl Kept {
    /// Keeps the settings of the terminal at standard input, where there is one.
    pub(crate) fn new() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(settings) = &self.0 {
            // At the end of the program nobody is left to tell.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, settings);
        }
    }
}

/// Reads a line from the terminal without showing it.
///
/// # Errors
/// When standard input is no terminal or cannot be read.
pub(crate) fn read_secret() -> io::Result<String> {
    let kept = Kept::new();
    let mut quiet = tcgetattr(io::stdin())?;
    quiet.local_modes.remove(LocalModes::ECHO);
    quiet.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    drop(kept);
    read.map(|_| line)
}

/// Returns how many columns the terminal at standard error has, where there is one.
pub fn terminal_width() -> Option<u16> {
    tcgetwinsize(io::stderr()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}
