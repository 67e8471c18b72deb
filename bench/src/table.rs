//! The table, as Markdown on standard output.

use std::io::Write;

use anyhow::{Context, Result};

use crate::summary::{Summary, number};

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What is measured, with its unit.
    pub(crate) what: String,
    /// The floor's figures, where a floor makes sense.
    pub(crate) floor: Option<Summary>,
    /// Narthex's figures.
    pub(crate) narthex: Option<Summary>,
    /// The goal of the design, or nothing.
    pub(crate) goal: &'static str,
}

impl Row {
    /// Makes a row without figures.
    pub(crate) fn new(what: impl Into<String>, goal: &'static str) -> Self {
        Self { what: what.into(), floor: None, narthex: None, goal }
    }

    pub(crate) fn floor(self, figures: &[f64]) -> Self {
        Self { floor: Summary::of(figures), ..self }
    }

    pub(crate) fn narthex(self, figures: &[f64]) -> Self {
        Self { narthex: Summary::of(figures), ..self }
    }

    fn show(&self) -> String {
        let shown = |summary: &Option<Summary>| summary.map_or("–".into(), |it| it.show());
        let ratio = match (self.floor, self.narthex) {
            (Some(floor), Some(narthex)) if floor.median > 0.0 => {
                format!("{}x", number(narthex.median / floor.median))
            }
            _ => "–".into(),
        };
        let (floor, narthex) = (shown(&self.floor), shown(&self.narthex));
        format!("| {} | {floor} | {narthex} | {ratio} | {} |", self.what, self.goal)
    }
}

/// Prints the machine and the rows.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn print(head: &str, rows: &[Row]) -> Result<()> {
    let mut text = format!("{head}\n\n| what | floor | narthex | ratio | goal |\n");
    text.push_str("|---|---|---|---|---|\n");
    for row in rows {
        text.push_str(&row.show());
        text.push('\n');
    }
    line(&text)
}

/// Prints a line of the result.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn line(text: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{text}").context("write the result")
}

/// Tells a person how far it is, or what went wrong; whether that can be shown does not matter.
pub(crate) fn complain(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_ratio_of_the_medians() {
        let row = Row::new("x, ms", "≤ 5").floor(&[1.0, 2.0, 3.0]).narthex(&[3.0]);
        assert_eq!(row.show(), "| x, ms | 2.00 (1.00–3.00) | 3.00 | 1.50x | ≤ 5 |");
        assert_eq!(Row::new("y", "").narthex(&[1.0]).show(), "| y | – | 1.00 | – |  |");
    }
}
