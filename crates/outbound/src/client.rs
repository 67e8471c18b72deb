//! The guarded client: for addresses that come from models, pages, files and other people.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use hyper_util::client::proxy::matcher::Matcher;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::allow::AllowedTarget;
use crate::connect::{Gate, Way};
use crate::error::{self, Error, Part, Wait};
use crate::guard::Guard;
use crate::redirect;
use crate::resolve::{Dial, Resolve, SystemResolver, TcpDial};
use crate::response::{Bounds, Response};
use crate::transport::{Outgoing, Pool, Transport, place};

/// How long an idle connection is kept, where connections are kept at all.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What the stack itself writes; taken from a caller it could contradict the message's shape.
const OWN_HEADERS: [HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
];

/// How much and how long. The values of [`Limits::default`] suit a page or an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most redirects that are followed; 0 hands the first one out as an answer.
    pub redirects_max: usize,
    /// Largest body of an answer, in bytes.
    pub response_bytes_max: u64,
    /// Largest body of a request, in bytes.
    pub request_bytes_max: u64,
    /// How long name, connection and encryption may take together.
    pub connect_timeout: Duration,
    /// How long the head of an answer may take, connecting included.
    pub answer_timeout: Duration,
    /// How long a body may pause.
    pub idle_timeout: Duration,
    /// How long all of it may take, redirects and body included.
    pub total_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            redirects_max: 10,
            response_bytes_max: 10 << 20,
            request_bytes_max: 10 << 20,
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(20),
            total_timeout: Duration::from_secs(120),
        }
    }
}

/// What a client is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Places that may be reached though they are not public.
    pub allow: Vec<AllowedTarget>,
    /// A proxy that the settings name, `http://` or `https://`, with name and password if need
    /// be. Proxies of the environment are not looked at: whoever may set a variable could lead
    /// each connection past the check. With a proxy, urls and names are checked as ever, and
    /// addresses as far as names can be resolved here; what it connects to is the proxy's duty.
    pub proxy: Option<String>,
    /// How much and how long.
    pub limits: Limits,
    /// Most idle connections to keep per host; 0 opens one for each request.
    pub idle_per_host_max: usize,
    /// Whether a redirect may lead from https to http.
    pub may_downgrade: bool,
    /// What the client calls itself.
    pub user_agent: String,
    /// Turns names into addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Connects to addresses.
    pub dial: Arc<dyn Dial>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            proxy: None,
            limits: Limits::default(),
            idle_per_host_max: 0,
            may_downgrade: false,
            user_agent: USER_AGENT.to_owned(),
            resolver: Arc::new(SystemResolver::default()),
            dial: Arc::new(TcpDial),
        }
    }
}

/// What a request is from where nothing else is said.
pub(crate) const USER_AGENT: &str = concat!("narthex/", env!("CARGO_PKG_VERSION"));

/// Fetches from public places, and from those that the settings open. Cheap to clone.
///
/// Every url is checked before anything is opened, every redirect again, and every address of a
/// name when a connection is made; what was checked is what is connected to.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    guard: Guard,
    transport: Transport,
    limits: Limits,
    may_downgrade: bool,
    user_agent: HeaderValue,
}

impl Client {
    /// Makes a client. Opens nothing and reads nothing.
    ///
    /// # Errors
    /// [`Error::Setup`] if the proxy or the user agent cannot be used.
    pub fn new(options: Options) -> Result<Self, Error> {
        let guard = Guard::new(options.allow);
        let way = Way {
            gate: Gate::Guarded(guard.clone()),
            resolver: options.resolver,
            dial: options.dial,
            proxies: options.proxy.as_deref().map(named_proxy).transpose()?,
            connect_timeout: options.limits.connect_timeout,
        };
        let pool = Pool { per_host_max: options.idle_per_host_max, idle_timeout: IDLE_TIMEOUT };
        let user_agent = HeaderValue::from_str(&options.user_agent).map_err(|_| {
            Error::Setup("set up the http client: the user agent is no header".to_owned())
        })?;
        let inner = Inner {
            guard,
            transport: Transport::new(way, pool),
            limits: options.limits,
            may_downgrade: options.may_downgrade,
            user_agent,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Checks a url as far as that goes without a lookup, and opens nothing.
    ///
    /// # Errors
    /// As [`Guard::check_url`].
    pub fn check(&self, url: &str) -> Result<Url, Error> {
        self.inner.guard.check_url(url)
    }

    /// Starts a request for a page.
    pub fn get(&self, url: &str) -> Request {
        self.request(Method::GET, url)
    }

    /// Starts a request for the head of a page.
    pub fn head(&self, url: &str) -> Request {
        self.request(Method::HEAD, url)
    }

    /// Starts a request that sends a body.
    pub fn post(&self, url: &str, body: impl Into<Bytes>) -> Request {
        self.request(Method::POST, url).body(body)
    }

    /// Starts a request of any method but `CONNECT` and `TRACE`.
    pub fn request(&self, method: Method, url: &str) -> Request {
        let url = url.to_owned();
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        let limits = self.inner.limits;
        Request { inner: Arc::clone(&self.inner), method, url, headers, body, limits }
    }
}

fn named_proxy(text: &str) -> Result<Matcher, Error> {
    // The text may hold a password and stays out of the message.
    let wrong = |reason: &str| Error::Setup(format!("use the proxy of the settings: {reason}"));
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("it must be http:// or https:// with a host"));
    }
    Ok(Matcher::builder().all(text).build())
}

/// A request before it is sent.
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    inner: Arc<Inner>,
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Bytes,
    limits: Limits,
}

impl Request {
    /// Sets a header, in place of others of its name. Headers that shape the message itself, such
    /// as `host` and `content-length`, are left out. All but a few harmless ones stay behind when
    /// a redirect leads to another origin.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        if !OWN_HEADERS.contains(&name) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the limits of this request. The time to connect stays that of the client.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sends the request, follows redirects and returns the head of the last answer. Dropping the
    /// future ends the request.
    ///
    /// # Errors
    /// Any of [`Error`]; a status is none.
    pub async fn send(self) -> Result<Response, Error> {
        let limit = self.limits.total_timeout;
        let end = Instant::now() + limit;
        let Self { inner, method, url, mut headers, body, limits } = self;
        let url = inner.guard.check_url(&url)?;
        if matches!(method, Method::CONNECT | Method::TRACE) {
            return Err(error::url(url.as_str(), format!("the method {method} is not sent")));
        }
        if u64::try_from(body.len()).is_ok_and(|length| length > limits.request_bytes_max) {
            let (part, limit_bytes) = (Part::RequestBody, limits.request_bytes_max);
            return Err(Error::TooLarge { place: place(&url), part, limit_bytes });
        }
        headers.entry(header::USER_AGENT).or_insert_with(|| inner.user_agent.clone());
        // A compressed body could be a thousand times larger than it looks.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut outgoing = Outgoing { method, url, headers, body };
        match timeout(limit, hops(&inner, &mut outgoing, limits)).await {
            Ok(response) => {
                let whole = Some((end, limit));
                let (idle, bytes_max) = (limits.idle_timeout, limits.response_bytes_max);
                Ok(Response::new(response?, outgoing.url, Bounds { bytes_max, idle, whole }))
            }
            Err(_) => Err(Error::Timeout { place: place(&outgoing.url), wait: Wait::Whole, limit }),
        }
    }
}

async fn hops(
    inner: &Inner,
    outgoing: &mut Outgoing,
    limits: Limits,
) -> Result<http::Response<hyper::body::Incoming>, Error> {
    let mut followed = 0;
    loop {
        let limit = limits.answer_timeout;
        let sent = timeout(limit, inner.transport.send(outgoing)).await;
        let response = sent.map_err(|_| Error::Timeout {
            place: place(&outgoing.url),
            wait: Wait::Answer,
            limit,
        })??;
        let location = redirect::location(response.status(), response.headers());
        let Some(location) = location.filter(|_| limits.redirects_max > 0) else {
            return plain(response, &outgoing.url);
        };
        if followed == limits.redirects_max {
            let reason = format!("once more after {followed} redirects");
            return Err(Error::Redirect { place: place(&outgoing.url), reason });
        }
        followed += 1;
        let (guard, may_downgrade) = (&inner.guard, inner.may_downgrade);
        redirect::follow(outgoing, response.status(), location, guard, may_downgrade)?;
    }
}

/// Refuses a body that is compressed against the request.
fn plain(
    response: http::Response<hyper::body::Incoming>,
    url: &Url,
) -> Result<http::Response<hyper::body::Incoming>, Error> {
    let encoding = response.headers().get(header::CONTENT_ENCODING);
    match encoding.filter(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        None => Ok(response),
        Some(encoding) => {
            let encoding = String::from_utf8_lossy(encoding.as_bytes());
            let encoding = encoding.chars().take(40).collect();
            Err(Error::Encoded { place: place(url), encoding })
        }
    }
}
