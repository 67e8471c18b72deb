//! First bytes of tunnels: nothing makes the reader panic, what is whole stays so whatever comes in
//! pieces, and a name that is let through is one that two readers agree on.
#![no_main]

use egress::fuzzing::{Hello, hello, target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let whole = hello(data);
    if let Hello::Whole(Some(name)) = &whole {
        assert!(name.is_ascii() && *name == name.to_ascii_lowercase(), "{name:?}");
        // What is no place is compared with none.
        if let Ok(place) = target(name, Some(443)) {
            assert_eq!(target(&place, None), Ok(place));
        }
    }
    // A reader that has seen less waits, or says the same.
    for length in [0, data.len() / 2, data.len().saturating_sub(1)] {
        match (&whole, hello(&data[..length])) {
            (Hello::Unfinished, part) => assert_eq!(part, Hello::Unfinished, "{length}"),
            (Hello::Whole(_), Hello::Unfinished) => {}
            (Hello::Whole(_), part) => assert_eq!(part, whole, "{length} of {}", data.len()),
            (Hello::Refused, _) => {}
        }
    }
});
