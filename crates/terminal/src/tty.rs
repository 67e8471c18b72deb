//! The settings of the terminal: kept, so that a way out in the middle of a question leaves the
//! terminal as it was found; without echo while a secret is typed.

use std::io::{self, BufRead, Write};

use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetwinsize,
    tcsetattr,
};

/// Ends the mode in which a line editor is told where pasted text begins and ends.
const PASTE_OFF: &[u8] = b"\x1b[?2004l";

/// Puts the terminal's settings back when it is dropped.
pub struct Kept {
    settings: Option<Termios>,
    is_edited: bool,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl Kept {
    /// Keeps the settings of the terminal at standard input, where there is one, while a secret is
    /// typed.
    pub fn around_secret() -> Self {
        Self { settings: tcgetattr(io::stdin()).ok(), is_edited: false }
    }

    /// Keeps them while a line editor is at work.
    pub fn around_editor() -> Self {
        let mut kept = Self::around_secret();
        kept.is_edited = true;
        kept
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(settings) = &self.settings {
            // At the end of the program nobody is left to tell.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, settings);
        }
        if self.is_edited {
            drop(io::stderr().write_all(PASTE_OFF));
        }
    }
}

/// Reads a line from the terminal without showing it.
///
/// # Errors
/// When standard input is no terminal or cannot be read.
pub fn read_secret() -> io::Result<String> {
    let kept = Kept::around_secret();
    let mut quiet = tcgetattr(io::stdin())?;
    quiet.local_modes.remove(LocalModes::ECHO);
    quiet.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    drop(kept);
    read.map(|_| line)
}

/// Throws away what was typed at the terminal and nobody has read yet, so that it answers no
/// question that was not shown when it was typed. Does nothing where there is no terminal.
pub fn forget_typed() {
    // An input that is no terminal holds nothing that was typed.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
}

/// Returns how many columns the terminal at standard error has, where there is one.
pub fn terminal_width() -> Option<u16> {
    tcgetwinsize(io::stderr()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}
