//! Whether a rule speaks of a simple command.

use crate::Rule;
use crate::rule::ShellPattern;
use crate::shell::{self, Part, Role, Script, Spelling, UNKNOWN};

use super::matching::Fit;

/// The longest spelling, in bytes, that is compared with a pattern sign by sign where both hold
/// something unknown. A longer one may be anything from there on.
const LOOSE_BYTES_MAX: usize = 4096;

/// Tells whether an allow rule covers a command of a line. When in doubt it does not.
pub(super) fn grants(rule: &Rule, pattern: &ShellPattern, script: &Script, part: &Part) -> bool {
    let found = script.parts.iter().position(|other| std::ptr::eq(other, part));
    found.is_some_and(|at| Line { rule, pattern, script }.grants(at))
}

/// A rule beside a line.
struct Line<'a> {
    rule: &'a Rule,
    pattern: &'a ShellPattern,
    script: &'a Script,
}

impl Line<'_> {
    fn grants(&self, at: usize) -> bool {
        let Some(part) = self.script.parts.get(at) else { return false };
        if self.grants_alone(part) || self.grants_before(part) {
            return true;
        }
        let mut others = self.script.parts.iter().enumerate();
        match part.role {
            // It does no more than what stands behind it, which has to be granted by itself too.
            Role::Wrapper if part.hidden.is_none() => {
                others.any(|(other, it)| it.behind == Some(at) && other > at && self.grants(other))
            }
            // What only steers the shell goes along with a command that does something.
            Role::Neutral if part.hidden.is_none() => {
                others.any(|(_, it)| it.role == Role::Plain && self.grants_alone(it))
            }
            _ => false,
        }
    }

    /// Tells whether the rule fits the command itself.
    fn grants_alone(&self, part: &Part) -> bool {
        let needed = match (part.hidden, part.named) {
            // It has to name the very text that may run anything.
            (Some(_), named) => named.max(1),
            // It has to name a program that runs others.
            (None, named) => named.min(1),
        };
        self.named(part).is_some_and(|named| named >= needed)
    }

    /// Tells whether the rule names a command and all that stands behind it, this one too.
    fn grants_before(&self, part: &Part) -> bool {
        let Some(before) = part.behind.and_then(|at| self.script.parts.get(at)) else {
            return false;
        };
        let names_all =
            before.named > 0 && self.named(before).is_some_and(|named| named >= before.named);
        names_all || self.grants_before(before)
    }

    /// Returns how many leading words of a command the rule spells out, if it fits at all.
    fn named(&self, part: &Part) -> Option<usize> {
        let text = self.rule.pattern_text()?;
        let spelled = literal(text);
        if !text.contains('*') && text == part.raw() {
            return Some(part.words.len());
        }
        let fits = |spelling: &&Spelling| self.pattern.matches(&spelling.text);
        let spellings = shell::allowed_spellings(part);
        let named = spellings.iter().filter(fits).map(|it| it.words_within(spelled));
        named.max()
    }
}

/// Returns how many bytes of a command a pattern spells out before its first star.
fn literal(pattern: &str) -> usize {
    let mut bytes = 0;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next_if_eq(&'*').is_some() => bytes += 1,
            '*' => return bytes,
            c => bytes += c.len_utf8(),
        }
    }
    bytes
}

/// Tells whether a deny or ask rule speaks of a command. When in doubt it perhaps does.
pub(super) fn protects(rule: &Rule, pattern: &ShellPattern, part: &Part) -> Fit {
    if shell::protected_spellings(part).iter().any(|text| pattern.matches(text)) {
        return Fit::Yes;
    }
    if let Some(why) = part.hidden {
        return Fit::Perhaps(why);
    }
    let text = rule.pattern_text().unwrap_or_default();
    if part.has_unknown() && shell::loose_spellings(part).iter().any(|it| may_fit(text, it)) {
        return Fit::Perhaps("an argument is known only when the command runs");
    }
    Fit::No
}

/// Tells whether a pattern fits some text that a spelling may become when the command runs.
fn may_fit(pattern: &str, spelling: &str) -> bool {
    let bare = pattern.strip_suffix(" *");
    std::iter::once(pattern).chain(bare).any(|pattern| overlaps(pattern, spelling))
}

/// Walks along the spelling with all places of the pattern that may have been reached.
fn overlaps(pattern: &str, spelling: &str) -> bool {
    // `None` is a star.
    let mut pieces: Vec<Option<char>> = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        pieces.push(match c {
            '\\' if chars.next_if_eq(&'*').is_some() => Some('*'),
            '*' => None,
            c => Some(c),
        });
    }
    let mut reached = vec![false; pieces.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    skip_stars(&pieces, &mut reached);
    for (at, c) in spelling.char_indices() {
        let mut next = vec![false; reached.len()];
        if c == UNKNOWN || at >= LOOSE_BYTES_MAX {
            let Some(first) = reached.iter().position(|it| *it) else { return false };
            next.iter_mut().skip(first).for_each(|it| *it = true);
            if at >= LOOSE_BYTES_MAX {
                return true;
            }
        } else {
            for (index, _) in reached.iter().enumerate().filter(|(_, it)| **it) {
                let to = match pieces.get(index) {
                    Some(None) => index,
                    Some(Some(wanted)) if *wanted == c => index + 1,
                    _ => continue,
                };
                if let Some(slot) = next.get_mut(to) {
                    *slot = true;
                }
            }
        }
        skip_stars(&pieces, &mut next);
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

/// A star may be passed over.
fn skip_stars(pieces: &[Option<char>], reached: &mut [bool]) {
    for (index, piece) in pieces.iter().enumerate() {
        if piece.is_none()
            && reached.get(index) == Some(&true)
            && let Some(slot) = reached.get_mut(index + 1)
        {
            *slot = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_unknown_texts_overlap_where_some_text_is_both() {
        let text = |text: &str| text.replace('?', &UNKNOWN.to_string());
        for (pattern, spelling, expected) in [
            ("git push *", "git ? origin", true),
            ("git push *", "git? origin", true),
            ("git push *", "git commit -m ?", false),
            ("git push *", "git pu?", true),
            ("git push *", "git ?", true),
            ("git push", "git? push", true),
            ("rm -rf *", "rm ?", true),
            ("rm -rf *", "rm -i ?", false),
            ("rm *", "ls ?", false),
            ("*secret*", "cat ?", true),
            (r"echo \*", "echo ?", true),
            (r"echo \*", "echo a?", false),
            ("a", "a", true),
            ("a", "b", false),
        ] {
            assert_eq!(may_fit(pattern, &text(spelling)), expected, "{pattern} {spelling}");
        }
    }

    #[test]
    fn what_a_pattern_spells_out_ends_at_its_first_star() {
        for (pattern, expected) in [("a b *", 4), ("*", 0), (r"a\*b*", 3), ("abc", 3)] {
            assert_eq!(literal(pattern), expected, "{pattern}");
        }
    }
}
