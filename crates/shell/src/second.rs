//! The second grammar: what it finds in a line.

use brush_parser::ast::{
    AndOr, CaseItem, Command as Node, CommandPrefixOrSuffixItem, CompoundCommand, CompoundList,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, ProcessSubstitutionKind,
    RedirectList, SimpleCommand, SubshellCommand, Word,
};
use brush_parser::{Parser, ParserOptions};

use crate::outline::{Command, Outline, document, joined};

/// Reads a line; `None` where it finds an error.
pub(crate) fn outline(text: &str) -> Option<Outline> {
    let options = ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() };
    let program = Parser::new(text.as_bytes(), &options).parse_program().ok()?;
    let mut reading = Reading { text, outline: Outline::default(), is_clear: true };
    for command in &program.complete_commands {
        reading.list(command);
    }
    reading.is_clear.then_some(reading.outline)
}

struct Reading<'a> {
    text: &'a str,
    outline: Outline,
    is_clear: bool,
}

impl Reading<'_> {
    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            self.pipeline(&item.0.first);
            for more in &item.0.additional {
                match more {
                    AndOr::And(pipeline) | AndOr::Or(pipeline) => self.pipeline(pipeline),
                }
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        let before = self.outline.commands.len();
        for command in &pipeline.seq {
            self.command(command);
        }
        // The first grammar takes `time` for the name of a command.
        let Some(timed) = &pipeline.timed else { return };
        let mut words = vec!["time".to_owned()];
        words.extend(timed.is_posix_output().then(|| "-p".to_owned()));
        match (pipeline.seq.first(), self.outline.commands.get_mut(before)) {
            (Some(Node::Simple(_)), Some(first)) if first.assignments.is_empty() => {
                words.append(&mut first.words);
                first.words = words;
            }
            _ => self.is_clear = false,
        }
    }

    fn command(&mut self, command: &Node) {
        match command {
            Node::Simple(simple) => self.simple(simple),
            Node::Compound(compound, redirections) => {
                self.compound(compound);
                self.redirections(redirections.as_ref());
            }
            Node::Function(function) => {
                self.outline.functions.push(joined(&function.fname.value));
                self.compound(&function.body.0);
                self.redirections(function.body.1.as_ref());
            }
            Node::ExtendedTest(_, redirections) => {
                self.outline.tests += 1;
                self.redirections(redirections.as_ref());
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(_) => self.outline.sums += 1,
            CompoundCommand::ArithmeticForClause(it) => {
                self.outline.sums += 1;
                self.list(&it.body.list);
            }
            CompoundCommand::BraceGroup(it) => self.list(&it.list),
            CompoundCommand::Subshell(it) => self.list(&it.list),
            CompoundCommand::ForClause(it) => {
                let mut words = vec![it.variable_name.clone()];
                words.extend(it.values.iter().flatten().map(word));
                self.outline.loops.push(words);
                self.list(&it.body.list);
            }
            CompoundCommand::CaseClause(it) => {
                let at = self.outline.choices.len();
                self.outline.choices.push(vec![word(&it.value)]);
                for case in &it.cases {
                    self.case(at, case);
                }
            }
            CompoundCommand::IfClause(it) => {
                self.list(&it.condition);
                self.list(&it.then);
                for other in it.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.list(condition);
                    }
                    self.list(&other.body);
                }
            }
            CompoundCommand::WhileClause(it) | CompoundCommand::UntilClause(it) => {
                self.list(&it.0);
                self.list(&it.1.list);
            }
            CompoundCommand::Coprocess(_) => self.is_clear = false,
        }
    }

    fn case(&mut self, at: usize, case: &CaseItem) {
        if let Some(choice) = self.outline.choices.get_mut(at) {
            choice.extend(case.patterns.iter().map(word));
        }
        if let Some(list) = &case.cmd {
            self.list(list);
        }
    }

    fn simple(&mut self, simple: &SimpleCommand) {
        let mut found = Command::default();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                CommandPrefixOrSuffixItem::AssignmentWord(_, it) => {
                    found.assignments.push(word(it));
                }
                other => self.item(other, &mut found.words),
            }
        }
        found.words.extend(simple.word_or_name.as_ref().map(word));
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut found.words);
        }
        // A redirection alone is no command.
        if found != Command::default() {
            self.outline.commands.push(found);
        }
    }

    fn item(&mut self, item: &CommandPrefixOrSuffixItem, words: &mut Vec<String>) {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirection) => self.redirection(redirection),
            CommandPrefixOrSuffixItem::Word(it)
            | CommandPrefixOrSuffixItem::AssignmentWord(_, it) => words.push(word(it)),
            CommandPrefixOrSuffixItem::ProcessSubstitution(kind, inner) => {
                let text = self.process(kind, inner);
                words.push(text);
            }
        }
    }

    /// Cuts a process substitution out of the line. Positions count characters, and a bracket's
    /// may begin with the blanks before it.
    fn process(&self, kind: &ProcessSubstitutionKind, inner: &SubshellCommand) -> String {
        let sign = match kind {
            ProcessSubstitutionKind::Read => '<',
            ProcessSubstitutionKind::Write => '>',
        };
        let (start, end) = (inner.loc.start.index, inner.loc.end.index);
        let text: String = self.text.chars().skip(start).take(end.saturating_sub(start)).collect();
        joined(&format!("{sign}{}", text.trim_start()))
    }

    fn redirections(&mut self, list: Option<&RedirectList>) {
        for redirection in list.iter().flat_map(|list| &list.0) {
            self.redirection(redirection);
        }
    }

    fn redirection(&mut self, redirection: &IoRedirect) {
        match redirection {
            IoRedirect::File(_, kind, target) => {
                let sign = match kind {
                    IoFileRedirectKind::Read => "<",
                    IoFileRedirectKind::Write => ">",
                    IoFileRedirectKind::Append => ">>",
                    IoFileRedirectKind::ReadAndWrite => "<>",
                    IoFileRedirectKind::Clobber => ">|",
                    IoFileRedirectKind::DuplicateInput => "<&",
                    IoFileRedirectKind::DuplicateOutput => ">&",
                };
                let target = match target {
                    IoFileRedirectTarget::Filename(it) | IoFileRedirectTarget::Duplicate(it) => {
                        word(it)
                    }
                    // Made for `|&`, which the first grammar does not show.
                    IoFileRedirectTarget::Fd(_) => return,
                    IoFileRedirectTarget::ProcessSubstitution(kind, inner) => {
                        self.process(kind, inner)
                    }
                };
                self.outline.redirections.push((sign.to_owned(), target));
            }
            IoRedirect::OutputAndError(target, is_append) => {
                let sign = if *is_append { "&>>" } else { "&>" };
                self.outline.redirections.push((sign.to_owned(), word(target)));
            }
            IoRedirect::HereString(_, it) => self.outline.strings.push(word(it)),
            IoRedirect::HereDocument(_, it) => {
                self.outline.documents.push((word(&it.here_end), document(&it.doc.value)));
            }
        }
    }
}

fn word(word: &Word) -> String {
    joined(&word.value)
}
