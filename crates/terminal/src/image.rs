//! Images as attachments.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::Image;

/// How many attachments a prompt may have.
pub const ATTACHMENTS_MAX: usize = 20;
/// How large an image may be; twice what most providers take.
const IMAGE_BYTES_MAX: u64 = 10 << 20;

/// Reads an image file and tells its kind by its first bytes.
///
/// # Errors
/// A sentence for people when it cannot be read, is too large, or is of another kind.
pub fn read(path: &Path) -> Result<Image, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("read image {shown}: {error}"))?;
    let mut bytes = Vec::new();
    let read = file.take(IMAGE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("read image {shown}: {error}"))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > IMAGE_BYTES_MAX) {
        let limit = stdx::bytes(IMAGE_BYTES_MAX);
        return Err(format!("image {shown} is larger than the limit of {limit}"));
    }
    let Some(mime_type) = kind(&bytes) else {
        return Err(format!("{shown} is not a png, jpeg, gif or webp image"));
    };
    Ok(Image { mime_type: mime_type.to_owned(), data: STANDARD.encode(&bytes) })
}

fn kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_told_by_the_bytes_and_not_by_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picture.txt");
        std::fs::write(&path, b"\x89PNG\r\n\x1a\nrest").unwrap();
        assert_eq!(read(&path).unwrap().mime_type, "image/png");
        std::fs::write(&path, b"just words").unwrap();
        assert!(read(&path).unwrap_err().contains("is not a png"));
    }
}
