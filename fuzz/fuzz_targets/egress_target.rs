//! Places that a neuron asks for: no text makes the reader panic, what is read has one spelling,
//! and that spelling is what it is for the guard of outbound requests too.
#![no_main]

use egress::fuzzing::target;
use libfuzzer_sys::fuzz_target;
use outbound::Url;

fuzz_target!(|text: &str| {
    let Ok(spelling) = target(text, Some(80)) else { return };
    assert_eq!(target(&spelling, None).as_ref(), Ok(&spelling), "{text:?}");
    assert!(!spelling.contains(['@', '/', '%', ' ', '\\']), "{text:?}: {spelling:?}");
    let url = Url::parse(&format!("http://{spelling}/")).expect("a place has a url");
    let host = url.host_str().expect("it has a host");
    let port = url.port_or_known_default().expect("it has a port");
    assert_eq!(format!("{host}:{port}"), spelling, "{text:?}");
});
