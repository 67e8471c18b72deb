//! Limits: two tiers, before the token, told in headers.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use http_kit::Peer;
use serde_json::json;
use testkit::fake_handle::FakeRuntime;
use testkit::fake_neurons::{FakeNeurons, neuron_info};

use crate::house::{House, ID, Reply, Setting, open_session, refused, request};

fn house(setting: Setting) -> House {
    let runtime = FakeRuntime::new().session(open_session());
    House::with(setting, runtime, FakeNeurons::new().neuron(neuron_info("worker")))
}

fn header<'a>(reply: &'a Reply, name: &str) -> &'a str {
    reply.headers[name].to_str().unwrap()
}

async fn health_of(house: &House, peer: &str, said: Option<&str>) -> Reply {
    let peer: SocketAddr = peer.parse().unwrap();
    let mut request = request("GET", "/health").extension(Peer(peer));
    if let Some(said) = said {
        request = request.header("x-forwarded-for", said).header("x-real-ip", said);
    }
    house.ask(request.body(Body::empty()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn over_the_limit_is_429_until_the_window_ends() {
    let house = house(Setting::new().with_limits(2, 60));
    for left in ["1", "0"] {
        let reply = house.get("/health").await;
        assert_eq!((reply.status.as_u16(), header(&reply, "ratelimit-remaining")), (200, left));
        assert_eq!(header(&reply, "ratelimit-limit"), "2");
        assert_eq!(header(&reply, "ratelimit-reset"), "900");
        assert_eq!(header(&reply, "ratelimit-policy"), "2;w=900");
    }
    tokio::time::advance(Duration::from_secs(600)).await;
    let reply = house.get("/health").await;
    assert_eq!(reply.code(), refused(429, "RATE_LIMITED"));
    assert_eq!(header(&reply, "ratelimit-reset"), "300");
    assert_eq!(header(&reply, "retry-after"), "300");
    tokio::time::advance(Duration::from_secs(300)).await;
    assert_eq!(house.get("/health").await.status, 200);
}

#[tokio::test]
async fn runs_have_a_tighter_limit_and_count_as_requests() {
    let house = house(Setting::new().with_limits(6, 2));
    let body = json!({"message": "x"});
    let run = || house.post("/sessions/ses-absent/message", &body);
    let stream = || house.post("/sessions/ses-absent/run", &body);
    let reply = run().await;
    assert_eq!(reply.code(), refused(404, "NOT_FOUND"));
    assert_eq!(
        (header(&reply, "ratelimit-limit"), header(&reply, "ratelimit-remaining")),
        ("2", "1")
    );
    assert_eq!(stream().await.code(), refused(404, "NOT_FOUND"));
    assert_eq!(run().await.code(), refused(429, "RATE_LIMITED"));
    assert_eq!(stream().await.code(), refused(429, "RATE_LIMITED"));
    // Others are not in that tier.
    let path = format!("/sessions/{ID}/approvals");
    assert_eq!(header(&house.get(&path).await, "ratelimit-remaining"), "1");
    assert_eq!(house.get(&format!("/sessions/{ID}")).await.status, 200);
    assert_eq!(header(&run().await, "ratelimit-limit"), "6", "both are passed, the first counts");
}

#[tokio::test]
async fn zero_switches_a_tier_off() {
    let house = house(Setting::new().with_limits(0, 1));
    for _ in 0..700 {
        let reply = house.get("/health").await;
        assert!(reply.status == 200 && !reply.headers.contains_key("ratelimit-limit"));
    }
    let body = json!({});
    let run = || house.post("/sessions/ses-absent/run", &body);
    assert_eq!(run().await.status, 400);
    assert_eq!(run().await.code(), refused(429, "RATE_LIMITED"));
}

#[tokio::test]
async fn wrong_tokens_consume_the_budget() {
    let house = house(Setting::new().with_token("right-token-0123456789").with_limits(4, 60));
    for _ in 0..4 {
        assert_eq!(house.get("/health").await.code(), refused(401, "UNAUTHORIZED"));
    }
    let right = request("GET", "/health").header("authorization", "Bearer right-token-0123456789");
    let reply = house.ask(right.body(Body::empty()).unwrap()).await;
    assert_eq!(reply.code(), refused(429, "RATE_LIMITED"));
}

#[tokio::test]
async fn a_client_is_the_peer_unless_its_proxy_is_trusted() {
    let plain = house(Setting::new().with_limits(1, 1));
    let (one, two) = ("192.0.2.1:1", "192.0.2.1:2");
    assert_eq!(health_of(&plain, one, Some("203.0.113.1")).await.status, 200);
    assert_eq!(health_of(&plain, two, Some("203.0.113.2")).await.status, 429);
    assert_eq!(health_of(&plain, "192.0.2.2:1", None).await.status, 200);
    // A /64 is one client.
    assert_eq!(health_of(&plain, "[2001:db8::1]:1", None).await.status, 200);
    assert_eq!(health_of(&plain, "[2001:db8::2]:1", None).await.status, 429);
    assert_eq!(health_of(&plain, "[2001:db8:0:1::1]:1", None).await.status, 200);

    let mut setting = Setting::new().with_limits(1, 1);
    setting.options.proxies = "192.0.2.0/24".parse().unwrap();
    let trusting = house(setting);
    assert_eq!(health_of(&trusting, one, Some("203.0.113.1")).await.status, 200);
    assert_eq!(health_of(&trusting, one, Some("203.0.113.2")).await.status, 200);
    assert_eq!(health_of(&trusting, one, Some("6.6.6.6, 203.0.113.2")).await.status, 429);
}
