//! The examples of RFC 8785, as far as whole numbers go, and what is refused.

use super::*;

fn canonical(text: &str) -> String {
    write(&read(text).unwrap()).unwrap()
}

#[test]
fn strings_and_literals_are_those_of_the_rfc() {
    // The example of section 3.2.2, its numbers aside.
    let text = r#"{
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let expected =
        "{\"literals\":[null,true,false],\"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
    assert_eq!(canonical(text), expected);
    // The bytes of the same string in section 3.2.4.
    let bytes = canonical(text).into_bytes();
    let at = bytes.windows(4).position(|four| four == [0x22, 0xe2, 0x82, 0xac]).unwrap();
    let rest = [0x24, 0x5c, 0x75, 0x30, 0x30, 0x30, 0x66, 0x5c, 0x6e, 0x41, 0x27, 0x42];
    assert_eq!(bytes[at + 4..at + 16], rest);
}

#[test]
fn keys_are_sorted_by_their_utf_16_units() {
    // The example of section 3.2.3: the emoji's first unit is smaller than that of U+FB33.
    let text = r#"{
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\ud83d\ude00": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis"
    }"#;
    let expected = [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ];
    let written = canonical(text);
    let places: Vec<_> = expected.iter().map(|value| written.find(value).unwrap()).collect();
    assert!(places.is_sorted(), "{written}");
    // U+0080 is no control character to JSON: it stands for itself.
    assert!(written.contains("\"\u{80}\":\"Control\""), "{written}");
}

#[test]
fn every_control_character_has_the_escape_of_the_rfc() {
    let all: String = ('\0'..='\u{1f}').chain(['"', '\\', '/', '\u{7f}', '\u{2028}']).collect();
    let mut expected = String::new();
    for letter in all.chars() {
        match letter {
            '\u{8}' => expected.push_str("\\b"),
            '\t' => expected.push_str("\\t"),
            '\n' => expected.push_str("\\n"),
            '\u{c}' => expected.push_str("\\f"),
            '\r' => expected.push_str("\\r"),
            '"' => expected.push_str("\\\""),
            '\\' => expected.push_str("\\\\"),
            '\0'..='\u{1f}' => expected.push_str(&format!("\\u{:04x}", u32::from(letter))),
            other => expected.push(other),
        }
    }
    assert_eq!(write(&Value::String(all)).unwrap(), format!("\"{expected}\""));
}

#[test]
fn whole_numbers_are_written_as_every_reader_writes_them() {
    for (text, expected) in [
        ("0", "0"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("1e3", "1000"),
        ("1.0", "1"),
        ("-5", "-5"),
        // Appendix B: the largest and the smallest exact whole numbers.
        ("9007199254740991", "9007199254740991"),
        ("-9007199254740991", "-9007199254740991"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
    }
}

#[test]
fn what_readers_differ_about_is_refused() {
    for text in ["0.5", "1e400", "1e21", "9007199254740992", "-9007199254740992", "1e-7"] {
        assert!(read(text).and_then(|value| write(&value)).is_err(), "{text}");
    }
    for text in [r#"{"a":1,"a":1}"#, r#"{"b":[{"a":1,"\u0061":2}]}"#, r#""\ud800""#, "{} x", ""] {
        assert!(read(text).is_err(), "{text}");
    }
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    assert!(read(&deep).is_err());
}
