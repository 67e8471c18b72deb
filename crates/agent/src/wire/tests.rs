//! Every frame comes back as it left, and no bytes make the reader do worse than refuse.

use super::*;

fn requests() -> Vec<Request> {
    let spawn = Spawn {
        argv: vec![b"bash".to_vec(), b"-c".to_vec(), b"printf '\xff'".to_vec()],
        cwd: b"/tmp/\xf0".to_vec(),
        env: vec![b"A=b".to_vec(), Vec::new()],
        stdin: b"in\0\xff".to_vec(),
    };
    vec![
        Request::Spawn(spawn),
        Request::Kill { grace_ms: 2_000 },
        Request::Credit { bytes: u32::MAX },
    ]
}

fn replies() -> Vec<Reply> {
    let ended = |status| Reply::Ended(Ended { status, leftovers: 3, killed: true, survivors: 1 });
    vec![
        Reply::Hello { version: VERSION },
        Reply::Started { pid: 7 },
        Reply::Failed { step: Step::Folder, errno: 2 },
        Reply::Failed { step: Step::Program, errno: -1 },
        Reply::Failed { step: Step::Launch, errno: 11 },
        Reply::Output { stream: Stream::Stdout, bytes: b"out".to_vec() },
        Reply::Output { stream: Stream::Stderr, bytes: Vec::new() },
        ended(Status::Code(-7)),
        ended(Status::Signal(11)),
        Reply::Lost,
    ]
}

#[test]
fn requests_come_back() {
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(9, &mut bytes).unwrap();
        let header = Header::parse(&bytes).unwrap().unwrap();
        assert_eq!((header.id, header.len), (9, bytes.len() - HEADER_LEN));
        assert_eq!(Request::decode(header.kind, &bytes[HEADER_LEN..]), Ok(request));
    }
}

#[test]
fn replies_come_back() {
    for reply in replies() {
        let mut bytes = Vec::new();
        reply.encode(u32::MAX, &mut bytes).unwrap();
        let header = Header::parse(&bytes).unwrap().unwrap();
        assert_eq!((header.id, header.len), (u32::MAX, bytes.len() - HEADER_LEN));
        assert_eq!(Reply::decode(header.kind, &bytes[HEADER_LEN..]), Ok(reply));
    }
}

#[test]
fn cut_and_padded_frames_are_refused() {
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(1, &mut bytes).unwrap();
        let kind = bytes[4];
        for end in HEADER_LEN..bytes.len() {
            let cut = Request::decode(kind, &bytes[HEADER_LEN..end]);
            assert_eq!(cut, Err(WireError::Malformed(kind)), "{request:?} cut at {end}");
        }
        bytes.push(0);
        assert_eq!(Request::decode(kind, &bytes[HEADER_LEN..]), Err(WireError::Malformed(kind)));
    }
}

#[test]
fn a_count_that_lies_takes_no_memory() {
    let payload = [0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0];
    assert_eq!(Request::decode(SPAWN, &payload), Err(WireError::Malformed(SPAWN)));
}

#[test]
fn a_frame_over_the_limit_is_not_written() {
    let mut bytes = b"before".to_vec();
    let reply = Reply::Output { stream: Stream::Stdout, bytes: vec![0; FRAME_MAX] };
    assert_eq!(reply.encode(1, &mut bytes), Err(WireError::TooLong(FRAME_MAX + 1)));
    assert_eq!(bytes, b"before");
}

#[test]
fn more_input_than_the_limit_is_neither_written_nor_read() {
    let spawn = |len| Spawn {
        argv: vec![b"cat".to_vec()],
        cwd: b"/".to_vec(),
        env: Vec::new(),
        stdin: vec![7; len],
    };
    let mut bytes = Vec::new();
    let refused = Err(WireError::InputTooLong(STDIN_MAX + 1));
    assert_eq!(Request::Spawn(spawn(STDIN_MAX + 1)).encode(1, &mut bytes), refused);
    assert_eq!(bytes, b"");
    Request::Spawn(spawn(STDIN_MAX)).encode(1, &mut bytes).unwrap();
    let fields = &bytes[HEADER_LEN..];
    assert_eq!(Request::decode(SPAWN, fields), Ok(Request::Spawn(spawn(STDIN_MAX))));
    // The same frame with one byte more, as another program might write it.
    let mut longer = fields[..fields.len() - STDIN_MAX - 4].to_vec();
    put_bytes(&mut longer, &[7; STDIN_MAX + 1]);
    assert_eq!(Request::decode(SPAWN, &longer), refused.map(|()| Request::Credit { bytes: 0 }));
}

#[test]
fn a_header_over_the_limit_is_refused() {
    let bytes = [0xff, 0xff, 0xff, 0xff, OUTPUT, 0, 0, 0, 0];
    assert_eq!(Header::parse(&bytes), Err(WireError::TooLong(u32::MAX as usize)));
    assert_eq!(Header::parse(&bytes[..8]), Ok(None));
}

#[test]
fn unknown_kinds_are_refused() {
    assert_eq!(Request::decode(0x7f, &[]), Err(WireError::Unknown(0x7f)));
    assert_eq!(Reply::decode(0x7f, &[]), Err(WireError::Unknown(0x7f)));
}
