//! An MCP server that wants tokens, and the authorization server that gives them, on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::parse;

/// How long a refresh takes: long enough for everybody to come meanwhile.
const REFRESH_TAKES: Duration = Duration::from_millis(300);

/// How long one answer may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the owner of the accounts does when a browser comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Owner {
    #[default]
    Allows,
    Denies,
    /// Sends the browser back with the state of somebody else's question.
    Forges,
}

/// What has happened.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) owner: Owner,
    /// What a client did against the rules; a test ends with none.
    pub(super) faults: Vec<String>,
    pub(super) registrations: usize,
    pub(super) redeemed: usize,
    pub(super) refreshes: usize,
    /// Refresh tokens that came a second time.
    pub(super) reuses: usize,
    /// The redirect of each client.
    clients: BTreeMap<String, String>,
    /// The challenge and the client of each code.
    codes: BTreeMap<String, (String, String)>,
    /// The access tokens that open the server.
    pub(super) good: BTreeSet<String>,
    /// The refresh token that works.
    pub(super) refresh: Option<String>,
    calls: usize,
}

/// Both servers. They end with their last handle.
pub(super) struct Town {
    pub(super) port: u16,
    books: Arc<Mutex<Books>>,
}

/// A request.
struct Asked {
    method: String,
    path: String,
    query: String,
    bearer: String,
    body: String,
}

/// Status, further header lines, body.
type Reply = (u16, String, String);

fn object(value: &Value) -> Reply {
    (200, "content-type: application/json\r\n".to_owned(), value.to_string())
}

fn error(status: u16, code: &str) -> Reply {
    (status, object(&Value::Null).1, json!({"error": code}).to_string())
}

impl Town {
    pub(super) fn build() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let books = Arc::new(Mutex::new(Books::default()));
        let kept = Arc::downgrade(&books);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(books) = kept.upgrade() else { return };
                std::thread::spawn(move || serve(stream, port, &books));
            }
        });
        Self { port, books }
    }

    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// The settings that name the server `issues`.
    pub(super) fn settings(&self) -> String {
        format!("[mcp.servers.issues]\nurl = \"http://127.0.0.1:{}/mcp\"\n", self.port)
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        // Wakes the listener, which finds nobody left.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

/// Asks for a page as a browser does. Returns the status and where it is sent on to.
pub(super) fn visit(address: &str) -> (u16, Option<String>) {
    let url: Url = address.parse().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", url.port().unwrap())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let path = &url[url::Position::BeforePath..];
    let head = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
    let to = answer.lines().find_map(|line| line.strip_prefix("location: ").map(str::to_owned));
    (status, to)
}

fn serve(mut stream: TcpStream, port: u16, books: &Mutex<Books>) {
    let Some(asked) = read(&stream) else { return };
    let (status, headers, body) = answer(&asked, port, books);
    let text = format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    // Whoever asked may have gone.
    let _sent = stream.write_all(text.as_bytes());
}

fn read(stream: &TcpStream) -> Option<Asked> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let (mut bearer, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).ok()? == 0 {
            return None;
        }
        let header = header.trim_end();
        match header.split_once(": ") {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                bearer = value.strip_prefix("Bearer ").unwrap_or_default().to_owned();
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?;
            }
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    Some(Asked { method, path, query, bearer, body: String::from_utf8(body).ok()? })
}

fn field(text: &str, name: &str) -> String {
    let found = parse(text.as_bytes()).find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned()).unwrap_or_default()
}

fn answer(asked: &Asked, port: u16, books: &Mutex<Books>) -> Reply {
    let base = format!("http://127.0.0.1:{port}");
    match (asked.method.as_str(), asked.path.as_str()) {
        (_, "/mcp") => guarded(asked, &base, &books.lock().unwrap().good),
        ("GET", "/.well-known/oauth-protected-resource/mcp") => object(&json!({
            "resource": format!("{base}/mcp"), "authorization_servers": [base],
            "scopes_supported": ["issues:read"]})),
        ("GET", "/.well-known/oauth-authorization-server") => object(&json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": true})),
        ("POST", "/register") => books.lock().unwrap().register(&asked.body),
        ("GET", "/authorize") => books.lock().unwrap().authorize(&asked.query, &base),
        ("POST", "/token") => {
            if field(&asked.body, "grant_type") == "refresh_token" {
                std::thread::sleep(REFRESH_TAKES);
            }
            books.lock().unwrap().token(&asked.body, &base)
        }
        _ => error(404, "no_such_place"),
    }
}

impl Books {
    /// Takes note of what is against the rules.
    fn must(&mut self, holds: bool, what: &str, seen: &str) {
        if !holds {
            self.faults.push(format!("{what}: {seen}"));
        }
    }

    fn register(&mut self, body: &str) -> Reply {
        self.registrations += 1;
        let wanted: Value = serde_json::from_str(body).unwrap_or_default();
        let redirect = wanted["redirect_uris"][0].as_str().unwrap_or_default().to_owned();
        let is_here = redirect.starts_with("http://127.0.0.1:");
        self.must(is_here && wanted["application_type"] == "native", "register", body);
        let id = format!("client-{}", self.registrations);
        self.clients.insert(id.clone(), redirect);
        let (_, headers, _) = object(&Value::Null);
        (201, headers, json!({"client_id": id}).to_string())
    }

    fn authorize(&mut self, query: &str, base: &str) -> Reply {
        let get = |name: &str| field(query, name);
        let redirect = self.clients.get(&get("client_id")).cloned().unwrap_or_default();
        let is_asked_well = get("response_type") == "code"
            && get("code_challenge_method") == "S256"
            && get("code_challenge").len() == 43
            && get("state").len() >= 32
            && get("scope") == "issues:read"
            && get("resource") == format!("{base}/mcp")
            && get("redirect_uri") == redirect;
        self.must(is_asked_well, "authorize", query);
        let Ok(mut back) = redirect.parse::<Url>() else { return error(400, "invalid_client") };
        let code = format!("code-{}", self.codes.len() + 1);
        self.codes.insert(code.clone(), (get("code_challenge"), get("client_id")));
        let state = if self.owner == Owner::Forges { "x".repeat(43) } else { get("state") };
        let mut pairs = back.query_pairs_mut();
        match self.owner {
            Owner::Denies => pairs
                .append_pair("error", "access_denied")
                .append_pair("error_description", "the owner said no"),
            Owner::Allows | Owner::Forges => pairs.append_pair("code", &code),
        };
        pairs.append_pair("state", &state).append_pair("iss", base);
        drop(pairs);
        (302, format!("location: {back}\r\n"), String::new())
    }

    fn token(&mut self, body: &str, base: &str) -> Reply {
        let get = |name: &str| field(body, name);
        self.must(get("resource") == format!("{base}/mcp"), "the resource of a token", body);
        if get("grant_type") == "refresh_token" {
            self.refreshes += 1;
            if self.refresh.as_deref() != Some(get("refresh_token").as_str()) {
                self.reuses += 1;
                return error(400, "invalid_grant");
            }
            return self.give();
        }
        let Some((challenge, client)) = self.codes.remove(&get("code")) else {
            return error(400, "invalid_grant");
        };
        let digest = Sha256::digest(get("code_verifier").as_bytes());
        let is_proven = URL_SAFE_NO_PAD.encode(digest) == challenge
            && get("client_id") == client
            && self.clients.get(&client) == Some(&get("redirect_uri"));
        self.must(is_proven, "redeem", body);
        self.redeemed += 1;
        self.give()
    }

    fn give(&mut self) -> Reply {
        self.calls += 1;
        let (access, refresh) =
            (format!("access-{}", self.calls), format!("refresh-{}", self.calls));
        self.good = BTreeSet::from([access.clone()]);
        self.refresh = Some(refresh.clone());
        object(&json!({"access_token": access, "token_type": "Bearer", "expires_in": 3600,
                       "refresh_token": refresh}))
    }
}

/// The server that the tokens are for; of the newest revision.
fn guarded(asked: &Asked, base: &str, good: &BTreeSet<String>) -> Reply {
    if !good.contains(&asked.bearer) {
        let place = format!("{base}/.well-known/oauth-protected-resource/mcp");
        let challenge = format!("www-authenticate: Bearer resource_metadata=\"{place}\"\r\n");
        return (401, challenge, String::new());
    }
    if asked.method != "POST" {
        return error(405, "only_post");
    }
    let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
    if message["id"].is_null() {
        return (202, String::new(), String::new());
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({
            "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "issues", "version": "1"}}),
        "tools/list" => json!({"tools": [{
            "name": "count", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}}]}),
        _ => json!({"content": [{"type": "text", "text": "there are seven issues"}]}),
    };
    let mut result = result;
    for (key, value) in
        [("ttlMs", json!(0)), ("cacheScope", json!("private")), ("resultType", json!("complete"))]
    {
        result[key] = value;
    }
    object(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}
