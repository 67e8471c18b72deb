//! Foreign text on its way to a terminal: control sequences become visible and do nothing.

/// Makes text harmless for a terminal. Line ends and tabs stay.
///
/// Everything else that moves the cursor, changes colours, rings, or turns the direction of
/// writing is shown as a picture or its code.
pub fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(letter) = chars.next() {
        match letter {
            '\n' | '\t' => safe.push(letter),
            '\r' if chars.peek() == Some(&'\n') => {}
            _ => push_visible(&mut safe, letter),
        }
    }
    safe
}

/// Makes text harmless and one line, at most `limit` characters long.
pub fn line(raw: &str, limit: usize) -> String {
    let mut safe = String::new();
    let mut words = raw.split(['\n', '\r', '\t']).map(str::trim).filter(|part| !part.is_empty());
    if let Some(first) = words.next() {
        first.chars().for_each(|letter| push_visible(&mut safe, letter));
    }
    for part in words {
        safe.push_str(" ⏎ ");
        part.chars().for_each(|letter| push_visible(&mut safe, letter));
        if safe.len() > limit.saturating_mul(4) {
            break;
        }
    }
    cut(&safe, limit)
}

/// Cuts text to `limit` characters, the last of which then tells so.
pub fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

/// Escapes, within JSON text, the controls that JSON allows and terminals obey.
pub fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if ('\u{7f}'..='\u{9f}').contains(&letter) || turns_direction(letter) {
            safe.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            safe.push(letter);
        }
    }
    safe
}

fn push_visible(safe: &mut String, letter: char) {
    match letter {
        '\0'..='\u{1f}' => {
            safe.push(char::from_u32(0x2400 + u32::from(letter)).unwrap_or('\u{fffd}'));
        }
        '\u{7f}' => safe.push('\u{2421}'),
        '\u{80}'..='\u{9f}' => safe.extend(letter.escape_unicode()),
        _ if turns_direction(letter) => safe.extend(letter.escape_unicode()),
        _ => safe.push(letter),
    }
}

/// Tells the marks that turn the direction of writing, with which text can lie about itself.
fn turns_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_become_visible() {
        let table = [
            ("plain\n\ttext", "plain\n\ttext"),
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("dos\r\nline\rover", "dos\nline␍over"),
            ("c1 \u{9b}2J", "c1 \\u{9b}2J"),
            ("del \u{7f}", "del ␡"),
            ("abc\u{202e}txt.exe", "abc\\u{202e}txt.exe"),
            ("über 日本 🦀", "über 日本 🦀"),
        ];
        for (raw, safe) in table {
            assert_eq!(text(raw), safe);
        }
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(line("cd x &&\n  make\n", 80), "cd x && ⏎ make");
        assert_eq!(line("abcdefgh", 5), "abcd…");
        assert_eq!(line("a\u{1b}[2Jb", 80), "a␛[2Jb");
    }

    #[test]
    fn json_stays_json() {
        let raw = serde_json::to_string("a\u{9b}b\u{202e}c\u{1b}").unwrap();
        let safe = json(&raw);
        assert_eq!(safe, "\"a\\u009bb\\u202ec\\u001b\"");
        let back: String = serde_json::from_str(&safe).unwrap();
        assert_eq!(back, "a\u{9b}b\u{202e}c\u{1b}");
    }
}
