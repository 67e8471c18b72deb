//! A request on its way to its server, and the answer on its way back.

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use outbound::{AddressClass, classify};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::answer::{Answer, Relayed};
use crate::audit::Seen;
use crate::exchange::{Exchange, Next};
use crate::headers;
use crate::proxy::too_slow;
use crate::refusal::Refusal;
use crate::rules::Rules;
use crate::rules::credential::{Credential, Placeholder, contains};
use crate::target::Target;

/// Largest head of an answer, which is also the read buffer of a connection: servers send at most
/// 8 to 16 KiB.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Headers of one answer: each cookie is one.
const HEADERS_MAX: usize = 200;

/// Where a request goes.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) target: Target,
    pub(crate) is_encrypted: bool,
    pub(crate) seen: Seen,
}

/// Judges a request, sends it over a connection of its own, and returns the head of the answer.
/// What became of it is in the record afterwards.
pub(crate) async fn forward(
    exchange: &Exchange,
    request: Request<Incoming>,
    mut route: Route,
) -> Result<Response<Answer>, Refusal> {
    match attempt(exchange, request, &mut route).await {
        Ok(response) => {
            route.seen.passed(Some(response.status().as_u16()));
            Ok(response)
        }
        Err(refusal) => {
            route.seen.refused(&refusal);
            Err(refusal)
        }
    }
}

async fn attempt(
    exchange: &Exchange,
    mut request: Request<Incoming>,
    route: &mut Route,
) -> Result<Response<Answer>, Refusal> {
    let (proxy, target) = (&exchange.proxy, &route.target);
    let is_web_socket = headers::asks_for_web_socket(&request);
    let guard = match is_web_socket {
        true => proxy.rules.web_socket(target)?,
        false => proxy.rules.request(target, request.method())?,
    };
    let credentials = proxy.rules.credentials_for(&target.place);
    no_placeholder(&request, &proxy.rules, &credentials)?;
    let client = is_web_socket.then(|| hyper::upgrade::on(&mut request));

    let limit = proxy.options.limits.connect_max;
    let due = Instant::now() + limit;
    let link = proxy.connect(target, &guard, &exchange.pulse).await?;
    let address = link.address.ip();
    route.seen.at(address);
    let is_near = matches!(
        classify(address),
        AddressClass::Loopback | AddressClass::Private | AddressClass::LinkLocal
    );
    if !route.is_encrypted && !is_near && !credentials.is_empty() {
        return Err(Refusal::forbidden(format!(
            "{} has a credential, which is not sent unencrypted: ask for https://",
            target.place
        )));
    }
    if !credentials.is_empty() {
        route.seen.with_credential();
    }

    let outgoing = outgoing(request, route, &credentials, client.is_some())?;
    let (response, connection) = if route.is_encrypted {
        let host = target.place.to_string();
        let encrypting = proxy.encryption.connect(link.wire, &host, target.port);
        let stream = match timeout_at(due, encrypting).await {
            Ok(stream) => stream.map_err(|error| Refusal::connecting(target, &error))?,
            Err(_) => return Err(too_slow(target, limit)),
        };
        send(exchange, target, stream, outgoing).await?
    } else {
        send(exchange, target, link.wire, outgoing).await?
    };
    returned(exchange, route, (response, connection), &credentials, client)
}

/// A placeholder is worth nothing to a server: whoever sends one in a place that is not filled in
/// should know, and not be told by the server's refusal.
fn no_placeholder(
    request: &Request<Incoming>,
    rules: &Rules,
    set: &[&Credential],
) -> Result<(), Refusal> {
    let uri = request.uri().to_string();
    for (Placeholder { variable, text: placeholder }, credential) in rules.placeholders() {
        let place = credential_place(credential);
        if contains(uri.as_bytes(), placeholder.as_bytes()) {
            return Err(Refusal::forbidden(format!(
                "the placeholder of {variable} stands in the address of the request: {place}"
            )));
        }
        let is_filled = |name: &HeaderName| set.iter().any(|other| other.header == *name);
        let holding = request.headers().iter().find(|(name, value)| {
            !is_filled(name) && contains(value.as_bytes(), placeholder.as_bytes())
        });
        if let Some((name, _)) = holding {
            return Err(Refusal::forbidden(format!(
                "the placeholder of {variable} stands in the header {name}: {place}"
            )));
        }
    }
    Ok(())
}

fn credential_place(credential: Option<&Credential>) -> String {
    match credential {
        Some(Credential { header, pattern, .. }) => {
            format!("it is filled in in {header} of requests to {pattern} alone")
        }
        None => "there is no credential for it any more".to_owned(),
    }
}

/// Writes the request anew for the server.
fn outgoing(
    request: Request<Incoming>,
    route: &Route,
    credentials: &[&Credential],
    is_web_socket: bool,
) -> Result<Request<Relayed>, Refusal> {
    let (parts, body) = request.into_parts();
    let usual_port = if route.is_encrypted { 443 } else { 80 };
    let host = HeaderValue::try_from(route.target.authority(usual_port))
        .map_err(|_| Refusal::malformed("the host is no header"))?;
    let mut headers = HeaderMap::with_capacity(parts.headers.len() + 2);
    headers.insert(header::HOST, host);
    let mut own = parts.headers;
    headers::clean_request(&mut own);
    headers.extend(own);
    if is_web_socket {
        ask_for_web_socket(&mut headers);
    }
    for credential in credentials {
        credential.set(&mut headers);
    }
    let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let path = if path.is_empty() { "/" } else { path };
    let uri: Uri =
        path.parse().map_err(|_| Refusal::malformed("the path of the request cannot be read"))?;
    let mut outgoing = Request::new(Relayed::request(body));
    *outgoing.method_mut() = parts.method;
    *outgoing.uri_mut() = uri;
    *outgoing.headers_mut() = headers;
    Ok(outgoing)
}

fn ask_for_web_socket(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// Sends a request over a fresh connection. Returns the head of the answer and the task that
/// moves its body.
async fn send<S>(
    exchange: &Exchange,
    target: &Target,
    stream: S,
    request: Request<Relayed>,
) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broke = |error: &hyper::Error| {
        Refusal::upstream(format!("the connection to {target} broke: {}", root(error)))
    };
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broke(&error))?;
    let moving = exchange.proxy.tasks.spawn(async move {
        // Whoever waits for the answer or its body is told.
        drop(connection.with_upgrades().await);
    });
    let moving = AbortOnDropHandle::new(moving);
    let limit = exchange.proxy.options.limits.silence_max;
    tokio::select! {
        sent = sender.send_request(request) => match sent {
            Ok(response) => Ok((response, moving)),
            Err(error) => Err(broke(&error)),
        },
        () = exchange.pulse.quiet(limit) => Err(Refusal::late(format!(
            "{target} said nothing for {}", stdx::duration(limit)
        ))),
    }
}

/// Writes the answer anew for the client.
fn returned(
    exchange: &Exchange,
    route: &Route,
    (mut response, connection): (Response<Incoming>, AbortOnDropHandle<()>),
    credentials: &[&Credential],
    client: Option<OnUpgrade>,
) -> Result<Response<Answer>, Refusal> {
    let is_switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let server = is_switching.then(|| hyper::upgrade::on(&mut response));
    let (parts, body) = response.into_parts();
    let mut headers = parts.headers;
    headers::clean_response(&mut headers);
    for credential in credentials {
        credential.hide(&mut headers);
    }
    let body = match (server, client) {
        (None, _) => Either::Right(Relayed::response(body, connection)),
        (Some(server), Some(client)) => {
            ask_for_web_socket(&mut headers);
            exchange.turn_into(Next::Joined { client, server, connection });
            Either::Left(Full::default())
        }
        (Some(_), None) => {
            let reason = format!("{} switched protocols unasked", route.target);
            return Err(Refusal::upstream(reason));
        }
    };
    // Neither the words behind the status nor what the stack attached go on.
    let mut response = Response::new(body);
    *response.status_mut() = parts.status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Returns the innermost cause: those around it only say that something failed.
fn root(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root)
}
