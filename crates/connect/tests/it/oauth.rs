//! Tokens, against an authorization server of our own.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use connect::oauth::{AuthError, Redirect};
use connect::{Endpoint, HttpServer as Place, OAuthClient, Origin, Pool, Server, ServerState};
use driver_api::Fault;
use futures_util::future::BoxFuture;
use outbound::Url;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::house::{House, pool_at, program, text_of};
use crate::http_server::{Asked, HttpServer, Reply, listen};
use crate::script::Scripts;

const BACK: &str = "http://127.0.0.1:9/back";

/// The authorization server and the server that it guards.
#[derive(Debug, Default)]
struct Realm {
    address: Mutex<String>,
    /// The tokens that open the server.
    good: Mutex<HashSet<String>>,
    /// The refresh token that works; all others are spent.
    refresh: Mutex<Option<String>>,
    /// What an authorization asked for.
    asked: Mutex<Vec<String>>,
    counts: Mutex<Counts>,
    /// The `iss` of answers, where it is another's.
    iss: Mutex<Option<String>>,
    /// The rights that calls need.
    needs: Mutex<Option<String>>,
    /// Whether the server names no authorization server: it is its own, as in an old revision.
    is_alone: Mutex<bool>,
    /// Who it says to be, where that is another.
    claims: Mutex<Option<String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    tokens: u32,
    refreshes: u32,
    reuses: u32,
    registrations: u32,
}

impl Realm {
    fn url(&self) -> String {
        format!("http://{}", self.address.lock().unwrap())
    }

    fn counts(&self) -> Counts {
        *self.counts.lock().unwrap()
    }

    fn token(&self) -> Reply {
        let mut counts = self.counts.lock().unwrap();
        counts.tokens += 1;
        let (access, refresh) = (format!("at-{}", counts.tokens), format!("rt-{}", counts.tokens));
        *self.refresh.lock().unwrap() = Some(refresh.clone());
        self.good.lock().unwrap().insert(access.clone());
        Reply::json(&json!({"access_token": access, "token_type": "Bearer", "expires_in": 3600,
                            "refresh_token": refresh}))
    }

    async fn answer(&self, asked: Asked) -> Option<Reply> {
        let base = self.url();
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let field = |text: &str, name: &str| {
            let mut pairs = url::form_urlencoded::parse(text.as_bytes());
            pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        Some(match path {
            "/mcp" => return self.guarded(&asked).await,
            "/.well-known/oauth-protected-resource/mcp" => Reply::json(&json!({
                "resource": format!("{base}/mcp"),
                "authorization_servers": if *self.is_alone.lock().unwrap() { json!([]) } else {
                    json!([base])
                },
                "scopes_supported": ["read"]})),
            "/.well-known/oauth-authorization-server" => Reply::json(&json!({
                "issuer": self.claims.lock().unwrap().as_ref().unwrap_or(&base),
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "registration_endpoint": format!("{base}/register"),
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": true})),
            "/register" => {
                self.counts.lock().unwrap().registrations += 1;
                let body: Value = serde_json::from_str(&asked.body).unwrap();
                assert_eq!(body["application_type"], "native");
                assert_eq!(body["redirect_uris"], json!([BACK]));
                Reply { status: 201, ..Reply::json(&json!({"client_id": "client-1"})) }
            }
            "/authorize" => {
                self.asked.lock().unwrap().push(query.to_owned());
                let iss = self.iss.lock().unwrap().clone().unwrap_or(base);
                let mut back: Url = field(query, "redirect_uri").unwrap().parse().unwrap();
                back.query_pairs_mut()
                    .append_pair("code", &field(query, "code_challenge").unwrap())
                    .append_pair("state", &field(query, "state").unwrap())
                    .append_pair("iss", &iss);
                Reply::status(302).header("location", back.to_string())
            }
            "/token" => {
                let body = asked.body.as_str();
                assert_eq!(field(body, "resource").unwrap(), format!("{base}/mcp"));
                assert_eq!(field(body, "client_id").as_deref(), Some("client-1"));
                if field(body, "grant_type").as_deref() == Some("authorization_code") {
                    let verifier = field(body, "code_verifier").unwrap();
                    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
                    assert_eq!(field(body, "code").unwrap(), challenge);
                    return Some(self.token());
                }
                // Long enough for everybody to come at once.
                tokio::time::sleep(Duration::from_millis(150)).await;
                self.counts.lock().unwrap().refreshes += 1;
                if *self.refresh.lock().unwrap() != field(body, "refresh_token") {
                    self.counts.lock().unwrap().reuses += 1;
                    return Some(Reply {
                        status: 400,
                        ..Reply::json(&json!({"error": "invalid_grant"}))
                    });
                }
                self.token()
            }
            _ => Reply::status(404),
        })
    }

    async fn guarded(&self, asked: &Asked) -> Option<Reply> {
        let base = self.url();
        let token = asked.header("authorization").strip_prefix("Bearer ").unwrap_or_default();
        let metadata =
            format!("resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
        if !self.good.lock().unwrap().contains(token) {
            let challenge = format!("Bearer {metadata}");
            return Some(Reply::status(401).header("www-authenticate", challenge));
        }
        let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        let needs = self.needs.lock().unwrap().clone();
        if let Some(needs) = needs.filter(|_| message["method"] == "tools/call") {
            let challenge =
                format!("Bearer error=\"insufficient_scope\", scope=\"{needs}\", {metadata}");
            return Some(Reply::status(403).header("www-authenticate", challenge));
        }
        crate::http::speak(asked, &message, true, &Arc::default()).await
    }
}

/// A person who says yes: follows the address to where it sends them back.
#[derive(Debug)]
struct Yes;

#[async_trait]
impl Redirect for Yes {
    fn uri(&self) -> &str {
        BACK
    }

    async fn visit(&self, address: &Url) -> Result<Url, Fault> {
        let waits = outbound::Waits {
            connect: Duration::from_secs(5),
            silence: Duration::from_secs(5),
            keep_alive: Duration::from_secs(1),
        };
        let servers = outbound::Servers::local(waits);
        let answer = servers.get(address, Default::default()).await;
        let answer = answer.map_err(|error| Fault::with("open the address", error))?;
        let back = answer.headers().get("location").unwrap().to_str().unwrap().to_owned();
        Ok(back.parse().unwrap())
    }
}

struct Town {
    realm: Arc<Realm>,
    _server: HttpServer,
    home: tempfile::TempDir,
}

impl Town {
    async fn build() -> Self {
        let realm = Arc::new(Realm::default());
        let own = Arc::clone(&realm);
        let handler = move |asked: Asked| {
            let realm = Arc::clone(&own);
            Box::pin(async move { realm.answer(asked).await }) as BoxFuture<'static, Option<Reply>>
        };
        let server = listen(0, Arc::new(handler)).await;
        *realm.address.lock().unwrap() = server.address.to_string();
        Self { realm, _server: server, home: tempfile::tempdir().unwrap() }
    }

    fn server(&self) -> Server {
        let url = format!("{}/mcp", self.realm.url()).parse().unwrap();
        let place = Place { url, headers: Vec::new(), oauth: OAuthClient::default() };
        Server { endpoint: Endpoint::Http(place), ..program("web") }
    }

    /// Starts a pool as another process would.
    fn pool(&self) -> Arc<Pool> {
        pool_at(self.home.path(), Arc::new(Scripts::default()), vec![self.server()], 10)
    }

    fn house(&self) -> House {
        House { pool: self.pool(), home: tempfile::tempdir().unwrap() }
    }

    async fn authorized(&self) -> House {
        let house = self.house();
        house.until("web", ServerState::Unauthorized).await;
        house.pool.authorize(&Origin::Settings, "web", &Yes).await.unwrap();
        house.until("web", ServerState::Connected).await;
        house
    }

    fn kept(&self) -> (std::path::PathBuf, Value) {
        let folder = self.home.path().join("connections");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let is_json = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "json");
        let path = entries.into_iter().find(is_json).unwrap();
        let value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        (path, value)
    }
}

async fn echo(house: &House) -> String {
    text_of(&house.call("mcp__web__echo", json!({"text": "x"})).await)
}

#[tokio::test]
async fn a_person_authorizes_once_and_all_processes_have_the_token() {
    let town = Town::build().await;
    let house = town.authorized().await;
    assert_eq!(echo(&house).await, "heard x");
    let asked = town.realm.asked.lock().unwrap().remove(0);
    for part in ["response_type=code", "code_challenge_method=S256", "scope=read", "resource=http"]
    {
        assert!(asked.contains(part), "{part} in {asked}");
    }
    let other = town.house();
    other.until("web", ServerState::Connected).await;
    assert_eq!(echo(&other).await, "heard x");
    let expected = Counts { tokens: 1, registrations: 1, ..Counts::default() };
    assert_eq!(town.realm.counts(), expected);
    let shown = format!("{:?}", house.pool);
    assert!(!shown.contains("at-1") && !shown.contains("rt-1"), "no token is printed");
    house.pool.stop().await;
    other.pool.stop().await;
}

#[tokio::test]
async fn m2_two_processes_refreshing_at_once_refresh_once_and_keep_the_new_pair() {
    let town = Town::build().await;
    let (one, two) = (town.authorized().await, town.house());
    two.until("web", ServerState::Connected).await;
    // The server forgets the token: ten calls of two processes are refused at once.
    town.realm.good.lock().unwrap().clear();
    let calls = (0..5).flat_map(|_| [echo(&one), echo(&two)]);
    for heard in futures_util::future::join_all(calls).await {
        assert_eq!(heard, "heard x");
    }
    let counts = town.realm.counts();
    assert_eq!((counts.refreshes, counts.reuses), (1, 0), "{counts:?}");
    let (path, kept) = town.kept();
    assert_eq!(kept["token"]["refresh"], "rt-2");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    one.pool.stop().await;
    two.pool.stop().await;
}

#[tokio::test]
async fn m2_a_token_is_replaced_before_it_ends() {
    let town = Town::build().await;
    town.authorized().await.pool.stop().await;
    let (path, mut kept) = town.kept();
    kept["token"]["expires_at_ms"] = json!(1_000);
    std::fs::write(&path, kept.to_string()).unwrap();
    let (one, two) = (town.house(), town.house());
    for house in [&one, &two] {
        house.until("web", ServerState::Connected).await;
        assert_eq!(echo(house).await, "heard x");
    }
    let counts = town.realm.counts();
    assert_eq!((counts.refreshes, counts.reuses), (1, 0), "{counts:?}");
    one.pool.stop().await;
    two.pool.stop().await;
}

#[tokio::test]
async fn a_spent_refresh_token_needs_a_person_again() {
    let town = Town::build().await;
    let house = town.authorized().await;
    town.realm.good.lock().unwrap().clear();
    *town.realm.refresh.lock().unwrap() = None;
    let text = echo(&house).await;
    assert!(text.contains("wants to be authorized by a person first"), "{text}");
    let (_, kept) = town.kept();
    assert_eq!(kept["token"], Value::Null);
    house.until("web", ServerState::Unauthorized).await;
    house.pool.authorize(&Origin::Settings, "web", &Yes).await.unwrap();
    assert_eq!(echo(&house).await, "heard x");
    let counts = town.realm.counts();
    assert_eq!(counts.registrations, 1, "the client is known already: {counts:?}");
    house.pool.stop().await;
}

#[tokio::test]
async fn more_rights_are_asked_of_a_person_and_added_to_those_that_were() {
    let town = Town::build().await;
    let house = town.authorized().await;
    *town.realm.needs.lock().unwrap() = Some("write".to_owned());
    let text = echo(&house).await;
    assert!(text.contains("wants to be authorized by a person first"), "{text}");
    assert_eq!(town.realm.counts().refreshes, 0, "a refresh brings no rights");
    house.pool.authorize(&Origin::Settings, "web", &Yes).await.unwrap();
    let asked = town.realm.asked.lock().unwrap().pop().unwrap();
    assert!(asked.contains("scope=write+read"), "{asked}");
    *town.realm.needs.lock().unwrap() = None;
    assert_eq!(echo(&house).await, "heard x");
    house.pool.stop().await;
}

#[tokio::test]
async fn a_server_that_is_its_own_issuer_cannot_pass_for_another() {
    let honest = "https://honest.example".to_owned();
    for claims in [None, Some(honest)] {
        let town = Town::build().await;
        *town.realm.is_alone.lock().unwrap() = true;
        town.realm.claims.lock().unwrap().clone_from(&claims);
        town.realm.iss.lock().unwrap().clone_from(&claims);
        let house = town.house();
        house.until("web", ServerState::Unauthorized).await;
        let authorized = house.pool.authorize(&Origin::Settings, "web", &Yes).await;
        let asked = town.realm.asked.lock().unwrap().len();
        match claims {
            None => assert_eq!((authorized.is_ok(), asked), (true, 1)),
            Some(_) => {
                let error = authorized.unwrap_err().to_string();
                assert!(error.contains("says to be https://honest.example"), "{error}");
                assert_eq!((asked, town.realm.counts().tokens), (0, 0), "nobody is sent anywhere");
            }
        }
        house.pool.stop().await;
    }
}

#[tokio::test]
async fn an_answer_of_another_issuer_is_refused() {
    let town = Town::build().await;
    *town.realm.iss.lock().unwrap() = Some("https://evil.example".to_owned());
    let house = town.house();
    house.until("web", ServerState::Unauthorized).await;
    let error = house.pool.authorize(&Origin::Settings, "web", &Yes).await.unwrap_err();
    assert!(matches!(error, AuthError::Refused(_)), "{error}");
    assert_eq!(town.realm.counts().tokens, 0, "no code is redeemed");
    let unknown = house.pool.authorize(&Origin::Settings, "other", &Yes).await.unwrap_err();
    assert!(unknown.to_string().contains("no MCP server other"), "{unknown}");
    house.pool.stop().await;
}
