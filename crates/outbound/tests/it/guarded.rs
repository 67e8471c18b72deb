//! What is reached and what is not.

use std::net::IpAddr;
use std::sync::Arc;

use outbound::{AddressClass, Client, Error, HeaderValue, Options, StatusCode, classify, header};
use proptest::prelude::*;

use crate::net::{Names, Net, PUBLIC, Spy, ok, to};

fn class(error: Error) -> AddressClass {
    match error {
        Error::Blocked(blocked) => blocked.class,
        other => panic!("blocked, not {other}"),
    }
}

#[tokio::test]
async fn a_public_page_is_fetched_from_the_address_that_was_checked() {
    let mut net = Net::default();
    net.serve("8.8.8.8:80", |_| ok("hello")).await;
    net.names.add("a.example", &[&[PUBLIC]]);
    let response = net.client().get("http://a.example/x?y=1#z").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.url().as_str(), "http://a.example/x?y=1");
    assert_eq!(response.bytes().await.unwrap(), b"hello");
    assert_eq!(net.dialled(), ["8.8.8.8:80"]);
    let head = net.heads().remove(0);
    assert!(head.starts_with("GET /x?y=1 HTTP/1.1\r\n"), "{head}");
    for line in ["host: a.example", "accept-encoding: identity", "accept: */*"] {
        assert!(head.lines().any(|own| own == line), "{line} in {head}");
    }
}

#[tokio::test]
async fn a_server_of_this_machine_is_reached_by_setting_on_its_port_alone() {
    let mut net = Net::default();
    let (inner, other) = (net.listen(|_| ok("inner")).await, net.listen(|_| ok("other")).await);
    let options = Options { allow: vec![inner.to_string().parse().unwrap()], ..Options::default() };
    let client = Client::new(options).unwrap();
    let got = client.get(&format!("http://{inner}/")).send().await.unwrap();
    assert_eq!(got.bytes().await.unwrap(), b"inner");
    let got = client.get(&format!("http://{other}/")).send().await;
    assert_eq!(class(got.unwrap_err()), AddressClass::Loopback);
    assert_eq!(net.heads().len(), 1);
}

#[tokio::test]
async fn names_that_lead_inside_are_refused_before_anything_is_dialled() {
    let net = Net::default();
    for (address, expected) in [
        ("127.0.0.1", AddressClass::Loopback),
        ("10.0.0.1", AddressClass::Private),
        ("169.254.169.254", AddressClass::Metadata),
        ("::1", AddressClass::Loopback),
        ("::ffff:127.0.0.1", AddressClass::Loopback),
        ("64:ff9b::7f00:1", AddressClass::Translated),
        ("fe80::1", AddressClass::LinkLocal),
        ("0.0.0.0", AddressClass::Unspecified),
    ] {
        net.names.add("a.example", &[&[PUBLIC, address]]);
        let got = net.client().get("http://a.example/").send().await;
        assert_eq!(class(got.unwrap_err()), expected, "{address}");
    }
    assert_eq!(net.dialled(), Vec::<String>::new());
}

#[tokio::test]
async fn each_redirect_is_checked() {
    let mut net = Net::default();
    net.serve("8.8.8.8:80", |head| {
        let path = head.split(' ').nth(1).unwrap();
        match path {
            "/literal" => to("http://127.0.0.1:9/"),
            "/decimal" => to("http://2130706433/"),
            "/mapped" => to("http://[::ffff:7f00:1]/"),
            "/name" => to("http://inside.example/"),
            "/localhost" => to("//localhost/"),
            "/metadata" => to("http://metadata.google.internal/"),
            "/file" => to("file:///etc/passwd"),
            "/user" => to("http://a.example@127.0.0.1/"),
            "/twice" => to("/literal"),
            "/loop" => to("/loop"),
            "/fine" => to("/end"),
            _ => ok("end"),
        }
    })
    .await;
    net.names.add("a.example", &[&[PUBLIC]]);
    net.names.add("inside.example", &[&["10.0.0.1"]]);
    let client = net.client();
    let get = async |path: &str| client.get(&format!("http://a.example{path}")).send().await;
    for (path, expected) in [
        ("/literal", AddressClass::Loopback),
        ("/decimal", AddressClass::Loopback),
        ("/mapped", AddressClass::Loopback),
        ("/name", AddressClass::Private),
        ("/localhost", AddressClass::Loopback),
        ("/metadata", AddressClass::Metadata),
        ("/twice", AddressClass::Loopback),
    ] {
        assert_eq!(class(get(path).await.unwrap_err()), expected, "{path}");
    }
    for path in ["/file", "/user"] {
        assert!(matches!(get(path).await, Err(Error::Url { .. })), "{path}");
    }
    let error = get("/loop").await.unwrap_err();
    assert_eq!(error.to_string(), "a.example:80 redirects once more after 3 redirects");
    let fine = get("/fine").await.unwrap();
    assert_eq!(fine.url().as_str(), "http://a.example/end");
    assert!(net.dialled().iter().all(|address| address == "8.8.8.8:80"), "{:?}", net.dialled());
}

#[tokio::test]
async fn keys_do_not_follow_to_another_host() {
    let mut net = Net::default();
    net.serve("8.8.8.8:80", |head| match head.contains("host: a.example") {
        true => to("http://b.example/"),
        false => ok("end"),
    })
    .await;
    net.names.add("a.example", &[&[PUBLIC]]);
    net.names.add("b.example", &[&[PUBLIC]]);
    let key = HeaderValue::from_static("Bearer secret");
    let asked = net.client().get("http://a.example/").header(header::AUTHORIZATION, key.clone());
    asked.header(header::HOST, HeaderValue::from_static("evil")).send().await.unwrap();
    let heads = net.heads();
    assert!(heads[0].contains("authorization: Bearer secret"));
    assert!(!heads[1].contains("secret"));
    assert!(!heads.concat().contains("evil"));
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_refused_the_second_time() {
    let mut net = Net::default();
    net.serve("8.8.8.8:80", |_| ok("x")).await;
    net.names.add("a.example", &[&[PUBLIC], &["127.0.0.1"]]);
    let client = net.client();
    client.get("http://a.example/").send().await.unwrap().bytes().await.unwrap();
    let again = client.get("http://a.example/").send().await;
    assert_eq!(class(again.unwrap_err()), AddressClass::Loopback);
    assert_eq!(net.dialled(), ["8.8.8.8:80"]);
}

#[tokio::test]
async fn a_kept_connection_opens_nothing_new() {
    let mut net = Net::default();
    net.serve("8.8.8.8:80", |head| match head.contains("GET /bye") {
        true => crate::net::now("HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/\r\n\r\n"),
        false => ok("x"),
    })
    .await;
    net.names.add("a.example", &[&[PUBLIC], &["127.0.0.1"]]);
    let client = Client::new(Options { idle_per_host_max: 1, ..net.options() }).unwrap();
    for _ in 0..3 {
        let got = client.get("http://a.example/").send().await.unwrap();
        got.bytes().await.unwrap();
        tokio::task::yield_now().await;
    }
    // The same host on another port, and another name at the same address, are other places.
    let port = client.get("http://a.example:81/").send().await;
    assert_eq!(class(port.unwrap_err()), AddressClass::Loopback);
    assert!(client.get("http://b.example/").send().await.is_err());
    let inside = client.get("http://a.example/bye").send().await;
    assert_eq!(class(inside.unwrap_err()), AddressClass::Private);
    assert_eq!(net.dialled(), ["8.8.8.8:80"]);
    assert_eq!(net.names.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn the_next_address_is_tried() {
    let mut net = Net::default();
    net.serve("8.8.4.4:80", |_| ok("x")).await;
    net.names.add("a.example", &[&["2606:4700::1", PUBLIC, "8.8.4.4"]]);
    net.client().get("http://a.example/").send().await.unwrap();
    assert_eq!(net.dialled(), ["[2606:4700::1]:80", "8.8.8.8:80", "8.8.4.4:80"]);
}

#[tokio::test]
async fn failures_name_what_failed() {
    let net = Net::default();
    net.names.add("down.example", &[&[PUBLIC]]);
    let client = net.client();
    let said = async |url: &str| client.get(url).send().await.unwrap_err().to_string();
    assert_eq!(said("http://none.example/").await, "look up none.example: no such name");
    assert_eq!(
        said("http://down.example/secret").await,
        "connect to down.example:80: connection refused"
    );
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    let inside = prop::sample::select(vec![
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "fe80::1",
        "fd00:ec2::254",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "ff02::1",
    ]);
    prop_oneof![
        inside.prop_map(|text| text.parse::<IpAddr>().unwrap()),
        any::<u32>().prop_map(|bits| IpAddr::V4(bits.into())),
        any::<u128>().prop_map(|bits| IpAddr::V6(bits.into())),
        any::<u32>().prop_map(|bits| IpAddr::V6(std::net::Ipv4Addr::from(bits).to_ipv6_mapped())),
    ]
}

fn any_url() -> impl Strategy<Value = String> {
    let host = prop_oneof![
        Just("a.example".to_owned()),
        any_address().prop_map(|address| match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        }),
        any::<u32>().prop_map(|bits| bits.to_string()),
        any::<u32>().prop_map(|bits| format!("{bits:#x}")),
        "[a-z0-9.%@\\[\\]:-]{1,20}",
    ];
    (prop::sample::select(vec!["http://", "http:", "HTTP://u@", "http:\\\\"]), host, any::<u16>())
        .prop_map(|(scheme, host, port)| format!("{scheme}{host}:{port}/"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Whatever a url says and a resolver answers, nothing that is not public is dialled, and of
    /// an answer with one forbidden address nothing at all.
    #[test]
    fn nothing_forbidden_is_ever_dialled(
        url in any_url(),
        answer in prop::collection::vec(any_address(), 0..4),
    ) {
        #[derive(Debug)]
        struct Always(Vec<IpAddr>);
        #[async_trait::async_trait]
        impl outbound::Resolve for Always {
            async fn resolve(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
                Ok(self.0.clone())
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let spy = Arc::new(Spy::default());
        let is_forbidden = answer.iter().any(|one| classify(*one) != AddressClass::Public);
        let options = Options {
            resolver: Arc::new(Always(answer)),
            dial: Arc::clone(&spy) as _,
            ..Options::default()
        };
        let client = Client::new(options).unwrap();
        let sent = runtime.block_on(client.get(&url).send());
        prop_assert!(sent.is_err());
        for dialled in spy.dialled.lock().unwrap().iter() {
            prop_assert_eq!(classify(dialled.ip()), AddressClass::Public, "{}", url);
            prop_assert!(!is_forbidden || !url.contains("a.example"), "{}", url);
        }
    }
}

#[test]
fn the_spy_sees_what_is_dialled() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (names, spy) = (Arc::new(Names::default()), Arc::new(Spy::default()));
    names.add("a.example", &[&[PUBLIC]]);
    let options = Options { resolver: names, dial: Arc::clone(&spy) as _, ..Options::default() };
    let sent = runtime.block_on(Client::new(options).unwrap().get("http://a.example").send());
    assert!(sent.is_err());
    assert_eq!(spy.dialled.lock().unwrap().len(), 1);
}
