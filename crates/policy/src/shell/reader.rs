//! Splits a command line into words, commands and redirections.

use std::iter::Peekable;
use std::str::Chars;

use super::{DEPTH_MAX, Part, Script, Word, Write, program};

/// How far a glob or a list in braces is looked for, so that a long line of brackets stays cheap.
const PATTERN_CHARS_MAX: usize = 256;

/// What the next word is, when it is no word of the command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redirection {
    /// The file is read.
    Read,
    /// The file is written.
    Write,
    /// A descriptor is joined, or a file written when the word is no number (`>&`).
    Join,
    /// The word is the text itself (`<<<`).
    Text,
}

/// What was interrupted by a bracket or a substitution.
struct Outer {
    closed_by: char,
    words: Vec<Word>,
    word: Option<Word>,
    redirection: Option<Redirection>,
    is_quoted: bool,
    shell: usize,
}

/// Reads one line, character by character.
pub(super) struct Reader<'a> {
    script: &'a mut Script,
    chars: Peekable<Chars<'a>>,
    depth: usize,
    outer: Vec<Outer>,
    words: Vec<Word>,
    word: Option<Word>,
    redirection: Option<Redirection>,
    is_quoted: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(script: &'a mut Script, command: &'a str, depth: usize) -> Self {
        Self {
            script,
            chars: command.chars().peekable(),
            depth,
            outer: Vec::new(),
            words: Vec::new(),
            word: None,
            redirection: None,
            is_quoted: false,
        }
    }

    pub(super) fn run(mut self) {
        while let Some(c) = self.chars.next() {
            if (c.is_control() && !matches!(c, '\n' | '\t')) || (c.is_whitespace() && !c.is_ascii())
            {
                self.script.obscure("it contains an invisible character");
            }
            if self.is_quoted {
                self.quoted(c);
            } else {
                self.bare(c);
            }
        }
        if self.is_quoted || !self.outer.is_empty() {
            self.script.obscure("a quote or bracket is not closed");
        }
        self.end_command();
        while let Some(outer) = self.outer.pop() {
            self.resume(outer);
            self.end_command();
        }
    }

    /// A character inside double quotes.
    fn quoted(&mut self, c: char) {
        match c {
            '"' => {
                self.is_quoted = false;
                self.write_raw('"');
            }
            '\\' => match self.chars.next() {
                Some('\n') => {}
                Some(next @ ('$' | '`' | '"' | '\\')) => {
                    self.write_raw('\\');
                    self.write(next);
                    self.obscure_in_backticks();
                }
                Some(next) => {
                    self.write('\\');
                    self.write(next);
                    self.obscure_in_backticks();
                }
                None => self.script.obscure("it ends in a backslash"),
            },
            '$' => self.dollar(),
            '`' => self.backtick(),
            other => self.write(other),
        }
    }

    /// A character outside quotes.
    fn bare(&mut self, c: char) {
        match c {
            ' ' | '\t' => self.end_word(),
            '\n' => self.end_command(),
            '\'' => self.single_quotes(),
            '"' => {
                self.quote_begins();
                self.write_raw('"');
                self.is_quoted = true;
            }
            '\\' => match self.chars.next() {
                Some('\n') => {}
                Some(next) => {
                    self.quote_begins();
                    self.write_raw('\\');
                    self.write(next);
                    self.obscure_in_backticks();
                }
                None => self.script.obscure("it ends in a backslash"),
            },
            '$' => self.dollar(),
            '`' => self.backtick(),
            '#' if self.word.is_none() => {
                while self.chars.next_if(|next| *next != '\n').is_some() {}
            }
            ';' => {
                if self.chars.next_if(|next| matches!(next, ';' | '&')).is_some() {
                    self.script.obscure("it uses 'case'");
                }
                self.end_command();
            }
            '&' => self.ampersand(),
            '|' => {
                if self.chars.next_if_eq(&'&').is_some() {
                    self.script.block("it joins its streams in a pipe");
                } else {
                    let _ = self.chars.next_if_eq(&'|');
                }
                self.end_command();
            }
            '(' => self.bracket(),
            ')' => self.close(')'),
            '<' | '>' => self.redirect(c),
            '*' | '?' | '[' | '{' => {
                self.write(c);
                self.mark_pattern(c);
            }
            other => self.write(other),
        }
    }

    fn single_quotes(&mut self) {
        self.quote_begins();
        self.write_raw('\'');
        loop {
            match self.chars.next() {
                Some('\'') => break self.write_raw('\''),
                Some(c) => {
                    if c.is_control() && !matches!(c, '\n' | '\t') {
                        self.script.obscure("it contains an invisible character");
                    }
                    self.write(c);
                }
                None => return self.script.obscure("a quote is not closed"),
            }
        }
    }

    /// `$` in or outside double quotes.
    fn dollar(&mut self) {
        self.script.block("it uses '$'");
        match self.chars.peek().copied() {
            Some('(') => {
                let _ = self.chars.next();
                if self.chars.peek() == Some(&'(') {
                    self.script.obscure("it uses arithmetic");
                }
                self.mark_unknown();
                self.open(')');
            }
            Some('{') => {
                let _ = self.chars.next();
                self.mark_unknown();
                self.braced_name();
            }
            Some('[') => {
                self.mark_unknown();
                self.script.obscure("it uses arithmetic");
            }
            Some('\'') if !self.is_quoted => {
                let _ = self.chars.next();
                self.ansi_quotes();
            }
            // `$"…"` is a plain quote but for translations.
            Some('"') if !self.is_quoted => self.quote_begins(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                self.mark_unknown();
                while self.chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_').is_some() {}
            }
            Some('?' | '$' | '!' | '#' | '@' | '*' | '-' | '0'..='9') => {
                let _ = self.chars.next();
                self.mark_unknown();
            }
            _ => self.write('$'),
        }
    }

    /// After `${`: a plain name is an unknown text, everything else may run commands.
    fn braced_name(&mut self) {
        let mut is_empty = true;
        while self.chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_').is_some() {
            is_empty = false;
        }
        if is_empty || self.chars.next_if_eq(&'}').is_none() {
            self.script.obscure("it uses '${…}' with an operator");
        }
    }

    /// After `$'`.
    fn ansi_quotes(&mut self) {
        self.quote_begins();
        loop {
            match self.chars.next() {
                Some('\'') => return,
                Some('\\') => {
                    self.script.obscure("it uses escapes in $'…'");
                    let _ = self.chars.next();
                }
                Some(c) => self.write(c),
                None => return self.script.obscure("a quote is not closed"),
            }
        }
    }

    fn backtick(&mut self) {
        if self.outer.last().is_some_and(|outer| outer.closed_by == '`') {
            return self.close('`');
        }
        self.script.block("it uses back-ticks");
        self.mark_unknown();
        self.open('`');
    }

    /// Between back-ticks a backslash is read twice.
    fn obscure_in_backticks(&mut self) {
        if self.outer.iter().any(|outer| outer.closed_by == '`') {
            self.script.obscure("it uses backslashes between back-ticks");
        }
    }

    /// `(` outside quotes.
    fn bracket(&mut self) {
        if self.word.is_some() || !self.words.is_empty() || self.redirection.is_some() {
            self.script.lose("it uses brackets after a word");
        } else if self.chars.peek() == Some(&'(') {
            self.script.obscure("it uses arithmetic");
        }
        self.script.block("it uses brackets");
        self.open(')');
    }

    fn open(&mut self, closed_by: char) {
        if self.outer.len() + self.depth >= DEPTH_MAX {
            return self.script.lose("its commands are nested too deeply");
        }
        self.outer.push(Outer {
            closed_by,
            words: std::mem::take(&mut self.words),
            word: self.word.take(),
            redirection: self.redirection.take(),
            is_quoted: std::mem::take(&mut self.is_quoted),
            shell: self.script.begin_shell(),
        });
    }

    fn close(&mut self, with: char) {
        self.end_command();
        match self.outer.pop() {
            Some(outer) if outer.closed_by == with => self.resume(outer),
            other => {
                self.outer.extend(other);
                self.script.lose("a bracket is closed that was not open");
            }
        }
    }

    fn resume(&mut self, outer: Outer) {
        self.words = outer.words;
        self.word = outer.word;
        self.redirection = outer.redirection;
        self.is_quoted = outer.is_quoted;
        self.script.shell = outer.shell;
    }

    fn ampersand(&mut self) {
        if self.chars.next_if_eq(&'&').is_some() {
            return self.end_command();
        }
        if self.chars.next_if_eq(&'>').is_some() {
            let _ = self.chars.next_if_eq(&'>');
            return self.redirect_to(Redirection::Write);
        }
        self.script.block("it leaves a command in the background");
        self.end_command();
    }

    /// `<` or `>` outside quotes.
    fn redirect(&mut self, c: char) {
        // Digits that touch the sign name a descriptor.
        let is_descriptor = self.word.as_ref().is_some_and(|word| {
            !word.is_quoted && word.text.bytes().all(|byte| byte.is_ascii_digit())
        });
        if is_descriptor {
            self.word = None;
        }
        let next = self
            .chars
            .next_if(|next| matches!(*next, '<' | '>' | '&' | '(') || (c == '>' && *next == '|'));
        match (c, next) {
            (_, Some('(')) => {
                self.end_word();
                self.script.block("it uses a process as a file");
                self.mark_unknown();
                self.open(')');
            }
            ('<', Some('<')) if self.chars.next_if_eq(&'<').is_some() => {
                self.script.block("it feeds a text to a command");
                self.redirect_to(Redirection::Text);
            }
            ('<', Some('<')) => {
                self.script.obscure("it uses a here-document");
                self.redirect_to(Redirection::Text);
            }
            ('<', Some('>')) => self.redirect_to(Redirection::Write),
            (_, Some('&')) => self.redirect_to(Redirection::Join),
            ('<', _) => self.redirect_to(Redirection::Read),
            // `><` is no redirection.
            (_, Some('<')) => self.script.obscure("its redirections cannot be read"),
            _ => self.redirect_to(Redirection::Write),
        }
    }

    fn redirect_to(&mut self, redirection: Redirection) {
        self.end_word();
        if self.redirection.is_some() {
            self.script.obscure("its redirections cannot be read");
        }
        self.redirection = Some(redirection);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        let Some(redirection) = self.redirection.take() else {
            return self.words.push(word);
        };
        let is_number = !word.is_unknown
            && word.text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
        let is_free = !word.is_unknown && word.text == "/dev/null";
        match redirection {
            Redirection::Text => {}
            Redirection::Join if is_number => {}
            Redirection::Read if is_free => {}
            Redirection::Read => self.script.block("it reads from a file"),
            Redirection::Write | Redirection::Join if is_free => {}
            Redirection::Write | Redirection::Join => {
                self.script.block("it writes to a file");
                let name = (!word.is_unknown).then_some(word.text);
                let shell = self.script.shell;
                self.script.writes.push(Write { name, shell });
            }
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        if self.redirection.take().is_some() {
            self.script.obscure("its redirections cannot be read");
        }
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            program::add(self.script, Part { words }, self.depth);
        }
    }

    fn write(&mut self, c: char) {
        let word = self.word.get_or_insert_default();
        word.raw.push(c);
        word.text.push(c);
        if !word.is_quoted {
            word.bare_bytes = word.raw.len();
        }
    }

    fn write_raw(&mut self, c: char) {
        self.word.get_or_insert_default().raw.push(c);
    }

    fn quote_begins(&mut self) {
        self.word.get_or_insert_default().is_quoted = true;
    }

    fn mark_unknown(&mut self) {
        let word = self.word.get_or_insert_default();
        word.is_unknown = true;
        word.raw.push('$');
        word.text.push('$');
    }

    /// Globs and braces are known only when they run; `[`, `{}` and `{0}` are ordinary texts.
    fn mark_pattern(&mut self, c: char) {
        let mut rest = self
            .chars
            .clone()
            .take(PATTERN_CHARS_MAX)
            .take_while(|c| !matches!(c, ' ' | '\t' | '\n'));
        let is_pattern = match c {
            '[' => rest.any(|c| c == ']'),
            '{' => {
                let mut last = ' ';
                rest.take_while(|c| *c != '}').any(|c| {
                    let is_list = matches!(c, ',' | '$' | '`') || (c == '.' && last == '.');
                    last = c;
                    is_list
                })
            }
            _ => true,
        };
        if is_pattern {
            self.word.get_or_insert_default().is_unknown = true;
        }
    }
}
