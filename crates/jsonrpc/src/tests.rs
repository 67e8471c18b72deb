//! Lines and messages, whole and broken.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::*;

/// The other side, in bytes.
struct Far {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Far {
    async fn says(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hears(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }
}

type Near = (Peer, Inbox<ReadHalf<DuplexStream>>);

fn connected() -> (Near, Far) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(near);
    let (peer, inbox, outbox) = open(reader, writer);
    #[allow(clippy::disallowed_methods, reason = "it ends with the test")]
    let _outbox = tokio::spawn(outbox.run());
    let (reader, writer) = tokio::io::split(far);
    ((peer, inbox), Far { lines: BufReader::new(reader).lines(), writer })
}

#[tokio::test]
async fn requests_go_both_ways() {
    let ((peer, mut inbox), mut far) = connected();
    far.says(r#"{"jsonrpc":"2.0","id":"a","method":"one","params":{"x":1}}"#).await;
    let call = inbox.next().await.unwrap();
    assert_eq!((call.method.as_str(), &call.params), ("one", &json!({"x": 1})));
    peer.answer(&call.id.unwrap(), Ok(json!(2))).await;
    assert_eq!(far.hears().await, json!({"jsonrpc": "2.0", "id": "a", "result": 2}));
    let asking = async { peer.call("two", &json!({}), None).await };
    let far_side = async {
        let asked = far.hears().await;
        assert_eq!(asked["method"], "two");
        far.says(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": "yes"}).to_string()).await;
        far.says(r#"{"jsonrpc":"2.0","method":"bye"}"#).await;
    };
    let (answer, (), call) = tokio::join!(asking, far_side, inbox.next());
    assert_eq!((answer.unwrap(), call.unwrap().method), (json!("yes"), "bye".to_owned()));
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_the_connection_goes_on() {
    let ((_peer, mut inbox), mut far) = connected();
    for (line, id, code) in [
        ("no JSON", Value::Null, -32700),
        ("\u{0}", Value::Null, -32700),
        ("[]", Value::Null, -32600),
        ("7", Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":"x"}"#, json!("x"), -32600),
        (r#"{"jsonrpc":"1.0","id":3,"method":"m"}"#, json!(3), -32600),
        (r#"{"jsonrpc":"2.0","id":3,"method":7}"#, json!(3), -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":3,"method":"m","params":7}"#, json!(3), -32600),
    ] {
        far.says(line).await;
        let heard = async { far.hears().await };
        let heard = tokio::select! {
            heard = heard => heard,
            call = inbox.next() => panic!("{line}: {call:?}"),
        };
        assert_eq!((&heard["id"], &heard["error"]["code"]), (&id, &json!(code)), "{line}");
    }
    far.says(r#"{"jsonrpc":"2.0","method":"m"}"#).await;
    assert_eq!(inbox.next().await.unwrap().method, "m");
}

#[tokio::test]
async fn a_line_that_is_too_long_is_passed_over() {
    let ((_peer, mut inbox), mut far) = connected();
    let writing = async {
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..33 {
            far.writer.write_all(&piece).await.unwrap();
        }
        far.says("").await;
        far.says(r#"{"jsonrpc":"2.0","method":"m"}"#).await;
        far.hears().await
    };
    let (heard, call) = tokio::join!(writing, inbox.next());
    assert_eq!((&heard["error"]["code"], call.unwrap().method), (&json!(-32700), "m".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn questions_end_late_refused_or_with_the_connection() {
    let ((peer, mut inbox), mut far) = connected();
    let limit = Some(Duration::from_secs(1));
    assert_eq!(peer.call("a", &json!({}), limit).await, Err(CallError::Late));
    let late = far.hears().await["id"].clone();
    far.says(&json!({"jsonrpc": "2.0", "id": late, "result": 1}).to_string()).await;
    let refusing = async {
        let id = far.hears().await["id"].clone();
        let error = json!({"code": -1, "message": "no"});
        far.says(&json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()).await;
        far
    };
    let nothing = json!({});
    let asking = peer.call("b", &nothing, None);
    let (answer, far) = tokio::select! {
        both = async { tokio::join!(asking, refusing) } => both,
        call = inbox.next() => panic!("{call:?}"),
    };
    assert_eq!(answer, Err(CallError::Refused(ErrorObject::new(-1, "no"))));
    let asking = peer.call("c", &nothing, None);
    let ending = async {
        drop(far);
        inbox.next().await
    };
    let (answer, call) = tokio::join!(asking, ending);
    assert_eq!((answer, call.is_none()), (Err(CallError::Gone), true));
    assert!(peer.is_gone());
}

#[tokio::test]
async fn what_waits_is_written_before_the_end() {
    let ((peer, mut inbox), mut far) = connected();
    for number in 0..20 {
        peer.notify("n", &json!({"number": number})).await.unwrap();
    }
    peer.close();
    assert!(inbox.next().await.is_none());
    for number in 0..20 {
        assert_eq!(far.hears().await["params"]["number"], number);
    }
    assert_eq!(far.lines.next_line().await.unwrap(), None);
}
