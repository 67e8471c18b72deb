//! Frames and what is left of them when bytes are lost or changed.

use super::*;
use crate::files::Kind;

const FACTS: Facts = Facts { kind: Kind::File, size: 7, mode: 0o4755, modified_ns: -3 };

fn target(root: Option<&str>) -> Target {
    Target { real: "/a/b".into(), root: root.map(PathBuf::from) }
}

fn requests() -> Vec<Request<'static>> {
    let from = Locator {
        cwd: "/a".into(),
        roots: vec!["/a".into(), OsString::from_vec(b"/\xff".to_vec()).into()],
        home: None,
    };
    vec![
        Request::Locate {
            from: Locator { home: Some("/h".into()), ..from.clone() },
            path: "~/x".into(),
        },
        Request::Locate { from, path: String::new() },
        Request::Read { file: target(Some("/a")), limit: u64::MAX },
        Request::Write { file: target(None), mode: Some(0o600), bytes: b"\0text" },
        Request::Write { file: target(None), mode: None, bytes: b"" },
        Request::Remove { file: target(Some("/")) },
        Request::List { folder: target(None), limit: 3 },
    ]
}

fn replies() -> Vec<Reply> {
    let entry = Entry { name: OsString::from_vec(b"\xfe".to_vec()), facts: FACTS };
    let text = || "text".to_owned();
    vec![
        Reply::Hello { version: VERSION },
        Reply::Located(target(Some("/a")), Some(FACTS)),
        Reply::Located(target(None), None),
        Reply::Contents(FACTS, b"bytes".to_vec()),
        Reply::Written(Facts { kind: Kind::Other, ..FACTS }),
        Reply::Removed,
        Reply::Listed(Listing { entries: vec![entry], is_cut: true }),
        Reply::Refused(FileError::NotFound(text())),
        Reply::Refused(FileError::Unfit(text())),
        Reply::Refused(FileError::Forbidden(text())),
        Reply::Refused(FileError::Raced(text())),
        Reply::Refused(FileError::Failed(text())),
        Reply::Refused(FileError::TooLarge { path: text(), size: 9, limit: 8 }),
    ]
}

fn cut(bytes: &[u8]) -> (Header, &[u8]) {
    let (header, payload) = bytes.split_first_chunk::<HEADER_LEN>().unwrap();
    let header = Header::parse(*header).unwrap();
    assert_eq!(header.len, payload.len());
    (header, payload)
}

#[test]
fn what_is_written_is_read() {
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(&mut bytes).unwrap();
        let (header, payload) = cut(&bytes);
        assert_eq!(Request::decode(header.kind, payload), Ok(request));
    }
    for reply in replies() {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes).unwrap();
        let (header, payload) = cut(&bytes);
        assert_eq!(Reply::decode(header.kind, payload), Ok(reply));
    }
}

/// A frame that was cut off is refused or is another one (a shorter body), and never a panic.
#[test]
fn every_cut_and_every_changed_byte_is_survived() {
    let mut frames = Vec::new();
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(&mut bytes).unwrap();
        frames.push(bytes);
    }
    for reply in replies() {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes).unwrap();
        frames.push(bytes);
    }
    for frame in frames {
        let (header, payload) = cut(&frame);
        for end in 0..payload.len() {
            drop(Request::decode(header.kind, &payload[..end]));
            drop(Reply::decode(header.kind, &payload[..end]));
            let mut changed = payload.to_vec();
            changed[end] ^= 0xff;
            drop(Request::decode(header.kind, &changed));
            drop(Reply::decode(header.kind, &changed));
        }
        let mut longer = payload.to_vec();
        longer.push(0);
        let has_body = matches!(header.kind, WRITE | CONTENTS);
        let is_refused = Request::decode(header.kind, &longer).is_err()
            && Reply::decode(header.kind, &longer).is_err();
        assert_eq!(is_refused, !has_body, "kind {:#04x}", header.kind);
    }
}

#[test]
fn a_lie_about_a_length_takes_no_memory() {
    let mut listed = vec![0];
    listed.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Reply::decode(LISTED, &listed), Err(WireError::Malformed(LISTED)));
    let mut located = vec![0, 0, 0, 0];
    located.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Request::decode(LOCATE, &located), Err(WireError::Malformed(LOCATE)));
    let long = u32::try_from(FRAME_MAX + 1).unwrap().to_le_bytes();
    let header = [long[0], long[1], long[2], long[3], READ];
    assert_eq!(Header::parse(header), Err(WireError::TooLong(FRAME_MAX + 1)));
}
