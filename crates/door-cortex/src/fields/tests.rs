//! What is told about wrong fields.

use serde_json::json;

use super::*;

fn details(body: Value, read: impl FnOnce(&mut Fields)) -> Vec<(String, &'static str)> {
    let mut fields = Fields::of(Tree(body)).unwrap();
    read(&mut fields);
    fields.details.into_iter().map(|it| (it.path, it.code)).collect()
}

#[test]
fn a_text_has_its_limits_and_its_form() {
    let rule = TextRule::of(1, 3).that(is_word, "a word");
    for (value, code) in [
        (json!("abc"), None),
        (json!(""), Some("too_small")),
        (json!("abcd"), Some("too_big")),
        (json!("ä"), Some("invalid_format")),
        (json!(7), Some("invalid_type")),
        (json!(null), Some("invalid_type")),
    ] {
        let found = details(json!({"a": value}), |fields| {
            fields.text("a", &rule);
        });
        assert_eq!(found.first().map(|(_, code)| *code), code);
    }
    let letters = TextRule::of(1, 3);
    assert!(letters.check("äöü").is_ok() && letters.check("äöüä").is_err());
    let found = details(json!({}), |fields| drop(fields.needed_text("a", &rule)));
    assert_eq!(found, [("a".to_owned(), "invalid_type")]);
}

#[test]
fn a_number_is_whole_and_within() {
    for (value, expected) in [
        (json!(1), Ok(1)),
        (json!(3.0), Ok(3)),
        (json!(0), Err("too_small")),
        (json!(-1), Err("too_small")),
        (json!(9), Err("too_big")),
        (json!(1e300), Err("invalid_type")),
        (json!(1.5), Err("invalid_type")),
        (json!("1"), Err("invalid_type")),
        (json!(true), Err("invalid_type")),
    ] {
        let mut number = None;
        let found = details(json!({"n": value}), |fields| number = fields.whole("n", 1..=8));
        match expected {
            Ok(expected) => assert_eq!((number, found), (Some(expected), vec![])),
            Err(code) => assert_eq!(found, [("n".to_owned(), code)], "{value}"),
        }
    }
}

#[test]
fn all_faults_are_told_with_their_paths() {
    let body = json!({"a": {"b": 1, "c": 2}, "list": [1, "x"], "word": "z", "unknown": {}});
    let text = TextRule::of(1, 9);
    let found = details(body, |fields| {
        let object = fields.object("a").unwrap();
        fields.inside("a", object, |inner| {
            inner.text("b", &text);
            inner.inside("d", Map::new(), |deep| drop(deep.needed_text("e", &text)));
        });
        let items = fields.list("list", 1..=2).unwrap();
        for (place, item) in items.into_iter().enumerate() {
            fields.as_text(&format!("list.{place}"), item, &text);
        }
        fields.word("word", &[("x", 1), ("y", 2)]);
        fields.word_needed("other", &[("x", 1)]);
        fields.list_needed("none", 1..=2);
    });
    let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["a.b", "a.d.e", "list.0", "word", "other", "none"]);
}

#[test]
fn a_body_is_an_object() {
    for body in [json!(null), json!([]), json!("x"), json!(1)] {
        assert!(Fields::of(Tree(body)).is_err());
    }
}
