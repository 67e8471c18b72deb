//! What a file is, by its first bytes.

/// How many bytes are searched for a NUL, the mark of a file that is not text.
const SNIFF_BYTES: usize = 8 * 1024;

/// Beginnings that no text has.
const STRONG: [(&[u8], &str); 13] = [
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "zip archive (or an office document, jar or wheel)"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"7z\xbc\xaf\x27\x1c", "7-zip archive"),
    (b"\x7fELF", "ELF program or library"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\0asm", "WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "Java class or universal Mach-O file"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"\xff\xd8\xff", "jpeg image"),
    (b"\x89PNG\r\n\x1a\n", "png image"),
];

/// Beginnings that a text may have too: they only name a file that is known to be no text.
const WEAK: [(&[u8], &str); 9] = [
    (b"MZ", "Windows program"),
    (b"BZh", "bzip2 data"),
    (b"GIF8", "gif image"),
    (b"RIFF", "RIFF media (webp, wav or avi)"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"wOF2", "web font"),
    (b"BM", "bitmap image"),
];

/// Returns the media type of an image that models read.
pub(crate) fn image(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

/// Tells whether the bytes are a PDF document.
pub(crate) fn is_pdf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"%PDF-")
}

/// Returns what a file is when it is no text: a name, or "binary file".
pub(crate) fn binary(bytes: &[u8]) -> Option<&'static str> {
    let named = |list: &[(&[u8], &'static str)]| {
        list.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, name)| *name)
    };
    if let Some(name) = named(&STRONG) {
        return Some(name);
    }
    if !bytes.iter().take(SNIFF_BYTES).any(|byte| *byte == 0) {
        return None;
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return Some("tar archive");
    }
    if bytes.get(4..8) == Some(b"ftyp") {
        return Some("MP4 or HEIF media");
    }
    Some(named(&WEAK).unwrap_or("binary file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_content() {
        assert_eq!(image(b"\x89PNG\r\n\x1a\n..."), Some("image/png"));
        assert_eq!(image(b"RIFF\x01\x02\x03\x04WEBPVP8 "), Some("image/webp"));
        assert_eq!(image(b"RIFF\x01\x02\x03\x04WAVEfmt "), None);
        assert_eq!(binary(b"\x7fELF\x02\x01"), Some("ELF program or library"));
        assert_eq!(binary(b"MZ is a fine start of a text"), None);
        assert_eq!(binary(b"MZ\0\0"), Some("Windows program"));
        assert_eq!(binary(b"a\0b"), Some("binary file"));
        assert_eq!(binary("gr\u{fc}n".as_bytes()), None);
    }
}
