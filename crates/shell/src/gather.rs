//! Puts together what a line runs, from both grammars and the words.

use std::ops::Range;

use crate::outline::joined;
use crate::script::{Part, Script, Shell, UNKNOWN, Word, Write};
use crate::tree::{Redirection, Simple, Tree};
use crate::variables::{Bound, Variables};
use crate::word::{Resolver, Why};
use crate::wrapper::Inner;
use crate::{assignment, bounds, program, second, tree, wrapper};

/// How deep commands may stand in commands (`bash -c "bash -c …"`, substitutions).
const DEPTH_MAX: usize = 12;

/// How many simple commands are looked at. A line with more is asked for.
const PARTS_MAX: usize = 1000;

/// How many bytes are read in all, with those that are read again inside substitutions. Keeps a
/// line of nested substitutions as cheap as a plain one.
const READ_BYTES_MAX: usize = 4 * bounds::COMMAND_BYTES_MAX;

/// Where a command stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    depth: usize,
    shell: usize,
    behind: Option<usize>,
}

pub(crate) fn read(command: &str) -> Script {
    let script = Script { shells: vec![Shell::default()], ..Script::default() };
    let mut gather = Gather { script, bytes: 0 };
    let place = Place { depth: 0, shell: 0, behind: None };
    gather.line(command, place, &Variables::default());
    gather.script.settle();
    gather.script
}

struct Gather {
    script: Script,
    bytes: usize,
}

/// A line in hand.
struct Line<'a> {
    text: &'a str,
    tree: &'a Tree,
    shells: Vec<usize>,
    variables: Variables,
}

impl Line<'_> {
    fn shell(&self, local: usize) -> usize {
        self.shells.get(local).copied().unwrap_or_default()
    }

    fn resolver(&self) -> Resolver<'_> {
        Resolver::new(self.text, &self.tree.spans, &self.variables)
    }

    fn slice(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }
}

impl Gather {
    /// Reads a line, or one that stands inside another one.
    fn line(&mut self, text: &str, place: Place, variables: &Variables) {
        if place.depth > DEPTH_MAX {
            return self.script.lose("its commands are nested too deeply", place.shell);
        }
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > READ_BYTES_MAX {
            return self.script.lose("it is too long to be read", place.shell);
        }
        if let Some(why) = bounds::refusal(text) {
            return self.script.lose(why, place.shell);
        }
        let tree = tree::read(text);
        // The second grammar is not shown what the first one refuses: on such text it may try
        // more readings than there is time for.
        if !tree.is_clear {
            self.script.lose("it cannot be read as a line of bash", place.shell);
        } else {
            match second::outline(text) {
                None => self.script.lose("it cannot be read as a line of bash", place.shell),
                Some(outline) if outline != tree.outline => {
                    self.script.lose("two readings of it differ", place.shell);
                }
                Some(_) => {}
            }
        }
        if bounds::splits_sign(text, &tree.quiet) {
            self.script.lose("it splits a sign over two lines", place.shell);
        }
        let mut shells = vec![place.shell];
        for &parent in &tree.parents {
            let parent = shells.get(parent).copied().unwrap_or_default();
            shells.push(self.script.subshell(parent));
        }
        let mut line = Line { text, tree: &tree, shells, variables: variables.clone() };
        bind(&mut line);
        self.inside(&line, place);
    }

    fn inside(&mut self, line: &Line<'_>, place: Place) {
        for redirection in &line.tree.redirections {
            self.redirection(line, redirection, place);
        }
        for simple in &line.tree.commands {
            let place = Place { shell: line.shell(simple.shell), ..place };
            self.simple(line, simple, place);
        }
        for (name, _) in &line.tree.loops {
            if assignment::is_harmful(name, &UNKNOWN.to_string()) {
                self.script.obscure("it sets a variable that changes what is run");
            }
        }
        let loops = line.tree.loops.iter().flat_map(|(_, words)| words);
        for range in line.tree.words.iter().chain(loops) {
            let mut resolver = line.resolver();
            // Patterns of `case` are no words, so only their substitutions count.
            let result = resolver.scan(range);
            self.after(line, resolver, result, place);
        }
        for range in &line.tree.documents {
            let mut resolver = line.resolver();
            let result = resolver.document(range);
            self.after(line, resolver, result, place);
        }
        for range in &line.tree.sums {
            let mut resolver = line.resolver();
            let result = resolver.scan(range);
            let text = line.slice(range);
            let text = text.strip_prefix("((").and_then(|it| it.strip_suffix("))"));
            resolver.sum(text.unwrap_or("["));
            self.after(line, resolver, result, place);
        }
        for range in &line.tree.tests {
            let mut resolver = line.resolver();
            let result = resolver.scan(range);
            test(&mut resolver, line.slice(range));
            self.after(line, resolver, result, place);
        }
    }

    /// Takes over what a resolver met.
    fn after(
        &mut self,
        line: &Line<'_>,
        resolver: Resolver<'_>,
        result: Result<(), Why>,
        place: Place,
    ) {
        let (lines, doubt) = (resolver.lines, resolver.doubt);
        if let Some(why) = doubt.or(result.err()) {
            self.script.lose(why, place.shell);
        }
        for inner in lines {
            let shell = self.script.subshell(place.shell);
            let place = Place { depth: place.depth + 1, shell, behind: None };
            self.line(&inner, place, &line.variables);
        }
    }

    fn redirection(&mut self, line: &Line<'_>, redirection: &Redirection, place: Place) {
        let shell = line.shell(redirection.shell);
        let place = Place { shell, ..place };
        let sign = redirection.sign.as_str();
        if redirection.target.is_empty() {
            return;
        }
        let mut resolver = line.resolver();
        let words = resolver.words(&redirection.target);
        let raw = line.slice(&redirection.target);
        let is_process = raw.starts_with("<(") || raw.starts_with(">(");
        match &words {
            Err(_) => {}
            Ok(_) if is_process => {}
            Ok(words) => {
                let known = match words.as_slice() {
                    [word] if !word.is_unknown() => Some(word.text.as_str()),
                    _ => None,
                };
                let is_join = sign.ends_with('&')
                    && known.is_some_and(|text| {
                        let digits = text.strip_suffix('-').unwrap_or(text);
                        digits.bytes().all(|byte| byte.is_ascii_digit())
                    });
                let is_free = matches!(
                    known,
                    Some("/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin")
                );
                if !is_join && !is_free {
                    let is_write = !matches!(sign, "<" | "<&");
                    let name = known.filter(|name| !name.starts_with('~')).map(str::to_owned);
                    self.script.writes.push(Write { name, is_write, shell });
                }
            }
        }
        self.after(line, resolver, words.map(drop), place);
    }

    fn simple(&mut self, line: &Line<'_>, simple: &Simple, place: Place) {
        for range in &simple.assignments {
            self.assignment(line, range, place);
        }
        let mut words = Vec::new();
        for range in &simple.words {
            let raw = line.slice(range);
            if let Some((name, _)) = raw.split_once("=(").filter(|_| raw.ends_with(')')) {
                // The elements of an array, behind a word that declares it.
                let mut resolver = line.resolver();
                let result = resolver.scan(range);
                self.after(line, resolver, result, place);
                let text = format!("{name}={UNKNOWN}");
                words.push(Word { raw: raw.into(), text, ..Word::default() });
                continue;
            }
            let mut resolver = line.resolver();
            let found = resolver.words(range);
            let result = found.as_ref().map(drop).map_err(|why| *why);
            self.after(line, resolver, result, place);
            match found {
                Ok(found) => words
                    .extend(found.into_iter().map(|word| Word { raw: joined(&word.raw), ..word })),
                Err(_) => words.push(Word { raw: joined(raw), ..Word::unknown() }),
            }
        }
        self.command(words, line, place);
    }

    fn assignment(&mut self, line: &Line<'_>, range: &Range<usize>, place: Place) {
        let Some((name, value)) = assignment::split(line.slice(range)) else {
            return self.script.lose("its assignments cannot be read", place.shell);
        };
        let value = range.start + value..range.end;
        let mut resolver = line.resolver();
        let (text, result) = if line.slice(&value).starts_with('(') || name.contains('[') {
            (UNKNOWN.to_string(), resolver.scan(range))
        } else {
            match resolver.value(&value) {
                Ok((word, _)) => (word.text, Ok(())),
                Err(why) => (UNKNOWN.to_string(), Err(why)),
            }
        };
        let is_subscript = name.contains('[');
        let name = name.to_owned();
        self.after(line, resolver, result, place);
        if is_subscript {
            self.script.obscure("it sets a part of an array");
        } else if assignment::is_harmful(&name, &text) {
            self.script.obscure("it sets a variable that changes what is run");
        }
    }

    /// Adds a command, and the commands that it runs in turn. Returns its place in the list.
    fn command(&mut self, mut words: Vec<Word>, line: &Line<'_>, place: Place) -> Option<usize> {
        if place.depth > DEPTH_MAX {
            self.script.lose("its commands are nested too deeply", place.shell);
            return None;
        }
        if self.script.parts.len() >= PARTS_MAX {
            self.script.lose("it has too many commands", place.shell);
            return None;
        }
        // The keyword, which the grammars take for a command of that name.
        // Before another option than `-p` it is the program.
        while let [time, next, ..] = words.as_slice()
            && time.raw == "time"
            && (next.raw == "-p" || !next.text.starts_with('-'))
        {
            let count = 1 + usize::from(next.raw == "-p");
            words.drain(..count);
        }
        let first = words.first()?;
        if first.loose().contains(UNKNOWN) {
            self.script.lose("the name of a program is known only when it runs", place.shell);
        }
        let part = Part { words, behind: place.behind, ..Part::default() };
        let inner = wrapper::inner(&part);
        let at = self.script.parts.len();
        let examined = program::examine(&part, &inner);
        if let Some(why) = examined.obscures {
            self.script.obscure(why);
        }
        match &examined.folder {
            program::Folder::Stays => {}
            program::Folder::May => self.script.moves(place.shell),
            program::Folder::Goes(to) => {
                self.script.moves(place.shell);
                self.script.folders.push(to.clone());
            }
        }
        self.script.parts.push(Part { role: examined.role, hidden: examined.hidden, ..part });
        self.behind(at, inner, line, place);
        if let Some(part) = self.script.parts.get_mut(at).filter(|_| examined.reads_input) {
            part.named = usize::MAX;
        }
        Some(at)
    }

    /// Adds what stands behind a command, and notes how much of it a rule has to name for that.
    fn behind(&mut self, at: usize, inner: Inner, line: &Line<'_>, place: Place) {
        let place = Place { depth: place.depth + 1, behind: Some(at), ..place };
        let before = self.script.parts.len();
        let all = self.script.parts.get(at).map_or(0, |part| part.words.len());
        let is_hidden = self.script.parts.get(at).is_some_and(|part| part.hidden.is_some());
        let named = match inner {
            Inner::Nothing if is_hidden => all,
            Inner::Nothing => 0,
            Inner::Commands(commands) => {
                let mut named = 0;
                for (start, words) in commands {
                    let inner = self.command(words, line, place);
                    let part = inner.and_then(|inner| self.script.parts.get(inner));
                    let behind = part.map_or(1, |part| part.named.max(1));
                    named = named.max(start.saturating_add(behind));
                }
                if is_hidden { all } else { named }
            }
            Inner::Script { text, at: word, is_own_shell } => {
                let shell = match is_own_shell {
                    true => self.script.subshell(place.shell),
                    false => place.shell,
                };
                self.line(&text, Place { shell, ..place }, &line.variables);
                if is_hidden { all } else { word + 1 }
            }
            Inner::Unclear(why) => {
                self.script.lose(why, place.shell);
                all
            }
        };
        let is_alone = self.script.parts.len() == before;
        if let Some(part) = self.script.parts.get_mut(at) {
            part.named = named;
            // Where nothing stands behind, it is what it does itself that counts.
            if is_alone && part.role == crate::Role::Wrapper {
                part.role = crate::Role::Plain;
            }
        }
    }
}

/// Notes what a line puts into variables.
fn bind(line: &mut Line<'_>) {
    let mut found: Vec<(String, Bound)> = Vec::new();
    let mut is_open = false;
    for (name, words) in &line.tree.loops {
        let texts: Vec<&str> = words.iter().map(|range| line.slice(range)).collect();
        let is_plain = |text: &&str| {
            text.bytes().all(|byte| byte.is_ascii_digit()) || is_number_sequence(text)
        };
        let is_safe = |text: &&str| {
            text.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_'))
        };
        found.push((
            name.clone(),
            Bound {
                is_number: texts.iter().all(is_plain),
                starts_safely: !texts.is_empty() && texts.iter().all(is_safe),
            },
        ));
    }
    for simple in &line.tree.commands {
        for range in &simple.assignments {
            let Some((name, value)) = assignment::split(line.slice(range)) else { continue };
            let bare = name.split_once('[').map_or(name, |(name, _)| name);
            let is_more = line.slice(range).contains("+=");
            let start = range.start + value;
            let (word, is_number) = line.resolver().value(&(start..range.end)).unwrap_or_default();
            let is_safe = word.text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
            let is_whole = !is_more && bare.len() == name.len();
            let bound =
                Bound { is_number: is_number && is_whole, starts_safely: is_safe && is_whole };
            found.push((bare.to_owned(), bound));
        }
        let mut words = simple.words.iter().map(|range| line.slice(range));
        // Behind any wrapper, and behind `time`.
        let name = words.clone().find(|word| SETTING.contains(word) || OPENING.contains(word));
        let Some(name) = name else { continue };
        is_open |= OPENING.contains(&name);
        for word in words.by_ref() {
            if word.contains(['$', '`', '\'', '"', '\\']) && !word.contains('=') {
                is_open = true;
            }
            let name = word.split(['=', '[', '+']).next().unwrap_or(word);
            found.push((name.to_owned(), Bound { is_number: false, starts_safely: false }));
        }
    }
    // `${name:=value}` and `${name=value}`.
    is_open |= line.text.split("${").skip(1).any(|rest| {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        rest.starts_with('=') || rest.starts_with(":=")
    });
    for (name, bound) in found {
        line.variables.bind(&name, bound);
    }
    if is_open {
        line.variables.open();
    }
}

/// `{1..10}`.
fn is_number_sequence(text: &str) -> bool {
    let inner = text.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    inner.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Builtins that set the variables that they name.
const SETTING: [&str; 12] = [
    "read",
    "mapfile",
    "readarray",
    "getopts",
    "printf",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "let",
    "wait",
];

/// Builtins after which any variable may hold anything.
const OPENING: [&str; 4] = ["eval", "source", ".", "trap"];

/// The operators of `[[` that evaluate both sides as arithmetic.
const COMPARING: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Notes the arithmetic of a `[[`.
fn test(resolver: &mut Resolver<'_>, text: &str) {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        if COMPARING.contains(word) {
            let sides = [at.wrapping_sub(1), at + 1].map(|side| words.get(side));
            for side in sides.into_iter().flatten() {
                let bare = side.trim_matches(|c| matches!(c, '"' | '(' | ')'));
                resolver.sum(bare);
            }
        }
        if matches!(*word, "-v" | "-R") {
            let name = words.get(at + 1).copied().unwrap_or("[");
            if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                resolver.sum("[");
            }
        }
    }
}
