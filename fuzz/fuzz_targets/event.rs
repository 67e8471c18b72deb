//! Events from a log or a stream that somebody else wrote: no text makes a reader panic, and what
//! can be read comes back from what is written of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::{Event, EventBody, EventKind};

fuzz_target!(|text: &str| {
    if let Ok(event) = serde_json::from_str::<Event>(text) {
        let written = serde_json::to_string(&event).expect("what was JSON has a JSON form");
        let again: Event = serde_json::from_str(&written).expect("it was written just now");
        assert_eq!(again, event);
    }
    for kind in EventKind::ALL {
        if let Ok(body) = EventBody::decode(*kind, text) {
            assert_eq!(body.kind(), *kind);
            let written = body.encode().expect("what was JSON has a JSON form");
            let again = EventBody::decode(*kind, &written).expect("it was written just now");
            assert_eq!(again, body);
        }
    }
});
