//! Texts in files: encodings that survive an edit.

use crate::file_kind;

/// Bytes that are not UTF-8 become `MARK + byte` while a text is edited and bytes again when it is
/// written. The last page of the last private plane is not used by texts.
const MARK: u32 = 0x10_ff00;

/// The first such character: only bytes from 0x80 on can be out of place.
const MARK_FIRST: char = '\u{10ff80}';

/// How a text is kept in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-8 after a byte order mark.
    Utf8Bom,
    /// UTF-16, little end first, after a byte order mark.
    Utf16Le,
    /// UTF-16, big end first, after a byte order mark.
    Utf16Be,
    /// UTF-8 with some bytes that are not (for example Latin-1).
    Mixed,
}

/// A file's text, without its byte order mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextFile {
    /// The text; may hold marks for bytes that are not UTF-8.
    pub(crate) text: String,
    /// How it is kept.
    pub(crate) encoding: Encoding,
}

impl TextFile {
    /// Returns the text for a reader: what could not be decoded is U+FFFD.
    pub(crate) fn readable(self) -> String {
        match self.encoding {
            Encoding::Mixed => self.text.replace(|c| c >= MARK_FIRST, "\u{fffd}"),
            Encoding::Utf8 | Encoding::Utf8Bom | Encoding::Utf16Le | Encoding::Utf16Be => self.text,
        }
    }
}

impl Encoding {
    /// Returns what a reader should know about the encoding.
    pub(crate) fn note(self) -> Option<&'static str> {
        match self {
            Encoding::Utf8 => None,
            Encoding::Utf8Bom => Some("UTF-8 with a byte order mark; edits keep it"),
            Encoding::Utf16Le | Encoding::Utf16Be => Some("kept as UTF-16; edits keep that"),
            Encoding::Mixed => Some("not all of it is UTF-8: \u{fffd} stands for other bytes"),
        }
    }

    /// Turns a text back into the bytes of its file.
    pub(crate) fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Encoding::Utf8 => text.as_bytes().to_vec(),
            Encoding::Utf8Bom => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            Encoding::Utf16Le => {
                let units = std::iter::once(0xfeff).chain(text.encode_utf16());
                units.flat_map(u16::to_le_bytes).collect()
            }
            Encoding::Utf16Be => {
                let units = std::iter::once(0xfeff).chain(text.encode_utf16());
                units.flat_map(u16::to_be_bytes).collect()
            }
            Encoding::Mixed => encode_mixed(text),
        }
    }
}

/// Decodes a file's bytes.
///
/// # Errors
/// The name of what the file is, when it is no text.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<TextFile, &'static str> {
    if let Some(rest) = bytes.strip_prefix(b"\xff\xfe") {
        return decode_utf16(rest, Encoding::Utf16Le);
    }
    if let Some(rest) = bytes.strip_prefix(b"\xfe\xff") {
        return decode_utf16(rest, Encoding::Utf16Be);
    }
    if let Some(kind) = file_kind::binary(&bytes) {
        return Err(kind);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(match text.strip_prefix('\u{feff}') {
            Some(rest) => TextFile { text: rest.to_owned(), encoding: Encoding::Utf8Bom },
            None => TextFile { text, encoding: Encoding::Utf8 },
        }),
        Err(error) => decode_mixed(error.as_bytes()),
    }
}

fn decode_utf16(bytes: &[u8], encoding: Encoding) -> Result<TextFile, &'static str> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let unit = |pair: &[u8; 2]| match encoding {
        Encoding::Utf16Be => u16::from_be_bytes(*pair),
        _ => u16::from_le_bytes(*pair),
    };
    let text: Result<String, _> = char::decode_utf16(pairs.iter().map(unit)).collect();
    match text {
        Ok(text) if rest.is_empty() && !text.contains('\0') => Ok(TextFile { text, encoding }),
        Ok(_) | Err(_) => Err("binary file"),
    }
}

fn decode_mixed(bytes: &[u8]) -> Result<TextFile, &'static str> {
    let mut text = String::with_capacity(bytes.len() + bytes.len() / 8);
    for chunk in bytes.utf8_chunks() {
        if chunk.valid().contains(|c| c >= MARK_FIRST) {
            return Err("binary file");
        }
        text.push_str(chunk.valid());
        let marks =
            chunk.invalid().iter().filter_map(|byte| char::from_u32(MARK + u32::from(*byte)));
        text.extend(marks);
    }
    Ok(TextFile { text, encoding: Encoding::Mixed })
}

fn encode_mixed(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u8::try_from(u32::from(c).wrapping_sub(MARK)) {
            Ok(byte) if c >= MARK_FIRST => bytes.push(byte),
            Ok(_) | Err(_) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(bytes: &[u8], text: &str, encoding: Encoding) {
        let file = decode(bytes.to_vec()).unwrap();
        assert_eq!(file.encoding, encoding);
        assert_eq!(encoding.encode(&file.text), bytes, "the bytes come back");
        assert_eq!(file.readable(), text);
    }

    #[test]
    fn encodings_are_told_and_kept() {
        check("grün\n".as_bytes(), "grün\n", Encoding::Utf8);
        check(b"\xef\xbb\xbfa\r\n", "a\r\n", Encoding::Utf8Bom);
        check(b"\xff\xfea\0\n\0", "a\n", Encoding::Utf16Le);
        check(b"\xfe\xff\0a\xd8\x3d\xde\0", "a\u{1f600}", Encoding::Utf16Be);
        check(b"gr\xfcn \xc3\xbc\n", "gr\u{fffd}n ü\n", Encoding::Mixed);
        assert_eq!(decode(b"\xff\xfea".to_vec()), Err("binary file"));
        assert_eq!(decode(b"a\0b".to_vec()), Err("binary file"));
    }

    proptest! {
        #[test]
        fn whatever_is_decoded_is_encoded_alike(bytes: Vec<u8>) {
            if let Ok(file) = decode(bytes.clone()) {
                prop_assert_eq!(file.encoding.encode(&file.text), bytes);
            }
        }
    }
}
