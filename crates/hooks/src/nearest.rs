//! The known word that a misspelt one may have meant.

/// How alike a word has to be to be offered: about one letter in three may differ.
const LIKENESS_MIN: f64 = 0.6;

/// Returns how alike two words are, from 0 to 1; case and underscores count for nothing, since
/// the same words are spelt in many ways.
pub(crate) fn likeness(word: &str, known: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(&plain(word), &plain(known))
}

/// Returns the most alike of the known words, where any is alike.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    most_alike(word, known).filter(|best| likeness(word, best) >= LIKENESS_MIN)
}

/// Returns the most alike of the known words, however little that is.
pub(crate) fn most_alike<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known.iter().copied().max_by(|a, b| likeness(word, a).total_cmp(&likeness(word, b)))
}

fn plain(word: &str) -> String {
    // Nobody means a known word with something much longer.
    let letters = word.chars().filter(|letter| !matches!(letter, '_' | '-'));
    letters.take(64).flat_map(char::to_lowercase).collect()
}
