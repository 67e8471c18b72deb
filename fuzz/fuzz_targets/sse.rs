//! The streams of the four wires: no bytes of a server make a decoder panic, and how the network
//! cuts them changes nothing about what they say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::fuzzing::{self, Outcome};

const WIRES: [fn(&[&[u8]]) -> Outcome; 4] =
    [fuzzing::anthropic, fuzzing::openai_responses, fuzzing::openai_chat, fuzzing::gemini];

fuzz_target!(|data: &[u8]| {
    let some = data.len() % 13 + 2;
    for wire in WIRES {
        let whole = wire(&[data]);
        for size in [1, some] {
            let pieces: Vec<&[u8]> = data.chunks(size).collect();
            assert_eq!(wire(&pieces), whole, "in pieces of {size}");
        }
    }
});
