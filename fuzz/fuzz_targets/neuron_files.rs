//! The frames between narthex and the file service of a neuron: no bytes make a reader panic, and
//! what can be read comes back from what is written of it.
#![no_main]

use agent::files::wire::{HEADER_LEN, Header, Reply, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Some((head, fields)) = rest.split_first_chunk::<HEADER_LEN>() {
        let Ok(header) = Header::parse(*head) else { return };
        // A reader waits for the missing bytes; here the frame ends with them.
        let (payload, after) = fields.split_at(header.len.min(fields.len()));
        rest = after;
        let mut written = Vec::new();
        if let Ok(request) = Request::decode(header.kind, payload) {
            request.encode(&mut written).expect("it fitted a frame before");
            let (kind, payload) = open(&written);
            assert_eq!(Request::decode(kind, payload), Ok(request));
        }
        written.clear();
        if let Ok(reply) = Reply::decode(header.kind, payload) {
            reply.encode(&mut written).expect("it fitted a frame before");
            let (kind, payload) = open(&written);
            assert_eq!(Reply::decode(kind, payload), Ok(reply));
        }
    }
});

/// Cuts one whole frame into its kind and its fields.
fn open(frame: &[u8]) -> (u8, &[u8]) {
    let (head, payload) = frame.split_first_chunk::<HEADER_LEN>().expect("it has a header");
    let header = Header::parse(*head).expect("it is short enough");
    assert_eq!(payload.len(), header.len);
    (header.kind, payload)
}
