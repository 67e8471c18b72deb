//! The first grammar: what it finds in a line, and where.

mod grammar;

use std::collections::BTreeMap;
use std::ops::Range;

use tree_sitter::Node;

use crate::outline::{self, Outline, document, joined};

/// What stands at a place of the line and is known only when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) end: usize,
    pub(crate) kind: Kind,
}

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `$(…)` or back-ticks.
    Command,
    /// `<(…)` or `>(…)`.
    Process,
    /// `$name`.
    Name,
    /// `${…}`.
    Expansion,
    /// `$((…))`.
    Sum,
}

/// A simple command and where its words stand.
#[derive(Debug, Default)]
pub(crate) struct Simple {
    pub(crate) assignments: Vec<Range<usize>>,
    pub(crate) words: Vec<Range<usize>>,
    pub(crate) shell: usize,
}

/// A redirection.
#[derive(Debug)]
pub(crate) struct Redirection {
    pub(crate) sign: String,
    /// Empty where the sign says all.
    pub(crate) target: Range<usize>,
    pub(crate) shell: usize,
}

/// A line as the first grammar sees it.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) outline: Outline,
    pub(crate) commands: Vec<Simple>,
    pub(crate) redirections: Vec<Redirection>,
    /// The texts of here-documents whose end mark is not quoted.
    pub(crate) documents: Vec<Range<usize>>,
    /// Words of here-strings, of `case`, and of `for` with its variable before it.
    pub(crate) words: Vec<Range<usize>>,
    /// Variables of `for` and their words.
    pub(crate) loops: Vec<(String, Vec<Range<usize>>)>,
    /// What stands in `((…))` and in the head of `for ((`.
    pub(crate) sums: Vec<Range<usize>>,
    /// What stands in `[[…]]`.
    pub(crate) tests: Vec<Range<usize>>,
    /// What is known only when it runs, by where it begins; nothing inside a substitution.
    pub(crate) spans: BTreeMap<usize, Span>,
    /// Where a backslash has no meaning: single quotes, comments, quoted here-documents.
    pub(crate) quiet: Vec<Range<usize>>,
    /// The parents of the subshells. Shell 0 is the one that reads the line.
    pub(crate) parents: Vec<usize>,
    /// Whether the grammar finds no error and nothing was met that this reading does not know.
    pub(crate) is_clear: bool,
}

/// Reads a line. Where the grammar finds an error the rest is still read as far as it goes.
pub(crate) fn read(text: &str) -> Tree {
    let Some(parsed) = grammar::parse(text) else { return Tree::default() };
    let root = parsed.root_node();
    let mut reading =
        Reading { text, tree: Tree { is_clear: !root.has_error(), ..Tree::default() } };
    reading.spans(root);
    reading.statement(root, 0);
    reading.tree
}

struct Reading<'a> {
    text: &'a str,
    tree: Tree,
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

impl Reading<'_> {
    fn slice(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    fn texts(&self, ranges: &[Range<usize>]) -> Vec<String> {
        ranges.iter().map(|range| joined(self.slice(range))).collect()
    }

    /// Collects what is known only when it runs.
    fn spans(&mut self, node: Node<'_>) {
        let kind = match node.kind() {
            "command_substitution" => Some(Kind::Command),
            "process_substitution" => Some(Kind::Process),
            "simple_expansion" => Some(Kind::Name),
            "expansion" => Some(Kind::Expansion),
            "arithmetic_expansion" => Some(Kind::Sum),
            _ => None,
        };
        if matches!(node.kind(), "raw_string" | "comment") {
            self.tree.quiet.push(node.byte_range());
        }
        if let Some(kind) = kind {
            // Between quotes the grammar counts the blanks before it to the node.
            let blanks = self.slice(&node.byte_range()).len()
                - self.slice(&node.byte_range()).trim_start_matches([' ', '\t', '\n']).len();
            let start = node.start_byte() + blanks;
            self.tree.spans.insert(start, Span { end: node.end_byte(), kind });
        }
        if !matches!(kind, Some(Kind::Command | Kind::Process)) {
            for child in children(node) {
                self.spans(child);
            }
        }
    }

    fn statement(&mut self, node: Node<'_>, shell: usize) {
        match node.kind() {
            "command" | "declaration_command" | "unset_command" => self.simple(node, shell),
            "variable_assignment" | "variable_assignments" => self.simple(node, shell),
            "test_command" => match node.child(0).map_or("", |first| first.kind()) {
                "[[" => self.tree.push_test(node.byte_range()),
                "[" => self.simple(node, shell),
                _ => self.tree.push_sum(node.byte_range()),
            },
            "compound_statement" if node.child(0).is_some_and(|first| first.kind() == "((") => {
                self.tree.push_sum(node.byte_range());
            }
            "subshell" => {
                self.tree.parents.push(shell);
                let inner = self.tree.parents.len();
                self.statements(node, inner);
            }
            "function_definition" => {
                let name = node.child_by_field_name("name").map(|name| name.byte_range());
                let name = joined(self.slice(&name.unwrap_or(0..0)));
                self.tree.outline.functions.push(name);
                for child in children(node).into_iter().filter(|it| it.kind() != "word") {
                    self.part(child, shell);
                }
            }
            "for_statement" => self.for_words(node, shell),
            "c_style_for_statement" => self.for_sums(node, shell),
            "case_statement" => self.case(node, shell),
            "redirected_statement" => self.redirected(node, shell),
            "program" | "negated_command" | "list" | "pipeline" | "do_group" | "if_statement"
            | "elif_clause" | "else_clause" | "while_statement" | "compound_statement" => {
                self.statements(node, shell);
            }
            "comment" => {}
            _ => self.tree.is_clear = false,
        }
    }

    fn statements(&mut self, node: Node<'_>, shell: usize) {
        for child in children(node) {
            self.part(child, shell);
        }
    }

    /// A child of a statement: a statement, a redirection, or a sign.
    fn part(&mut self, node: Node<'_>, shell: usize) {
        if !node.is_named() || node.is_extra() {
            return;
        }
        match node.kind() {
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                let extra = self.redirection(node, shell);
                self.tree.is_clear &= extra.is_empty();
            }
            _ => self.statement(node, shell),
        }
    }

    /// A simple command: its assignments, words and redirections.
    fn simple(&mut self, node: Node<'_>, shell: usize) {
        let mut atoms = Vec::new();
        let mut assignments = Vec::new();
        if node.kind() == "variable_assignment" {
            assignments.push(node.byte_range());
        } else {
            let mut end = node.start_byte();
            for child in children(node) {
                let lost = self.passed_over(end..child.start_byte());
                self.tree.is_clear &= lost.is_none();
                end = child.end_byte();
                match child.kind() {
                    "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                        let extra = self.redirection(child, shell);
                        atoms.extend(extra);
                    }
                    "variable_assignment"
                        if atoms.is_empty()
                            && matches!(node.kind(), "command" | "variable_assignments") =>
                    {
                        assignments.push(child.byte_range());
                    }
                    "subshell" => self.tree.is_clear = false,
                    _ if child.is_extra() => {}
                    _ => self.atoms(child, &mut atoms),
                }
            }
        }
        let words = self.merge(atoms);
        self.command(assignments, words, shell);
    }

    fn command(&mut self, assignments: Vec<Range<usize>>, words: Vec<Range<usize>>, shell: usize) {
        if assignments.is_empty() && words.is_empty() {
            return;
        }
        self.tree.outline.commands.push(outline::Command {
            assignments: assignments.iter().map(|range| self.assigned(range)).collect(),
            words: words.iter().map(|range| self.assigned(range)).collect(),
        });
        self.tree.commands.push(Simple { assignments, words, shell });
    }

    /// Spells a word; the elements of an array as the second grammar spells them.
    fn assigned(&self, range: &Range<usize>) -> String {
        let text = joined(self.slice(range));
        match text.split_once("=(") {
            Some((name, rest)) if text.ends_with(')') && !name.contains(['$', '`', '"', '\'']) => {
                let inner = rest.strip_suffix(')').unwrap_or(rest);
                let words = inner.split_ascii_whitespace().collect::<Vec<_>>();
                format!("{name}=({})", words.join(" "))
            }
            _ => text,
        }
    }

    /// Takes a node apart into pieces that no blank divides.
    fn atoms(&self, node: Node<'_>, atoms: &mut Vec<Range<usize>>) {
        let is_whole = !matches!(
            node.kind(),
            "unary_expression"
                | "binary_expression"
                | "parenthesized_expression"
                | "ternary_expression"
                | "postfix_expression"
        );
        if is_whole || node.child_count() == 0 {
            atoms.push(node.byte_range());
        } else {
            for child in children(node) {
                self.atoms(child, atoms);
            }
        }
    }

    /// Joins pieces that touch, but for line ends that a backslash takes away.
    fn merge(&self, mut atoms: Vec<Range<usize>>) -> Vec<Range<usize>> {
        atoms.sort_by_key(|range| range.start);
        let mut words: Vec<Range<usize>> = Vec::with_capacity(atoms.len());
        for atom in atoms {
            let gap = words.last().map(|last| last.end..atom.start);
            let touches = gap.is_some_and(|gap| joined(self.slice(&gap)).is_empty());
            match words.last_mut() {
                Some(last) if touches => last.end = atom.end,
                _ => words.push(atom),
            }
        }
        words
    }

    /// A redirection. Returns words of the command that the grammar counts to it.
    fn redirection(&mut self, node: Node<'_>, shell: usize) -> Vec<Range<usize>> {
        match node.kind() {
            "heredoc_redirect" => return self.document(node, shell),
            "herestring_redirect" => {
                let atoms = children(node)
                    .into_iter()
                    .filter(|child| child.is_named() && child.kind() != "file_descriptor")
                    .map(|child| child.byte_range());
                let words = self.merge(atoms.collect());
                self.tree.is_clear &= words.len() == 1;
                let texts = self.texts(&words);
                self.tree.outline.strings.extend(texts);
                self.tree.words.extend(words);
                return Vec::new();
            }
            _ => {}
        }
        let mut sign = String::new();
        let mut atoms = Vec::new();
        for child in children(node) {
            if !child.is_named() {
                sign = child.kind().to_owned();
            } else if child.kind() != "file_descriptor" {
                atoms.push(child.byte_range());
            }
        }
        let mut words = self.merge(atoms).into_iter();
        let target = if sign.ends_with("&-") {
            sign.pop();
            None
        } else {
            words.next()
        };
        let text = target.as_ref().map_or_else(|| "-".to_owned(), |it| joined(self.slice(it)));
        self.tree.outline.redirections.push((sign.clone(), text));
        let target = target.unwrap_or(0..0);
        self.tree.redirections.push(Redirection { sign, target, shell });
        words.collect()
    }

    /// A here-document, with what follows it on its line.
    fn document(&mut self, node: Node<'_>, shell: usize) -> Vec<Range<usize>> {
        let mut extra = Vec::new();
        let mut mark = String::new();
        let mut body = 0..0;
        let at = self.tree.outline.documents.len();
        self.tree.outline.documents.push(Default::default());
        for child in children(node) {
            match child.kind() {
                "heredoc_start" => mark = self.slice(&child.byte_range()).to_owned(),
                "heredoc_body" => body = child.byte_range(),
                "heredoc_end" | "file_descriptor" => {}
                _ if !child.is_named() || child.is_extra() => {}
                "file_redirect" | "herestring_redirect" => {
                    let more = self.redirection(child, shell);
                    extra.extend(more);
                }
                kind if is_statement(kind) => self.statement(child, shell),
                _ => extra.push(child.byte_range()),
            }
        }
        let text = document(self.slice(&body));
        if mark.contains(['\'', '"', '\\']) {
            self.tree.quiet.push(body);
        } else {
            self.tree.documents.push(body);
        }
        if let Some(slot) = self.tree.outline.documents.get_mut(at) {
            *slot = (joined(&mark), text);
        }
        extra
    }

    fn redirected(&mut self, node: Node<'_>, shell: usize) {
        let mut extra = Vec::new();
        let mut last = None;
        let mut end = node.start_byte();
        for child in children(node) {
            extra.extend(self.passed_over(end..child.start_byte()));
            end = child.end_byte();
            match child.kind() {
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    let more = self.redirection(child, shell);
                    extra.extend(more);
                }
                _ if !child.is_named() || child.is_extra() => {}
                _ => {
                    self.statement(child, shell);
                    last = self.tree.commands.len().checked_sub(1);
                }
            }
        }
        if extra.is_empty() {
            return;
        }
        let words = self.merge(extra);
        let texts: Vec<_> = words.iter().map(|range| self.assigned(range)).collect();
        let Some(last) = last else {
            return self.command(Vec::new(), words, shell);
        };
        let outline = self.tree.outline.commands.get_mut(last);
        match (self.tree.commands.get_mut(last), outline) {
            (Some(simple), Some(outline)) if !simple.words.is_empty() => {
                simple.words.extend(words);
                outline.words.extend(texts);
            }
            _ => self.tree.is_clear = false,
        }
    }

    /// Finds what the grammar passes over in silence: a lone `-` before a here-document, which is a
    /// word. Anything else makes the reading unclear.
    fn passed_over(&mut self, gap: Range<usize>) -> Option<Range<usize>> {
        let text = self.slice(&gap);
        let bare = text.trim_matches([' ', '\t', '\n', '\\', ';']);
        if bare.is_empty() {
            return None;
        }
        let start = gap.start + text.find(bare).unwrap_or_default();
        let range = start..start + bare.len();
        self.tree.is_clear &= bare == "-";
        Some(range)
    }

    fn for_words(&mut self, node: Node<'_>, shell: usize) {
        let name = node.child_by_field_name("variable").map(|name| name.byte_range());
        let name = self.slice(&name.unwrap_or(0..0)).to_owned();
        let mut cursor = node.walk();
        let values = node.children_by_field_name("value", &mut cursor);
        let words = self.merge(values.map(|value| value.byte_range()).collect());
        let mut outline = vec![name.clone()];
        outline.extend(self.texts(&words));
        self.tree.outline.loops.push(outline);
        self.tree.loops.push((name, words));
        if let Some(body) = node.child_by_field_name("body") {
            self.statement(body, shell);
        }
    }

    fn for_sums(&mut self, node: Node<'_>, shell: usize) {
        let mut head = 0..0;
        for child in children(node) {
            match child.kind() {
                "((" => head.start = child.start_byte(),
                "))" => head.end = child.end_byte(),
                _ => {}
            }
        }
        self.tree.push_sum(head);
        if let Some(body) = node.child_by_field_name("body") {
            self.statement(body, shell);
        }
    }

    fn case(&mut self, node: Node<'_>, shell: usize) {
        let at = self.tree.outline.choices.len();
        let value = node.child_by_field_name("value").map(|value| value.byte_range());
        let mut words: Vec<_> = value.into_iter().collect();
        self.tree.outline.choices.push(self.texts(&words));
        for item in children(node).into_iter().filter(|child| child.kind() == "case_item") {
            let mut cursor = item.walk();
            let values = item.children_by_field_name("value", &mut cursor);
            let patterns = self.merge(values.map(|value| value.byte_range()).collect());
            let texts = self.texts(&patterns);
            if let Some(choice) = self.tree.outline.choices.get_mut(at) {
                choice.extend(texts);
            }
            words.extend(patterns);
            for (index, child) in children(item).into_iter().enumerate() {
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                if item.field_name_for_child(index) != Some("value") {
                    self.part(child, shell);
                }
            }
        }
        self.tree.words.extend(words);
    }
}

impl Tree {
    fn push_sum(&mut self, range: Range<usize>) {
        self.outline.sums += 1;
        self.sums.push(range);
    }

    fn push_test(&mut self, range: Range<usize>) {
        self.outline.tests += 1;
        self.tests.push(range);
    }
}

fn is_statement(kind: &str) -> bool {
    kind.ends_with("_statement")
        || kind.ends_with("_command")
        || matches!(
            kind,
            "command"
                | "list"
                | "pipeline"
                | "subshell"
                | "function_definition"
                | "variable_assignment"
                | "variable_assignments"
        )
}
