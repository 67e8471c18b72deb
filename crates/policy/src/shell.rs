//! The texts of commands that rules are compared with.
//!
//! What a line runs is found out by the crate `shell`; here its parts get the spellings that the
//! patterns of rules are held against.

pub(crate) use shell::{Part, Role, Script, UNKNOWN, only_looks, read};

use shell::{BLANK, Word};

/// A spelling of a command, with where its words end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spelling {
    pub(crate) text: String,
    /// Where each word ends in the text.
    ends: Vec<usize>,
}

impl Spelling {
    fn new<'t>(words: impl Iterator<Item = std::borrow::Cow<'t, str>>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for word in words {
            if !text.is_empty() || !ends.is_empty() {
                text.push(' ');
            }
            // A blank inside a word must not look like the end of one.
            text.extend(word.chars().map(|c| if is_blank(c) { BLANK } else { c }));
            ends.push(text.len());
        }
        Self { text, ends }
    }

    /// Returns how many leading words lie within the first bytes of the text.
    pub(crate) fn words_within(&self, bytes: usize) -> usize {
        self.ends.iter().take_while(|end| **end <= bytes).count()
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n')
}

/// Returns the spellings that an allow rule may fit: as the words are resolved, the same without
/// options that do no harm, and as it is written.
pub(crate) fn allowed_spellings(part: &Part) -> Vec<Spelling> {
    let name = part.trusted_name();
    let resolved = |words: &[&Word]| {
        let rest = words.iter().skip(1).map(|word| word.text.as_str().into());
        Spelling::new(std::iter::once(name.into()).chain(rest))
    };
    let words: Vec<&Word> = part.words.iter().collect();
    let mut spellings = vec![resolved(&words)];
    if part.named == 0 {
        spellings.push(resolved(&part.without_harmless_options()));
    }
    spellings.push(Spelling::new(words.iter().map(|word| word.raw.as_str().into())));
    spellings.dedup();
    spellings
}

/// Returns the spellings that a protecting rule may fit: every reading of the command, by the
/// program's path and by its bare name, and as it is written.
pub(crate) fn protected_spellings(part: &Part) -> Vec<String> {
    let mut spellings = vec![crate::rule::collapse(&part.raw())];
    for words in part.readings() {
        let rest: String = words.iter().skip(1).map(|word| format!(" {}", word.text)).collect();
        for name in [part.program(), part.base_name()] {
            spellings.push(crate::rule::collapse(&format!("{name}{rest}")));
        }
    }
    spellings.dedup();
    spellings
}

/// Returns the readings of a command with [`UNKNOWN`] for all that is known only when it runs. A
/// word that may vanish takes the blank before it along.
pub(crate) fn loose_spellings(part: &Part) -> Vec<String> {
    let mut spellings = Vec::new();
    for words in part.readings() {
        let rest: String = words
            .iter()
            .skip(1)
            .map(|word| match word.may_split && word.loose().starts_with(UNKNOWN) {
                true => word.loose().to_owned(),
                false => format!(" {}", word.loose()),
            })
            .collect();
        for name in [part.program(), part.base_name()] {
            spellings.push(crate::rule::collapse(&format!("{name}{rest}")));
        }
    }
    spellings.dedup();
    spellings
}
