//! Programs of `sed` and `awk`: whether they may run a command or write a file.
//!
//! Both are everyday filters, so their programs are read far enough to tell the harmless ones;
//! what cannot be read counts as running a command.

use std::iter::Peekable;
use std::str::Chars;

use crate::script::Word;

/// The words of a call that are programs.
struct Programs<'a> {
    /// Each with whether a part of it is known only when it runs.
    texts: Vec<(&'a str, bool)>,
    /// Whether the options could be read and every program is a word or a file.
    is_clear: bool,
}

/// Tells whether a call of `sed` may run a command.
pub(crate) fn sed_runs(arguments: &[Word]) -> bool {
    if arguments.iter().any(|word| word.text == "--sandbox") {
        return false;
    }
    let flags = ["-n", "-E", "-r", "-s", "-u", "-z", "-i"];
    let found = programs(arguments, &flags, &["-l"], &["--expression", "-e"]);
    !found.is_clear || found.texts.iter().any(|text| sed_program(*text))
}

/// Tells whether a program of sed runs a command in any of the ways to read its brackets. One
/// that cannot be read in another way than the usual one is an error there and runs nothing.
fn sed_program((text, is_unknown): (&str, bool)) -> bool {
    let runs = |brackets| Sed::new(text, brackets).runs();
    is_unknown
        || runs(Brackets::Plain).unwrap_or(true)
        || [Brackets::Escaping, Brackets::Unknown].map(runs).contains(&Some(true))
}

/// Tells whether a call of `awk` may run a command.
pub(crate) fn awk_runs(arguments: &[Word]) -> bool {
    let found = programs(arguments, &[], &["-F", "-v", "-i"], &["--source", "-e"]);
    !found.is_clear || found.texts.iter().any(|(text, is_unknown)| *is_unknown || awk_program(text))
}

/// Finds the programs among the arguments: the values of `naming` options, or else the first word
/// that is no option. `-f FILE` names a file, which is a program like any other.
fn programs<'a>(
    arguments: &'a [Word],
    flags: &[&str],
    valued: &[&str],
    naming: &[&str],
) -> Programs<'a> {
    // Options stand before the program alone, where none may stand behind it.
    let ends_early = flags.is_empty();
    let mut found = Programs { texts: Vec::new(), is_clear: true };
    let (mut is_named, mut is_over) = (false, false);
    let mut first_word = None;
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        let short = text.get(..2).unwrap_or_default();
        // It may be an option that names a program, when it runs.
        let is_late = first_word.is_some() || is_named;
        found.is_clear &= is_over || !word.may_be_option() || is_late && ends_early;
        let is_behind = ends_early && (first_word.is_some() || is_named && !text.starts_with('-'));
        if is_over || is_behind || !text.starts_with('-') || text == "-" {
            is_over |= is_behind;
            first_word = first_word.or(Some(word));
        } else if text == "--" {
            is_over = true;
        } else if naming.contains(&text) {
            is_named = true;
            found.texts.extend(rest.next().map(program));
        } else if text == "-f" || text == "--file" {
            is_named = true;
            let _file = rest.next();
        } else if short == "-f" || text.starts_with("--file=") {
            is_named = true;
        } else if valued.contains(&text) {
            let _value = rest.next();
        } else if valued.contains(&short) || short == "-i" && flags.contains(&short) {
            // The value is attached.
        } else if let Some((name, value)) = text.split_once('=')
            && name.starts_with("--")
            && naming.contains(&name)
        {
            is_named = true;
            found.texts.push((value, word.is_unknown()));
        } else if text.starts_with("--") {
            let known = ["--quiet", "--silent", "--regexp-extended", "--null-data", "--in-place"];
            let known = known.iter().chain(&["--posix", "--debug", "--separate", "--unbuffered"]);
            let other = ["--field-separator=", "--assign=", "--in-place=", "--version", "--help"];
            found.is_clear &= known.into_iter().any(|it| *it == text)
                || other.iter().any(|it| text.starts_with(it));
        } else {
            // Letters together: `-ne SCRIPT`, `-nE`, `-i.bak`.
            let letters = text.get(1..).unwrap_or_default();
            let is_flag = |c: char| flags.iter().any(|flag| flag.ends_with(c));
            let before = letters.strip_suffix('e').unwrap_or(letters);
            found.is_clear &= before.chars().all(is_flag);
            if before.len() < letters.len() {
                is_named = true;
                found.texts.extend(rest.next().map(program));
            }
        }
    }
    if !is_named {
        found.texts.extend(first_word.map(program));
    }
    found
}

fn program(word: &Word) -> (&str, bool) {
    (word.loose(), word.is_unknown())
}

/// Tells whether a program of awk calls `system`, joins a command by a pipe, writes to a file, or
/// names a function at run time. Regular expressions and strings are skipped; a slash that may be
/// either begins one only where no value can stand before it, so that no pipe is taken for a part
/// of one.
fn awk_program(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    let mut before = ';';
    let mut name = String::new();
    let (mut prints, mut depth) = (false, 0_usize);
    while let Some(c) = chars.next() {
        if c.is_ascii_alphanumeric() || c == '_' {
            name.push(c);
            before = c;
            continue;
        }
        let word = std::mem::take(&mut name);
        if word == "system" {
            return true;
        }
        if word == "print" || word == "printf" {
            (prints, depth) = (true, 0);
        }
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ';' | '{' | '}' | '\n' => prints = false,
            // What is printed goes to a file.
            '>' if prints && depth == 0 => {
                let rest: String = chars.clone().filter(|c| !c.is_whitespace()).take(13).collect();
                let is_stream = [r#""/dev/stderr""#, r#""/dev/stdout""#];
                if !is_stream.iter().any(|it| rest.starts_with(it)) {
                    return true;
                }
            }
            '"' if !skip(&mut chars, '"') => return true,
            '/' if "(,{};!~&|=<>?:\n".contains(before) => {
                if !skip(&mut chars, '/') {
                    return true;
                }
                before = '"';
                continue;
            }
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '@' | '\\' => return true,
            '|' if chars.next_if_eq(&'|').is_none() => return true,
            _ => {}
        }
        if !c.is_whitespace() || c == '\n' {
            before = c;
        }
    }
    name == "system"
}

/// Goes behind the next `end` that has no backslash before it; false when there is none.
fn skip(chars: &mut Peekable<Chars<'_>>, end: char) -> bool {
    while let Some(c) = chars.next() {
        if c == end {
            return true;
        }
        if c == '\\' {
            let _escaped = chars.next();
        }
    }
    false
}

/// How a `[` in a regular expression keeps the character that ends it from doing so. Versions of
/// sed differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brackets {
    /// Up to the `]`, and a backslash is a character like any other.
    Plain,
    /// Up to the `]` that has no backslash before it.
    Escaping,
    /// Not at all.
    Unknown,
}

/// Reads a program of sed.
struct Sed<'a> {
    chars: Peekable<Chars<'a>>,
    brackets: Brackets,
}

impl<'a> Sed<'a> {
    fn new(text: &'a str, brackets: Brackets) -> Self {
        Self { chars: text.chars().peekable(), brackets }
    }

    /// Tells whether the program runs a command; `None` when it cannot be read.
    fn runs(mut self) -> Option<bool> {
        while let Some(c) = self.chars.next() {
            match c {
                ' ' | '\t' | '\n' | ';' | ',' | '!' | '{' | '}' | '~' | '+' | '0'..='9' => {}
                '$' => {}
                '/' => self.pattern('/')?,
                '\\' => {
                    let end = self.chars.next()?;
                    self.pattern(end)?;
                }
                's' => {
                    let end = self.chars.next()?;
                    if self.sections(end)? {
                        return Some(true);
                    }
                }
                'y' => {
                    let end = self.chars.next()?;
                    if !skip(&mut self.chars, end) || !skip(&mut self.chars, end) {
                        return None;
                    }
                }
                'e' => return Some(true),
                'a' | 'i' | 'c' => self.text(),
                // It writes a file, which is no less.
                'w' | 'W' => return Some(true),
                'r' | 'R' | '#' => while self.chars.next_if(|c| *c != '\n').is_some() {},
                'b' | 't' | 'T' | ':' => {
                    while self.chars.next_if(|c| *c == ' ').is_some() {}
                    let is_label = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
                    while self.chars.next_if(is_label).is_some() {}
                }
                'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F'
                | '=' | 'q' | 'Q' | 'l' | 'L' => {}
                _ => return None,
            }
        }
        Some(false)
    }

    /// Goes behind a regular expression.
    fn regex(&mut self, end: char) -> Option<()> {
        loop {
            match self.chars.next()? {
                c if c == end => return Some(()),
                '\\' => drop(self.chars.next()?),
                '[' if self.brackets != Brackets::Unknown => self.bracket()?,
                _ => {}
            }
        }
    }

    /// Goes behind the `]` of a bracket; one that comes first is a character of it.
    fn bracket(&mut self) -> Option<()> {
        let _not = self.chars.next_if_eq(&'^');
        let _first = self.chars.next_if_eq(&']');
        loop {
            match self.chars.next()? {
                ']' => return Some(()),
                '\\' if self.brackets == Brackets::Escaping => drop(self.chars.next()?),
                '[' => {
                    // A class, `[:alpha:]`, ends in its own sign and a bracket.
                    let Some(sign) = self.chars.next_if(|c| matches!(c, ':' | '.' | '=')) else {
                        continue;
                    };
                    while self.chars.next()? != sign || self.chars.next_if_eq(&']').is_none() {}
                }
                _ => {}
            }
        }
    }

    /// An address, with its flags.
    fn pattern(&mut self, end: char) -> Option<()> {
        self.regex(end)?;
        while self.chars.next_if(|c| matches!(c, 'I' | 'M')).is_some() {}
        Some(())
    }

    /// The two sections of `s` and its flags; true when it runs what it makes.
    fn sections(&mut self, end: char) -> Option<bool> {
        self.regex(end)?;
        if !skip(&mut self.chars, end) {
            return None;
        }
        while let Some(flag) = self.chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '$') {
            match flag {
                'e' => return Some(true),
                'w' => return Some(true),
                'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => {}
                _ => return None,
            }
        }
        Some(false)
    }

    /// The text of `a`, `i` and `c`: to the end of a line without a backslash before it.
    fn text(&mut self) {
        while let Some(c) = self.chars.next_if(|c| *c != '\n') {
            if c == '\\' {
                let _escaped = self.chars.next();
            }
        }
    }
}
