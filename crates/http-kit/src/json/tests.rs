//! Bodies of every wrong kind, and what they are told.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{FromRequest, OptionalFromRequest, Request};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;

use super::{Json, MESSAGE_CHARS_MAX};
use crate::Problem;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Order {
    #[serde(default)]
    item_name: String,
    #[serde(default)]
    sizes: Vec<u8>,
    #[serde(default)]
    mode: Option<Mode>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Fast,
    Slow,
}

fn request(kind: Option<&str>, body: impl Into<Body>) -> Request {
    let mut request = Request::new(body.into());
    if let Some(kind) = kind {
        request.headers_mut().insert("content-type", kind.parse().unwrap());
    }
    request
}

async fn take(request: Request) -> Result<Order, Problem> {
    <Json<Order, 100> as FromRequest<()>>::from_request(request, &()).await.map(|json| json.0)
}

async fn refusal(kind: Option<&str>, body: impl Into<Body>) -> (u16, &'static str, String) {
    let problem = take(request(kind, body)).await.unwrap_err();
    (problem.status.as_u16(), problem.code, problem.message)
}

const JSON: Option<&str> = Some("application/json");

#[tokio::test]
async fn json_is_taken_with_any_parameters() {
    for kind in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"; v=1",
        "application/json ; profile=x",
    ] {
        let order = take(request(Some(kind), r#"{"itemName":"tea","mode":"slow"}"#)).await;
        let order = order.unwrap_or_else(|problem| panic!("{kind}: {problem:?}"));
        assert_eq!((order.item_name.as_str(), order.mode), ("tea", Some(Mode::Slow)));
    }
}

#[tokio::test]
async fn other_media_types_are_refused_before_anything_is_read() {
    for kind in [
        None,
        Some(""),
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("application/problem+json"),
        Some("application/jsonp"),
        Some("application/json; charset=latin1"),
        Some("text/plain; x=application/json"),
    ] {
        let (status, code, _) = refusal(kind, "{ broken and far too long".repeat(20)).await;
        assert_eq!((status, code), (415, "unsupported_media_type"), "{kind:?}");
    }
    let mut two = request(JSON, "{}");
    two.headers_mut().append("content-type", "text/plain".parse().unwrap());
    assert_eq!(take(two).await.unwrap_err().code, "unsupported_media_type");
}

#[tokio::test]
async fn the_size_comes_before_the_content() {
    let (status, code, message) = refusal(JSON, "{".repeat(101)).await;
    assert_eq!((status, code), (413, "payload_too_large"));
    assert!(message.contains("100 bytes"), "{message}");
    let pieces = stream::iter(vec![Ok::<_, Infallible>(Bytes::from_static(b"{{{{{{{{{{")); 11]);
    let (status, ..) = refusal(JSON, Body::from_stream(pieces)).await;
    assert_eq!(status, 413, "also where the size is not announced");
    let fitting = format!("{:100}", "{}");
    assert!(take(request(JSON, fitting)).await.is_ok(), "100 bytes are not over the limit");
}

#[tokio::test]
async fn messages_begin_with_the_field() {
    for (body, begins) in [
        (r#"{"itemName":7}"#, "itemName: invalid type: integer `7`, expected a string"),
        (r#"{"sizes":[1,2,300]}"#, "sizes[2]: invalid value"),
        (r#"{"mode":"reckless"}"#, "mode: unknown variant `reckless`, expected `fast` or `slow`"),
        (r#"{"itemname":"x"}"#, "itemname: unknown field `itemname`, expected one of `itemName`"),
        (r#""text""#, "the body: invalid type: string \"text\""),
        ("null", "the body: invalid type: null"),
        ("{", "the body is no JSON: EOF"),
        ("{} {}", "the body is no JSON: trailing characters"),
        ("nonsense", "the body is no JSON"),
    ] {
        let (status, code, message) = refusal(JSON, body).await;
        assert_eq!((status, code), (400, "validation_error"), "{body}");
        assert!(message.starts_with(begins), "{body}: {message}");
        assert!(!message.contains(" at line ") || message.contains("no JSON"), "{message}");
    }
    let (status, code, message) = refusal(JSON, Bytes::from_static(b"\xff\xfe{}")).await;
    assert_eq!((status, code), (400, "validation_error"));
    assert!(message.contains("not UTF-8, from byte 0"), "{message}");
}

#[tokio::test]
async fn a_message_does_not_grow_with_the_body() {
    let body = format!(r#"{{"mode":"{}"}}"#, "ü".repeat(2_000));
    let taken = <Json<Order, 10_000> as FromRequest<()>>::from_request(request(JSON, body), &());
    let message = taken.await.unwrap_err().message;
    assert_eq!(message.chars().count(), MESSAGE_CHARS_MAX + 1);
}

#[tokio::test]
async fn a_body_may_be_absent_only_where_it_is_optional() {
    for kind in [None, JSON] {
        let (status, code, message) = refusal(kind, Body::empty()).await;
        assert_eq!((status, code), (400, "validation_error"));
        assert!(message.contains("missing"), "{message}");
        let optional = <Json<Order, 100> as OptionalFromRequest<()>>::from_request;
        assert!(optional(request(kind, Body::empty()), &()).await.unwrap().is_none());
    }
    let optional = <Json<Order, 100> as OptionalFromRequest<()>>::from_request;
    assert!(optional(request(JSON, "{}"), &()).await.unwrap().is_some());
    assert!(optional(request(JSON, "{"), &()).await.is_err());
    assert!(optional(request(None, "{}"), &()).await.is_err());
    let nothing = Body::from_stream(stream::empty::<Result<Bytes, std::io::Error>>());
    assert!(optional(request(JSON, nothing), &()).await.unwrap().is_none());
}

/// A body that checks itself.
#[derive(Debug)]
struct Own;

impl<'de> Deserialize<'de> for Own {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let what = String::deserialize(deserializer)?;
        if what.is_empty() { Ok(Self) } else { Err(serde::de::Error::custom(what)) }
    }
}

#[tokio::test]
async fn a_body_that_checks_itself_names_the_field_alone() {
    for (said, expected) in [
        ("answer.mode: unknown", "answer.mode: unknown"),
        ("items[2].name: is blank", "items[2].name: is blank"),
        ("no good: at all", "the body: no good: at all"),
        ("no good", "the body: no good"),
        (": no good", "the body: : no good"),
    ] {
        let request = request(JSON, format!("{said:?}"));
        let problem = <Json<Own, 100> as FromRequest<()>>::from_request(request, &()).await;
        assert_eq!(problem.unwrap_err().message, expected);
    }
}
