//! What a launcher of neurons is told and tells: no bytes make a reader panic or take much memory,
//! and whatever can be read is exactly what is written of it.
#![no_main]

use agent::neuron::{Answer, CodecError, Plan, Probe};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    same(data, Plan::decode(data), Plan::encode, Plan::decode);
    same(data, Answer::decode(data), Answer::encode, Answer::decode);
    same(data, Probe::decode(data), Probe::encode, Probe::decode);
});

fn same<T: PartialEq + std::fmt::Debug>(
    data: &[u8],
    read: Result<T, CodecError>,
    encode: fn(&T) -> Result<Vec<u8>, CodecError>,
    decode: fn(&[u8]) -> Result<T, CodecError>,
) {
    let Ok(value) = read else { return };
    let written = encode(&value).expect("it was short enough before");
    // There is one way to write each message.
    assert_eq!(written, data);
    assert_eq!(decode(&written), Ok(value));
}
