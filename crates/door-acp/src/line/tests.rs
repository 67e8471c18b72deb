//! Lines as clients write them, and as they should not.

use std::path::PathBuf;

use super::*;
use agent_client_protocol_schema::v1::{NewSessionRequest, SetSessionModeRequest};
use tokio::io::BufReader;

async fn lines(input: &[u8]) -> Vec<String> {
    let mut input = BufReader::with_capacity(16, input);
    let mut lines = Vec::new();
    while let Some(line) = next(&mut input).await.unwrap() {
        lines.push(match line {
            Line::Text(text) => text,
            Line::Wrong(what) => format!("wrong: {what}"),
        });
    }
    lines
}

#[tokio::test]
async fn lines_are_read_over_chunks_and_blank_ones_passed_over() {
    let read = lines(b"{\"a\": \"a long line\"}\r\n\n  \n{}\nlast without an end").await;
    assert_eq!(read, ["{\"a\": \"a long line\"}\r", "{}", "last without an end"]);
    assert_eq!(lines(b"\xff\xfe\nok\n").await, ["wrong: the line is no UTF-8", "ok"]);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_passed_over_and_the_next_one_read() {
    let mut input = vec![b'x'; LINE_BYTES_MAX + 1];
    input.extend_from_slice(b"\nnext\n");
    assert_eq!(lines(&input).await, ["wrong: the line is longer than 32 MiB", "next"]);
    let mut input = vec![b'x'; LINE_BYTES_MAX];
    input.push(b'\n');
    assert_eq!(lines(&input).await.first().map(String::len), Some(LINE_BYTES_MAX));
}

#[test]
fn messages_are_told_apart() {
    let request = parse(r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"b":1}}"#).unwrap();
    let Message::Request { id, method, params } = request else { panic!("{request:?}") };
    assert_eq!((id, method.as_str(), params.get()), (RequestId::Number(7), "a", r#"{"b":1}"#));
    let told = parse(r#"{"jsonrpc":"2.0","method":"a"}"#).unwrap();
    assert!(matches!(told, Message::Notification { params, .. } if params.get() == "null"));
    let answer = parse(r#"{"jsonrpc":"2.0","id":"x","result":null}"#).unwrap();
    assert!(matches!(answer, Message::Response { id: RequestId::Str(_), result: Ok(_) }));
    let answer = parse(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#).unwrap();
    assert!(
        matches!(answer, Message::Response { result: Err(error), .. } if error.message == "no")
    );
}

#[test]
fn broken_messages_say_what_is_wrong() {
    for (text, code, what) in [
        ("nonsense", -32700, "the line is no JSON"),
        ("[]", -32600, "batches are not supported"),
        ("7", -32600, "a message is a JSON object"),
        (r#"{"id":1,"method":"a"}"#, -32600, "jsonrpc: expected"),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, -32600, "id: expected"),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600, "method: expected a text"),
        (r#"{"jsonrpc":"2.0"}"#, -32600, "method: is missing"),
    ] {
        let (_, error) = *parse(text).unwrap_err();
        assert_eq!(i32::from(error.code), code, "{text}");
        assert!(error.message.contains(what), "{text}: {}", error.message);
        assert!(!error.message.contains("nonsense"), "{}", error.message);
    }
}

#[test]
fn wrong_parameters_name_the_field() {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    let read = params::<NewSessionRequest>(&raw(r#"{"cwd": 7, "mcpServers": []}"#));
    assert!(read.unwrap_err().message.starts_with("cwd: invalid type"));
    let read = params::<SetSessionModeRequest>(&raw("null"));
    assert_eq!(read.unwrap_err().message, "params: missing field `sessionId`");
    let read = params::<NewSessionRequest>(&raw(r#"{"cwd": "/a", "mcpServers": null}"#)).unwrap();
    assert_eq!(read.cwd, PathBuf::from("/a"));
}

#[test]
fn lines_are_one_line() {
    let line = call(Some(&RequestId::Number(1)), "a", &"b\nc").unwrap();
    assert_eq!(
        &line[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":\"b\\nc\"}\n"
    );
    let line = error(&RequestId::Null, &Error::new(-1, "no")).unwrap();
    let text = std::str::from_utf8(&line).unwrap();
    assert_eq!(
        text,
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"no\"}}\n"
    );
}
