//! What is never handed to a grammar: lines that are too long or nested too deeply.
//!
//! Both grammars walk down one level of their stack, or try several readings, for each level of
//! nesting. The estimate here counts openings that are not closed yet, without regard to quotes,
//! so that it is never lower than the real depth by more than what stands in quotes closes.

use std::ops::Range;

/// The longest command that is read, in bytes. Longer ones are asked for; their cost stays small.
pub(crate) const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// How deep brackets, braces and keywords may be open at once. Code between quotes counts too.
const OPEN_MAX: usize = 40;

/// How deep the kinds of nesting may be open at once that one of the grammars tries in two ways
/// at each level: its time doubles with each.
const DOUBLING_MAX: usize = 10;

/// How many words may stand in a line. A line with more is asked for.
const WORDS_MAX: usize = 20_000;

/// How many signs of the shell may stand in a run without a blank, where that is longer than
/// [`RUN_BYTES_MAX`] bytes. A grammar looks from each of them to the end of the run.
const RUN_SIGNS_MAX: usize = 64;
const RUN_BYTES_MAX: usize = 1024;

/// How many signs of the shell a line may hold outside quotes and here-documents, and in all. At
/// an error the time of a grammar grows with the square of what stands before it.
const CODE_SIGNS_MAX: usize = 1500;
const SIGNS_MAX: usize = 6000;

/// The longest run of digits in front of `<` or `>`: more is no descriptor anywhere.
const DESCRIPTOR_DIGITS_MAX: usize = 4;

/// Words that open a construct of several commands, and those that close one.
const OPENING: [&str; 8] = ["if", "while", "until", "for", "select", "case", "function", "coproc"];
const CLOSING: [&str; 3] = ["fi", "done", "esac"];

/// Says why a line is not to be read, if it is not.
pub(crate) fn refusal(text: &str) -> Option<&'static str> {
    if text.len() > COMMAND_BYTES_MAX {
        return Some("it is too long to be read");
    }
    let is_odd = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || c >= '\u{10FFFE}';
    if text.contains(is_odd) {
        return Some("it contains an invisible character");
    }
    if is_deep(text) {
        return Some("its commands are nested too deeply");
    }
    let all = text.bytes().filter(|byte| is_sign(*byte)).count();
    if has_long_run(text) || all > SIGNS_MAX || all > CODE_SIGNS_MAX && has_long_code(text) {
        return Some("it is too long to be read");
    }
    if has_long_descriptor(text) {
        return Some("its redirections cannot be read");
    }
    None
}

fn is_deep(text: &str) -> bool {
    let (mut open, mut round) = (0_usize, 0_usize);
    let mut ticks = 0_usize;
    for c in text.chars() {
        match c {
            '(' => {
                open += 1;
                round += 1;
            }
            '{' | '[' => open += 1,
            ')' => {
                open = open.saturating_sub(1);
                round = round.saturating_sub(1);
            }
            '}' | ']' => open = open.saturating_sub(1),
            // A run of backslashes before a back-tick is how back-ticks nest.
            '\\' => ticks += 1,
            '`' if ticks > 7 => return true,
            _ => {}
        }
        if c != '\\' {
            ticks = 0;
        }
        if open > OPEN_MAX || round > DOUBLING_MAX {
            return true;
        }
    }
    let mut keywords = 0_usize;
    let mut bangs = 0_usize;
    let mut count = 0_usize;
    for word in text.split(|c: char| c.is_whitespace() || matches!(c, ';' | '(' | ')' | '`' | '|'))
    {
        count += 1;
        if OPENING.contains(&word) {
            keywords += 1;
        } else if CLOSING.contains(&word) {
            keywords = keywords.saturating_sub(1);
        }
        bangs = if word == "!" { bangs + 1 } else { 0 };
        if keywords > OPEN_MAX || bangs > OPEN_MAX {
            return true;
        }
    }
    count > WORDS_MAX
}

fn is_sign(byte: u8) -> bool {
    b"|&;()<>{}[]`$".contains(&byte)
}

/// Counts the signs outside quotes and here-documents. Nothing else rests on where this believes
/// a quote to end, so it need not know all that a grammar knows.
fn has_long_code(text: &str) -> bool {
    let mut signs = 0;
    let mut quote = None;
    let mut marks: Vec<String> = Vec::new();
    for line in text.split('\n') {
        if let Some(mark) = marks.first() {
            if line.trim_start_matches('\t') == mark {
                marks.remove(0);
            }
            continue;
        }
        let mut bytes = line.bytes().enumerate().peekable();
        let mut before = b' ';
        while let Some((at, byte)) = bytes.next() {
            match (quote, byte) {
                (Some(open), byte) if open == byte => quote = None,
                (None | Some(b'"'), b'\\') => {
                    let _escaped = bytes.next();
                }
                (Some(_), _) => {}
                (None, b'\'' | b'"') => quote = Some(byte),
                (None, b'#') if before.is_ascii_whitespace() => break,
                (None, byte) if is_sign(byte) => {
                    signs += 1;
                    let rest = line.get(at..).unwrap_or_default();
                    let is_document = rest.starts_with("<<") && !rest.starts_with("<<<");
                    if is_document && before != b'<' {
                        let mark = rest.trim_start_matches(['<', '-', ' ', '\'', '"', '\\']);
                        let is_mark = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
                        let end = mark.find(|c: char| !is_mark(c)).unwrap_or(mark.len());
                        marks.push(mark.get(..end).unwrap_or_default().to_owned());
                    }
                }
                _ => {}
            }
            before = byte;
        }
    }
    signs > CODE_SIGNS_MAX
}

fn has_long_run(text: &str) -> bool {
    let is_odd = |c: char| !(c.is_alphanumeric() || "-_./,:%=+~".contains(c));
    let mut runs = text.split([' ', '\t', '\n']).filter(|run| run.len() > RUN_BYTES_MAX);
    runs.any(|run| run.chars().filter(|c| is_odd(*c)).count() > RUN_SIGNS_MAX)
}

/// A backslash at the end of a line joins two signs to one, which the grammars do not see: `$` and
/// `(` of the next line run a command.
///
/// In the ranges that are `quiet` a backslash has no meaning.
pub(crate) fn splits_sign(text: &str, quiet: &[Range<usize>]) -> bool {
    text.match_indices("\\\n").any(|(at, sign)| {
        if quiet.iter().any(|range| range.contains(&at)) {
            return false;
        }
        let before = text.get(..at).unwrap_or_default().trim_end_matches(sign);
        let after = text.get(at..).unwrap_or_default().trim_start_matches(sign);
        let (last, next) = (before.chars().next_back(), after.chars().next());
        let is_sign = |c: Option<char>| c.is_some_and(|c| "<>&|;()[]{!".contains(c));
        last == Some('$') || is_sign(last) && is_sign(next)
    })
}

fn has_long_descriptor(text: &str) -> bool {
    let mut digits = 0;
    for c in text.chars() {
        match c {
            '0'..='9' => digits += 1,
            '<' | '>' if digits > DESCRIPTOR_DIGITS_MAX => return true,
            _ => digits = 0,
        }
    }
    false
}
