//! Requests for `http://`.

use driver_api::EgressRule;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::house::{House, allow, fine, head, rule, say, status};

#[tokio::test]
async fn hosts_ports_and_methods_are_let_through_or_not() {
    let mut house = House::new();
    house.serve("a.example", 80, fine).await;
    house.serve("deep.b.example", 8080, fine).await;
    let mut egress = allow(&["a.example"]);
    egress.allow.push(EgressRule {
        port: Some(8080),
        methods: vec!["GET".to_owned()],
        ..rule("*.b.example")
    });
    let entrance = house.open(&egress);
    let deny = "is not in the allow list of this neuron";
    for (request, expected, part) in [
        ("GET http://a.example/", 200, "fine"),
        ("DELETE http://A.EXAMPLE.:80/x", 200, "fine"),
        ("GET http://deep.b.example:8080/", 200, "fine"),
        ("GET http://c.example/", 403, deny),
        ("GET http://a.example.evil.example/", 403, deny),
        ("GET http://b.example:8080/", 403, deny),
        ("GET http://93.184.215.14/", 403, deny),
        ("GET http://a.example:8080/", 403, "the port 8080 is not allowed for a.example"),
        ("GET http://deep.b.example/", 403, "(allowed: 8080)"),
        ("POST http://deep.b.example:8080/", 403, "the method POST is not allowed"),
        ("TRACE http://a.example/", 403, "never"),
        ("GET /x", 400, "ask for a whole address"),
        ("OPTIONS *", 400, "ask for a whole address"),
        ("GET https://a.example/", 400, "CONNECT"),
        ("GET ftp://a.example/", 400, "only http://"),
        ("GET http://user:pass@a.example/", 400, "password"),
        ("GET http://[::1/", 400, ""),
    ] {
        let before = house.record.all().len();
        let text = format!("{request} HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n");
        let answer = entrance.say(&text).await;
        assert_eq!(status(&answer), expected, "{request}: {answer}");
        assert!(answer.contains(part), "{request}: {answer}");
        let events = house.record.wait(before + 1).await;
        let event = &events[before];
        assert_eq!(event.refused.is_some(), expected != 200, "{request}: {event:?}");
        assert_eq!(event.status, Some(expected), "{request}: {event:?}");
        assert_eq!(event.neuron.as_str(), "nr_test");
    }
    let events = house.record.all();
    let first = &events[0];
    assert_eq!((first.method.as_str(), first.host.as_str(), first.port), ("GET", "a.example", 80));
    assert_eq!(first.address, Some("93.184.215.14".parse().unwrap()));
    assert!(!first.has_credential);
    assert_eq!(house.dialled().len(), 3, "{:?}", house.dialled());
}

#[tokio::test]
async fn the_server_is_told_what_concerns_it() {
    let mut house = House::new();
    house.serve("a.example", 80, fine).await;
    let entrance = house.open(&allow(&["a.example"]));
    let answer = entrance
        .say(
            "POST http://a.example/p/q?x=%2F&y HTTP/1.1\r\n\
             host: other.example\r\nhost: third.example\r\n\
             connection: close, x-private\r\nx-private: 1\r\nproxy-authorization: Basic eA==\r\n\
             proxy-connection: keep-alive\r\nte: trailers\r\nexpect: 100-continue\r\n\
             authorization: own\r\ncontent-length: 5\r\n\r\nhello",
        )
        .await;
    assert!(answer.contains("fine"), "{answer}");
    let heard = house.heard().remove(0).to_ascii_lowercase();
    let (head, body) = heard.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<&str> = head.lines().collect();
    lines.sort_unstable();
    let expected = [
        "authorization: own",
        "content-length: 5",
        "host: a.example",
        "post /p/q?x=%2f&y http/1.1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(body, "hello");
}

#[tokio::test]
async fn a_chunked_body_and_a_body_without_a_length_pass() {
    let mut house = House::new();
    let unframed: fn(&str) -> Vec<u8> = |_| b"HTTP/1.0 200 OK\r\n\r\nup to the end".to_vec();
    house.serve("a.example", 80, unframed).await;
    let entrance = house.open(&allow(&["a.example"]));
    let answer = entrance
        .say(
            "PUT http://a.example HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\
             transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nx-trailer: 1\r\n\r\n",
        )
        .await;
    assert!(answer.contains("up to the end"), "{answer}");
    let heard = house.heard().remove(0);
    assert!(heard.starts_with("PUT / HTTP/1.1\r\n"), "{heard}");
    assert!(heard.contains("abc") && heard.contains("de"), "{heard}");
    assert!(!heard.contains("x-trailer"), "{heard}");
}

#[tokio::test]
async fn a_large_body_streams_through() {
    /// More than all buffers on the way together.
    const LENGTH: usize = 8 << 20;
    let mut house = House::new();
    let large: fn(&str) -> Vec<u8> = |_| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
        [head.as_bytes(), &vec![b'x'; LENGTH]].concat()
    };
    house.serve("a.example", 80, large).await;
    let entrance = house.open(&allow(&["a.example"]));
    let answer = entrance.get("http://a.example/").await;
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(body.len(), LENGTH);
}

#[tokio::test]
async fn a_head_tells_the_length_and_a_redirect_is_not_followed() {
    let mut house = House::new();
    let moved: fn(&str) -> Vec<u8> = |_| {
        b"HTTP/1.1 302 Elsewhere\r\nlocation: http://b.example/\r\ncontent-length: 7\r\n\
          keep-alive: x\r\nconnection: x-hop\r\nx-hop: 1\r\n\r\n"
            .to_vec()
    };
    house.serve("a.example", 80, moved).await;
    house.serve("b.example", 80, fine).await;
    let entrance = house.open(&allow(&["a.example", "b.example"]));
    let request = "HEAD http://a.example/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = entrance.say(request).await;
    assert_eq!(status(&answer), 302);
    assert!(answer.contains("location: http://b.example/"), "{answer}");
    assert!(answer.contains("content-length: 7"), "{answer}");
    assert!(!answer.contains("keep-alive") && !answer.contains("x-hop"), "{answer}");
    assert_eq!(house.heard().len(), 1);
}

#[tokio::test]
async fn one_connection_carries_requests_for_several_hosts() {
    let mut house = House::new();
    house.serve("a.example", 80, fine).await;
    house.serve("b.example", 80, fine).await;
    let entrance = house.open(&allow(&["a.example", "b.example"]));
    let mut stream = entrance.stream().await;
    for (host, expected) in [("a", 200), ("c", 403), ("b", 200), ("a", 200)] {
        let request = format!("GET http://{host}.example/ HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = head(&mut stream).await;
        assert_eq!(status(&head), expected);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
    }
    let asked: Vec<_> = house.record.all().into_iter().map(|event| event.host).collect();
    assert_eq!(asked, ["a.example", "c.example", "b.example", "a.example"]);
    assert_eq!(house.dialled().len(), 3, "each request has a connection of its own");
}

#[tokio::test]
async fn what_is_no_request_is_answered_and_recorded() {
    let house = House::new();
    let entrance = house.open(&allow(&["a.example"]));
    let long = format!("GET http://a.example/ HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(40 << 10));
    let many = format!("GET http://a.example/ HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(150));
    let two = "POST http://a.example/ HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n";
    for (at, (request, expected)) in [
        ("rubbish\r\n\r\n", 400),
        ("GET http://a.example/ HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (two, 400),
        (long.as_str(), 431),
        (many.as_str(), 431),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = entrance.say(request).await;
        assert_eq!(status(&answer), expected, "{request:.60}");
        let events = house.record.wait(at + 1).await;
        let refused = events[at].refused.as_deref().unwrap_or_default();
        assert!(refused.contains("cannot be read"), "{refused}");
    }
    assert!(house.dialled().is_empty());
}

#[tokio::test]
async fn servers_that_are_not_there_or_break_are_told_of() {
    let mut house = House::new();
    house.names.add("down.example", &[&["93.184.215.99"]]);
    house.serve("rubbish.example", 80, |_| b"SSH-2.0-x\r\n\r\n".to_vec()).await;
    house.serve("mute.example", 80, |_| Vec::new()).await;
    let switching: fn(&str) -> Vec<u8> =
        |_| b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n".to_vec();
    house.serve("switch.example", 80, switching).await;
    let entrance = house.open(&allow(&["*.example"]));
    for (host, part) in [
        ("down.example", "connect to down.example:80: "),
        ("unknown.example", "look up unknown.example: no such name"),
        ("rubbish.example", "the connection to rubbish.example:80 broke"),
        ("mute.example", "the connection to mute.example:80 broke"),
        ("switch.example", "switch.example:80 switched protocols unasked"),
    ] {
        let before = house.record.all().len();
        let answer = entrance.get(&format!("http://{host}/")).await;
        assert_eq!(status(&answer), 502, "{answer}");
        assert!(answer.contains(part), "{answer}");
        let event = house.record.wait(before + 1).await.remove(before);
        assert!(event.refused.unwrap().contains(part));
        assert_eq!(event.status, Some(502));
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_is_not_taken_for_whole() {
    let mut house = House::new();
    let cut: fn(&str) -> Vec<u8> = |_| b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfour".to_vec();
    house.serve("a.example", 80, cut).await;
    let entrance = house.open(&allow(&["a.example"]));
    let mut stream = entrance.stream().await;
    let answer = say(&mut stream, "GET http://a.example/ HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.contains("content-length: 9"), "{answer}");
    assert!(!answer.contains("fourfive"), "{answer}");
}
