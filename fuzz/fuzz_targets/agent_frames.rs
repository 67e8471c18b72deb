//! The frames between the workspace and its agent: no bytes make a reader panic, and what can be
//! read comes back from what is written of it.
#![no_main]

use agent::wire::{HEADER_LEN, Header, Reply, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(Some(header)) = Header::parse(rest) {
        let fields = &rest[HEADER_LEN..];
        // A reader waits for the missing bytes; here the frame ends with them.
        let (payload, after) = fields.split_at(header.len.min(fields.len()));
        rest = after;
        let mut written = Vec::new();
        if let Ok(request) = Request::decode(header.kind, payload) {
            request.encode(header.id, &mut written).expect("it fitted a frame before");
            let (again, payload) = open(&written);
            assert_eq!(again.id, header.id);
            assert_eq!(Request::decode(again.kind, payload), Ok(request));
        }
        written.clear();
        if let Ok(reply) = Reply::decode(header.kind, payload) {
            reply.encode(header.id, &mut written).expect("it fitted a frame before");
            let (again, payload) = open(&written);
            assert_eq!(again.id, header.id);
            assert_eq!(Reply::decode(again.kind, payload), Ok(reply));
        }
    }
});

/// Cuts one whole frame into its header and its fields.
fn open(frame: &[u8]) -> (Header, &[u8]) {
    let header = Header::parse(frame).expect("it is short enough").expect("it has a header");
    let payload = &frame[HEADER_LEN..];
    assert_eq!(payload.len(), header.len);
    (header, payload)
}
