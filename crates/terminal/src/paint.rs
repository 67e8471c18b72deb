//! Colours: the sixteen of the terminal, so that its owner's theme decides how they look.

use anstyle::{AnsiColor, Effects, Style};

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal, unless somebody wants none.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Puts colours around text, or leaves it plain.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    is_on: bool,
}

const DIM: Style = Style::new().effects(Effects::DIMMED);
const BOLD: Style = Style::new().effects(Effects::BOLD);
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const CARE: Style = AnsiColor::Yellow.on_default();
const MARK: Style = AnsiColor::Cyan.on_default();

impl Paint {
    pub fn on() -> Self {
        Self { is_on: true }
    }

    pub fn off() -> Self {
        Self { is_on: false }
    }

    fn with(self, style: Style, text: &str) -> String {
        if self.is_on && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    pub fn dim(self, text: &str) -> String {
        self.with(DIM, text)
    }

    pub fn bold(self, text: &str) -> String {
        self.with(BOLD, text)
    }

    pub fn good(self, text: &str) -> String {
        self.with(GOOD, text)
    }

    pub fn bad(self, text: &str) -> String {
        self.with(BAD, text)
    }

    pub fn care(self, text: &str) -> String {
        self.with(CARE, text)
    }

    pub fn mark(self, text: &str) -> String {
        self.with(MARK, text)
    }
}
