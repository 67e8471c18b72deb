//! The grammar itself, kept from what it cannot bear.

use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

/// How often the parser may report for each byte of a line: it does so every hundred steps, and a
/// line of ordinary commands takes a few steps for each byte.
const REPORTS_PER_BYTE: usize = 1;

/// How often it may report whatever the length, so that a short line is never cut off.
const REPORTS_MIN: usize = 200;

/// How often it may report once it has found an error. It then tries ever more ways to go on, so
/// that only short lines are read to their end.
const REPORTS_AFTER_ERROR_MAX: usize = 0;

/// Lets the grammar read a line; `None` where that takes too many steps.
///
/// Its scanner is written in C and looks characters up in a table that ends at 255, so one beyond
/// may make it read outside. To the shell such a character is a part of a word like any letter:
/// the grammar is shown a letter for each of its bytes, which keeps every place where it is.
pub(super) fn parse(text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let reports_max = REPORTS_MIN + REPORTS_PER_BYTE * text.len();
    let (mut reports, mut after_error) = (0_usize, 0_usize);
    let mut progress = |state: &ParseState| {
        reports += 1;
        after_error += usize::from(state.has_error());
        match reports > reports_max || after_error > REPORTS_AFTER_ERROR_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let bytes: Vec<u8> =
        text.bytes().map(|byte| if byte.is_ascii() { byte } else { b'x' }).collect();
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut read, None, Some(options))
}
