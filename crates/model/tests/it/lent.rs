//! Models behind an endpoint that an embedding application supplies.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use driver_api::{Clock, ModelError, ModelErrorKind, Models, SystemClock};
use model::{Endpoint, Mint, Options, Provider, Slot, StructuredOutput, Token, TokenReason, build};
use protocol::{RefusalCode, Wire};
use stdx::Secret;

use crate::provider::{CHAT, ask};
use crate::server::{Answer, Server, reply, stream};

/// Mints `token-1`, `token-2` and so on; every token lasts so long.
#[derive(Debug, Default)]
struct Numbers {
    asked: Mutex<Vec<TokenReason>>,
    life_ms: Option<i64>,
}

#[async_trait]
impl Mint for Numbers {
    async fn token(&self, audience: &str, reason: TokenReason) -> Result<Token, ModelError> {
        assert!(audience.starts_with("http://127.0.0.1:"), "{audience}");
        let mut asked = self.asked.lock().unwrap();
        asked.push(reason);
        let now = SystemClock::default().now();
        Ok(Token {
            secret: Secret::new(format!("token-{}", asked.len())),
            expires_at: self.life_ms.map(|ms| now.plus_ms(ms)),
        })
    }
}

fn own() -> Arc<dyn Models> {
    let provider = Provider {
        name: "other".into(),
        wire: Wire::OpenaiChat,
        base_url: "http://127.0.0.1:1".into(),
        key: None,
        headers: vec![],
        structured_output: StructuredOutput::Auto,
    };
    build(Options { providers: vec![provider], scenario: None }).unwrap()
}

fn filled(url: &str, mint: Option<Arc<Numbers>>, is_exclusive: bool) -> Arc<dyn Models> {
    let slot = Slot::default();
    let models = slot.before(own());
    assert!(models.resolve("openai/gpt-5").is_err(), "an empty slot changes nothing");
    let endpoint = Endpoint {
        provider: "openai".into(),
        wire: Wire::OpenaiChat,
        base_url: url.into(),
        mint: mint.map(|mint| mint as Arc<dyn Mint>),
        is_exclusive,
        clock: Arc::new(SystemClock::default()),
    };
    slot.fill(endpoint).unwrap();
    models
}

fn no() -> Answer {
    Answer::Close(reply("401", "content-type: application/json\r\n", "{\"error\":\"old\"}"))
}

fn keys(server: &Server) -> Vec<String> {
    let key = |request: &String| {
        let line = request.lines().find(|line| line.to_lowercase().starts_with("authorization:"));
        line.and_then(|line| line.rsplit(' ').next()).unwrap_or_default().to_owned()
    };
    server.requests().iter().map(key).collect()
}

#[tokio::test]
async fn a_token_is_kept_until_it_is_refused_and_refused_twice_is_the_end() {
    let yes = Answer::Close(stream(CHAT, true));
    let answers = vec![yes.clone(), yes.clone(), no(), yes, no(), no()];
    let server = Server::start(answers).await;
    let mint = Arc::new(Numbers::default());
    let models = filled(&server.url, Some(mint.clone()), true);
    let model = models.resolve("openai/gpt-5").unwrap();
    for _ in 0..3 {
        ask(&*model).await.1.unwrap();
    }
    let error = ask(&*model).await.1.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unauthorized);
    assert!(!error.message.contains("token-"), "{}", error.message);
    use TokenReason::{Initial, Rejected};
    assert_eq!(*mint.asked.lock().unwrap(), [Initial, Rejected, Rejected]);
    let sent = ["token-1", "token-1", "token-1", "token-2", "token-2", "token-3"];
    assert_eq!(keys(&server), sent);
}

#[tokio::test]
async fn a_token_whose_time_is_over_is_not_sent() {
    let server = Server::start(vec![Answer::Close(stream(CHAT, true)); 2]).await;
    let mint = Arc::new(Numbers { life_ms: Some(-1), ..Numbers::default() });
    let models = filled(&server.url, Some(mint.clone()), false);
    let model = models.resolve("openai/gpt-5").unwrap();
    for _ in 0..2 {
        ask(&*model).await.1.unwrap();
    }
    assert_eq!(*mint.asked.lock().unwrap(), [TokenReason::Initial, TokenReason::Expired]);
    assert_eq!(keys(&server), ["token-1", "token-2"]);
}

#[tokio::test]
async fn names_are_found_at_the_endpoint_first_or_there_alone() {
    let server = Server::start(vec![Answer::Close(stream(CHAT, true))]).await;
    let models = filled(&server.url, None, false);
    for (name, id) in [
        ("openai/gpt-5", "openai/gpt-5"),
        ("gpt-5", "openai/gpt-5"),
        ("other/x", "other/x"),
        ("demo", "demo"),
    ] {
        assert_eq!(models.resolve(name).unwrap().info().id, id);
    }
    ask(&*models.resolve("gpt-5").unwrap()).await.1.unwrap();
    assert_eq!(keys(&server), [""]);
    let models = filled(&server.url, None, true);
    assert!(models.resolve("gpt-5").is_ok());
    assert!(models.list().iter().all(|info| info.provider == "openai"));
    for (name, code) in [
        ("other/x", RefusalCode::LockedByPolicy),
        ("claude-sonnet-4-6", RefusalCode::LockedByPolicy),
        ("demo", RefusalCode::LockedByPolicy),
        ("openai/", RefusalCode::InvalidModel),
    ] {
        assert_eq!(models.resolve(name).unwrap_err().code, code, "{name}");
    }
}

#[test]
fn an_address_that_is_none_is_told_at_once() {
    let endpoint = Endpoint {
        provider: "openai".into(),
        wire: Wire::OpenaiChat,
        base_url: "nowhere".into(),
        mint: None,
        is_exclusive: false,
        clock: Arc::new(SystemClock::default()),
    };
    let problem = Slot::default().fill(endpoint).unwrap_err().to_string();
    assert!(problem.contains("base_url"), "{problem}");
}
