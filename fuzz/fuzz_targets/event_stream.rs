//! Event streams: no bytes make the decoder panic, cuts of the network change nothing, and what the
//! server's writer wrote comes back as it was.
#![no_main]

use http_kit::sse::frame;
use libfuzzer_sys::fuzz_target;
use outbound::sse::{Decoder, Event};

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Event>, Option<Event>) {
    let (mut decoder, mut events) = (Decoder::default(), Vec::new());
    for piece in pieces {
        decoder.push(piece, &mut events).expect("no input is as long as the limit");
    }
    let rest = decoder.rest();
    (events, rest)
}

fuzz_target!(|data: &[u8]| {
    let whole = decode(std::iter::once(data));
    for size in [1, data.len() % 13 + 2] {
        assert_eq!(decode(data.chunks(size)), whole, "in pieces of {size}");
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (id, text) = text.split_once('\n').unwrap_or(("", text));
    // The writer drops what would end a field; a carriage return in data ends a line.
    let is_plain = |text: &str| !text.contains(['\r', '\0']);
    if !is_plain(id) || !is_plain(text) {
        return;
    }
    let written = frame(Some(id), "some_event", text);
    let (events, rest) = decode(std::iter::once(&*written));
    // The first line of a stream may begin with a mark that is no part of it; here none does.
    let expected =
        Event { id: Some(id.to_owned()), name: "some_event".to_owned(), data: text.to_owned() };
    assert_eq!((events, rest), (vec![expected], None));
});
