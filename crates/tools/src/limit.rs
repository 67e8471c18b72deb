//! The cut of what a model reads: head and tail stay, the middle is named.

use std::borrow::Cow;
use std::path::Path;

/// The most characters of one result that a model reads: about 8,000 tokens, so that a single
/// call cannot crowd out the rest of the conversation.
pub const OUTPUT_CHARS_MAX: usize = 30_000;

/// Room for the line that names what was left out.
pub(crate) const OMISSION_CHARS_MAX: usize = 600;

/// The largest file that tools read or write: a whole spilled output fits.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;

/// Cuts a text to [`OUTPUT_CHARS_MAX`] characters: keeps its head and its tail and names the
/// middle, with the file that holds the whole where there is one. A text that fits is returned as
/// it is.
pub fn limit_output<'a>(text: &'a str, whole: Option<&Path>) -> Cow<'a, str> {
    // A character has at least one byte, so most texts need not be counted.
    if text.len() <= OUTPUT_CHARS_MAX {
        return Cow::Borrowed(text);
    }
    let count = text.chars().count();
    if count <= OUTPUT_CHARS_MAX {
        return Cow::Borrowed(text);
    }
    let whole = whole.map(|path| path.display().to_string());
    let kept = (OUTPUT_CHARS_MAX - OMISSION_CHARS_MAX) / 2;
    let omission = omission((count - 2 * kept) as u64, whole.as_deref());
    Cow::Owned(format!("{}\n{omission}\n{}", head(text, kept), tail(text, kept)))
}

/// Names what was left out of the middle, in at most [`OMISSION_CHARS_MAX`] characters.
pub(crate) fn omission(left_out: u64, whole: Option<&str>) -> String {
    let count = grouped(left_out);
    match whole {
        // A path that long would break the limit; it is in the result's own field all the same.
        Some(path) if path.len() < OMISSION_CHARS_MAX - 120 => format!(
            "… {count} characters left out; the whole output is in {path} (read_file reads on) …"
        ),
        Some(_) | None => format!("… {count} characters left out …"),
    }
}

/// Returns the first `count` characters.
pub(crate) fn head(text: &str, count: usize) -> &str {
    match text.char_indices().nth(count) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// Returns the last `count` characters.
pub(crate) fn tail(text: &str, count: usize) -> &str {
    if count == 0 {
        return "";
    }
    match text.char_indices().rev().nth(count - 1) {
        Some((start, _)) => text.get(start..).unwrap_or(text),
        None => text,
    }
}

/// Writes a number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_stay_as_they_are() {
        let text = "ü".repeat(OUTPUT_CHARS_MAX);
        assert!(matches!(limit_output(&text, None), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn long_texts_keep_head_and_tail_and_name_the_middle() {
        let text = format!("begin{}end", "ü".repeat(50_000));
        let cut = limit_output(&text, Some(Path::new("/spill/1.txt")));
        assert!(cut.chars().count() <= OUTPUT_CHARS_MAX, "{}", cut.chars().count());
        assert!(cut.starts_with("beginü") && cut.ends_with("üend"));
        let named = "\n… 20,608 characters left out; the whole output is in /spill/1.txt \
                     (read_file reads on) …\n";
        assert!(cut.contains(named), "{}", &cut[29_000..30_000]);
    }

    #[test]
    fn numbers_are_grouped() {
        let shown: Vec<_> = [0, 999, 1_000, 1_234_567].map(grouped).into();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
