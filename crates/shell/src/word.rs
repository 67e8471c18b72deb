//! Resolves words as the shell would: quotes, backslashes, braces, expansions.

mod ansi;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::script::{UNKNOWN, Word};
use crate::tree::{self, Span};
use crate::variables::Variables;
use crate::{arithmetic, braces};

/// Why a word could not be resolved.
pub(crate) type Why = &'static str;

/// One character of a word, or something that is known only when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) c: char,
    pub(crate) kind: Kind,
}

/// How a character stands in its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Outside quotes.
    Bare,
    /// Inside quotes or behind a backslash.
    Quoted,
    /// Not a character but any run of them.
    Unknown(Value),
}

/// What is known of a value nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    may_split: bool,
    starts_safely: bool,
    is_number: bool,
}

impl Piece {
    /// Tells whether it is this character and stands outside quotes.
    pub(crate) fn is(self, c: char) -> bool {
        self.c == c && self.kind == Kind::Bare
    }
}

/// A word in pieces.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) is_quoted: bool,
}

/// Resolves the words of one line.
#[derive(Debug)]
pub(crate) struct Resolver<'a> {
    text: &'a str,
    spans: &'a BTreeMap<usize, Span>,
    variables: &'a Variables,
    /// The lines inside substitutions that were met.
    pub(crate) lines: Vec<String>,
    /// Why some arithmetic or expansion may run a command that is not found.
    pub(crate) doubt: Option<Why>,
    at: usize,
    end: usize,
    found: Pieces,
    in_quotes: bool,
}

const UNREADABLE: Why = "its words cannot be read";

impl<'a> Resolver<'a> {
    pub(crate) fn new(
        text: &'a str,
        spans: &'a BTreeMap<usize, Span>,
        variables: &'a Variables,
    ) -> Self {
        Self {
            text,
            spans,
            variables,
            lines: Vec::new(),
            doubt: None,
            at: 0,
            end: 0,
            found: Pieces::default(),
            in_quotes: false,
        }
    }

    /// Resolves a word; braces may make several of it.
    pub(crate) fn words(&mut self, range: &Range<usize>) -> Result<Vec<Word>, Why> {
        let found = self.pieces(range)?;
        let raw = self.text.get(range.clone()).unwrap_or_default();
        let Some(expanded) = braces::expand(&found.pieces) else {
            return Ok(vec![Word { raw: raw.into(), ..Word::unknown() }]);
        };
        let is_one = expanded.len() == 1;
        let words = expanded.into_iter().filter(|it| found.is_quoted || !it.is_empty());
        Ok(words.map(|it| word(raw, is_one, &it, found.is_quoted)).collect())
    }

    /// Resolves the value of an assignment or another word in which braces have no meaning.
    pub(crate) fn value(&mut self, range: &Range<usize>) -> Result<(Word, bool), Why> {
        let found = self.pieces(range)?;
        let is_number = !found.pieces.is_empty()
            && found.pieces.iter().all(|piece| match piece.kind {
                Kind::Unknown(value) => value.is_number,
                _ => piece.c.is_ascii_digit(),
            });
        let raw = self.text.get(range.clone()).unwrap_or_default();
        Ok((word(raw, true, &found.pieces, found.is_quoted), is_number))
    }

    /// Reads the text of a here-document, in which quotes have no meaning.
    pub(crate) fn document(&mut self, range: &Range<usize>) -> Result<(), Why> {
        (self.at, self.end, self.in_quotes) = (range.start, range.end, true);
        self.found = Pieces::default();
        while let Some(c) = self.next() {
            match c {
                '\\' => {
                    let _escaped = self.next();
                }
                '$' => self.dollar()?,
                '`' => {
                    let start = self.at;
                    loop {
                        match self.next().ok_or(UNREADABLE)? {
                            '\\' => {
                                let _escaped = self.next();
                            }
                            '`' => break,
                            _ => {}
                        }
                    }
                    let inner = self.text.get(start..self.at - 1).ok_or(UNREADABLE)?;
                    self.lines.push(unescaped(inner));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks for substitutions in text that is not a word: patterns, tests, arithmetic.
    pub(crate) fn scan(&mut self, range: &Range<usize>) -> Result<(), Why> {
        // What is met here is no part of a word.
        let length = self.found.pieces.len();
        let mut at = range.start;
        while let Some(rest) = self.text.get(at..range.end).filter(|rest| !rest.is_empty()) {
            if let Some(span) = self.spans.get(&at).cloned() {
                self.span(at, &span)?;
                at = span.end;
                continue;
            }
            if rest.starts_with(['`']) || rest.starts_with("$(") || rest.starts_with("${") {
                return Err(UNREADABLE);
            }
            if rest.starts_with("<(") || rest.starts_with(">(") {
                return Err(UNREADABLE);
            }
            // Quotes are no shelter here: between double quotes single ones have no meaning.
            let mut chars = rest.chars();
            let first = chars.next();
            at += first.map_or(1, char::len_utf8);
            if first == Some('\\') {
                at += chars.next().map_or(0, char::len_utf8);
            }
        }
        self.found.pieces.truncate(length);
        Ok(())
    }

    fn pieces(&mut self, range: &Range<usize>) -> Result<Pieces, Why> {
        (self.at, self.end, self.in_quotes) = (range.start, range.end, false);
        self.found = Pieces::default();
        while let Some(c) = self.next() {
            if self.in_quotes { self.quoted(c)? } else { self.bare(c)? }
        }
        if self.in_quotes {
            return Err("a quote is not closed");
        }
        Ok(std::mem::take(&mut self.found))
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at..self.end)?.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn push(&mut self, c: char, kind: Kind) {
        self.found.pieces.push(Piece { c, kind });
    }

    fn bare(&mut self, c: char) -> Result<(), Why> {
        match c {
            '\'' => {
                self.found.is_quoted = true;
                loop {
                    match self.next().ok_or("a quote is not closed")? {
                        '\'' => return Ok(()),
                        c => self.push(c, Kind::Quoted),
                    }
                }
            }
            '"' => {
                self.found.is_quoted = true;
                self.in_quotes = true;
            }
            '\\' => match self.next() {
                Some('\n') => {}
                Some(c) => {
                    self.found.is_quoted = true;
                    self.push(c, Kind::Quoted);
                }
                None => return Err("it ends in a backslash"),
            },
            '$' => return self.dollar(),
            '`' => return self.span_before(),
            '<' | '>' => return self.span_before(),
            ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' => return Err(UNREADABLE),
            c if c.is_whitespace() => return Err("it contains an invisible character"),
            c => self.push(c, Kind::Bare),
        }
        Ok(())
    }

    fn quoted(&mut self, c: char) -> Result<(), Why> {
        match c {
            '"' => self.in_quotes = false,
            '\\' => match self.next() {
                Some('\n') => {}
                Some(c @ ('$' | '`' | '"' | '\\')) => self.push(c, Kind::Quoted),
                Some(c) => {
                    self.push('\\', Kind::Quoted);
                    self.push(c, Kind::Quoted);
                }
                None => return Err("it ends in a backslash"),
            },
            '$' => return self.dollar(),
            '`' => return self.span_before(),
            c => self.push(c, Kind::Quoted),
        }
        Ok(())
    }

    /// What begins with the character that was just taken.
    fn span_before(&mut self) -> Result<(), Why> {
        let start = self.at - 1;
        let span = self.spans.get(&start).cloned().ok_or(UNREADABLE)?;
        self.span(start, &span)?;
        self.at = span.end;
        Ok(())
    }

    /// Behind a `$`.
    fn dollar(&mut self) -> Result<(), Why> {
        if self.spans.contains_key(&(self.at - 1)) {
            return self.span_before();
        }
        match self.peek() {
            Some('\'') if !self.in_quotes => {
                let _quote = self.next();
                self.found.is_quoted = true;
                self.ansi()
            }
            // A translation is the text itself where there is none.
            Some('"') if !self.in_quotes => Ok(()),
            Some('(' | '{' | '[' | '_' | '@' | '*' | '#' | '?' | '!' | '-' | '$') => {
                Err(UNREADABLE)
            }
            Some(c) if c.is_ascii_alphanumeric() => Err(UNREADABLE),
            _ => {
                self.push('$', Kind::Quoted);
                Ok(())
            }
        }
    }

    fn unknown(&mut self, starts_safely: bool, is_number: bool) {
        let may_split = !self.in_quotes && !is_number;
        let value = Value { may_split, starts_safely, is_number };
        self.push(UNKNOWN, Kind::Unknown(value));
    }

    /// Something that is known only when it runs.
    fn span(&mut self, start: usize, span: &Span) -> Result<(), Why> {
        let text = self.text.get(start..span.end).ok_or(UNREADABLE)?;
        match span.kind {
            tree::Kind::Command if text.starts_with('`') => {
                let inner = text.strip_prefix('`').and_then(|it| it.strip_suffix('`'));
                let inner = inner.ok_or(UNREADABLE)?;
                // Between double quotes one more backslash has a meaning.
                if self.in_quotes && inner.contains("\\\"") {
                    return Err(UNREADABLE);
                }
                self.lines.push(unescaped(inner));
                self.unknown(false, false);
            }
            tree::Kind::Command => {
                let inner = text.strip_prefix("$(").and_then(|it| it.strip_suffix(')'));
                self.lines.push(inner.ok_or(UNREADABLE)?.to_owned());
                self.unknown(false, false);
            }
            tree::Kind::Process => {
                let inner = text.get(2..).and_then(|it| it.strip_suffix(')'));
                self.lines.push(inner.ok_or(UNREADABLE)?.to_owned());
                self.unknown(true, false);
            }
            tree::Kind::Name => self.name(text.strip_prefix('$').ok_or(UNREADABLE)?),
            tree::Kind::Expansion => {
                let inner = text.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
                self.expansion(inner.ok_or(UNREADABLE)?, start + 2..span.end - 1)?;
            }
            tree::Kind::Sum => {
                let inner = text.strip_prefix("$((").and_then(|it| it.strip_suffix("))"));
                let inner = inner.ok_or(UNREADABLE)?;
                self.scan(&(start + 3..span.end - 2))?;
                self.sum(inner);
                self.unknown(false, true);
            }
        }
        Ok(())
    }

    fn name(&mut self, name: &str) {
        let is_number = matches!(name, "#" | "?" | "$" | "!");
        let starts_safely = is_number || self.variables.starts_safely(name);
        self.unknown(starts_safely && (self.in_quotes || is_number), is_number);
    }

    /// `${…}`, without its braces.
    fn expansion(&mut self, inner: &str, range: Range<usize>) -> Result<(), Why> {
        let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if is_name(inner) {
            self.name(inner);
            return Ok(());
        }
        self.scan(&range)?;
        let length = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let (name, operator) = inner.split_at(length.unwrap_or(inner.len()));
        if inner.strip_prefix('#').is_some_and(is_name) {
            self.unknown(true, true);
            return Ok(());
        }
        let is_clear = match operator.chars().next() {
            _ if name.is_empty() => {
                let counted = operator.strip_prefix('#').and_then(|it| it.strip_suffix("[@]"));
                operator.len() == 1 || counted.is_some_and(is_name)
            }
            Some('%' | '#' | '/' | '^' | ',') => true,
            Some('-' | '+' | '?' | '=') => true,
            Some(':') => match operator.chars().nth(1) {
                Some('-' | '+' | '?' | '=') => true,
                _ => arithmetic::names(operator).is_some_and(|names| self.are_numbers(&names)),
            },
            Some('[') => {
                let index = operator.strip_prefix('[').and_then(|it| it.split_once(']'));
                index.is_some_and(|(index, rest)| {
                    let names = arithmetic::names(index);
                    let is_index = matches!(index, "@" | "*")
                        || names.is_some_and(|names| self.are_numbers(&names));
                    is_index && rest.is_empty()
                })
            }
            // `${!a[@]}`, `${!p@}` and `${x@P}` evaluate what they find.
            _ => false,
        };
        if !is_clear {
            self.doubt.get_or_insert("it uses '${…}' with an operator that may run a command");
        }
        self.unknown(false, false);
        Ok(())
    }

    /// Notes arithmetic that may run a command.
    pub(crate) fn sum(&mut self, text: &str) {
        let is_clear = arithmetic::names(text).is_some_and(|names| self.are_numbers(&names));
        if !is_clear {
            self.doubt.get_or_insert("it uses arithmetic that may run a command");
        }
    }

    fn are_numbers(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.variables.is_number(name))
    }
}

/// Takes away the backslashes that back-ticks need.
fn unescaped(inner: &str) -> String {
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next @ ('`' | '\\' | '$')) if c == '\\' => {
                text.push(*next);
                let _escaped = chars.next();
            }
            _ => text.push(c),
        }
    }
    text
}

/// Puts a word together from its pieces.
fn word(raw: &str, is_one: bool, pieces: &[Piece], is_quoted: bool) -> Word {
    let text: String = pieces.iter().map(|piece| piece.c).collect();
    let mut loose = String::with_capacity(text.len());
    let mut has_glob = false;
    let last = pieces.iter().rposition(|piece| piece.is(']'));
    let mut rest = pieces.iter().enumerate();
    while let Some((at, piece)) = rest.next() {
        // Looked for only where there is one, so that the cost stays that of one walk.
        let closing = match piece.is('[') && last.is_some_and(|last| last > at) {
            true => pieces.iter().skip(at + 1).position(|piece| piece.is(']')),
            false => None,
        };
        if piece.is('*') || piece.is('?') {
            loose.push(UNKNOWN);
            has_glob = true;
        } else if let Some(length) = closing {
            loose.push(UNKNOWN);
            has_glob = true;
            let _class = rest.nth(length);
        } else {
            loose.push(piece.c);
        }
    }
    let values = pieces.iter().filter_map(|piece| match piece.kind {
        Kind::Unknown(value) => Some(value),
        _ => None,
    });
    let first = pieces.first().map(|piece| piece.kind);
    Word {
        raw: if is_one { raw.to_owned() } else { text.clone() },
        loose: has_glob.then_some(loose),
        is_quoted,
        may_split: has_glob || values.into_iter().any(|value| value.may_split),
        starts_safely: matches!(first, Some(Kind::Unknown(value)) if value.starts_safely),
        text,
    }
}
