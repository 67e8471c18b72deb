//! Braces: `a{b,c}` is `ab ac`, `{1..3}` is `1 2 3`.

use crate::word::{Kind, Piece};

/// How many words one word may become. More stay one word that is known only when it runs.
const WORDS_MAX: usize = 64;

/// Expands the braces of a word; `None` where it becomes too many.
pub(crate) fn expand(pieces: &[Piece]) -> Option<Vec<Vec<Piece>>> {
    for (at, piece) in pieces.iter().enumerate() {
        if !piece.is('{') {
            continue;
        }
        let Some((end, commas)) = closing(pieces, at) else { continue };
        let inner = pieces.get(at + 1..end)?;
        let choices = if commas.is_empty() {
            match sequence(inner) {
                Some(words) => words?,
                None => continue,
            }
        } else {
            alternatives(pieces, at, end, &commas)?
        };
        let before = pieces.get(..at)?;
        let rests = expand(pieces.get(end + 1..)?)?;
        if choices.len() * rests.len() > WORDS_MAX {
            return None;
        }
        let mut words = Vec::new();
        for choice in &choices {
            for rest in &rests {
                words.push([before, choice, rest].concat());
            }
        }
        return Some(words);
    }
    Some(vec![pieces.to_vec()])
}

/// Finds the brace that closes one, and the commas between that belong to it.
fn closing(pieces: &[Piece], at: usize) -> Option<(usize, Vec<usize>)> {
    let mut depth = 0_usize;
    let mut commas = Vec::new();
    for (index, piece) in pieces.iter().enumerate().skip(at) {
        if piece.is('{') {
            depth += 1;
        } else if piece.is('}') {
            depth -= 1;
            if depth == 0 {
                return Some((index, commas));
            }
        } else if piece.is(',') && depth == 1 {
            commas.push(index);
        }
    }
    None
}

fn alternatives(
    pieces: &[Piece],
    at: usize,
    end: usize,
    commas: &[usize],
) -> Option<Vec<Vec<Piece>>> {
    let mut choices = Vec::new();
    let mut start = at + 1;
    for &comma in commas.iter().chain([&end]) {
        choices.extend(expand(pieces.get(start..comma)?)?);
        start = comma + 1;
        if choices.len() > WORDS_MAX {
            return None;
        }
    }
    Some(choices)
}

/// Reads `1..5`, `a..e` or `1..9..2`: the outer `None` where it is no sequence, the inner where
/// it is too long.
#[allow(clippy::option_option, reason = "no sequence and one too long are different answers")]
fn sequence(inner: &[Piece]) -> Option<Option<Vec<Vec<Piece>>>> {
    if inner.iter().any(|piece| piece.kind != Kind::Bare) {
        return None;
    }
    let text: String = inner.iter().map(|piece| piece.c).collect();
    let mut ends = text.split("..");
    let (first, last, step) = (ends.next()?, ends.next()?, ends.next());
    if ends.next().is_some() {
        return None;
    }
    let step: i64 = step.map_or(Some(1), |step| step.parse().ok())?;
    let spell = |text: String| text.chars().map(|c| Piece { c, kind: Kind::Bare }).collect();
    let walk = |first: i64, last: i64| {
        let step = usize::try_from(step.unsigned_abs().max(1)).unwrap_or(usize::MAX);
        let (low, high) = (first.min(last), first.max(last));
        let far = usize::try_from(high.abs_diff(low)).unwrap_or(usize::MAX);
        (far / step < WORDS_MAX).then(|| (low..=high).step_by(step).collect::<Vec<_>>())
    };
    if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
        // With leading zeros the numbers are filled up, which no rule could rely on.
        return Some(
            walk(first, last).map(|numbers| {
                numbers.into_iter().map(|number| spell(number.to_string())).collect()
            }),
        );
    }
    let letter = |text: &str| {
        let mut chars = text.chars();
        let c = chars.next().filter(char::is_ascii_alphabetic)?;
        chars.next().is_none().then_some(i64::from(u32::from(c)))
    };
    let (first, last) = (letter(first)?, letter(last)?);
    let letters = walk(first, last).map(|numbers| {
        let chars = numbers.into_iter().filter_map(|it| u32::try_from(it).ok());
        chars.filter_map(char::from_u32).map(|c| spell(c.to_string())).collect()
    });
    Some(letters)
}
