//! How this client becomes known to an authorization server.

use outbound::Client as Http;
use serde_json::{Value, json};
use stdx::Secret;

use super::discovery::{Issuer, secure};
use super::record::{Client, ClientAuth, ClientKind, Record};
use super::{AuthError, wire};
use crate::OAuthClient;

/// Returns this client as the issuer knows it: registered by hand, described in public, known from
/// before, or registered now, in this order.
///
/// # Errors
/// [`AuthError::Refused`] where there is no way, with what a person can do.
pub(super) async fn client(
    http: &Http,
    own: &OAuthClient,
    issuer: &Issuer,
    known: Option<&Record>,
    redirect_uri: &str,
) -> Result<Client, AuthError> {
    let redirect = redirect_uri.to_owned();
    if let Some(id) = &own.client_id {
        let auth = own.client_secret.as_ref().map_or(ClientAuth::None, |_| secret_auth(issuer));
        let (id, secret) = (id.clone(), own.client_secret.clone());
        return Ok(Client { id, secret, auth, kind: ClientKind::Manual, redirect_uri: redirect });
    }
    if let Some(url) = &own.client_metadata_url
        && issuer.client_id_metadata_document_supported
    {
        let (id, auth, kind) = (url.to_string(), ClientAuth::None, ClientKind::Document);
        return Ok(Client { id, secret: None, auth, kind, redirect_uri: redirect });
    }
    // What another issuer gave means nothing to this one.
    let known = known.filter(|record| record.issuer == issuer.issuer).map(|record| &record.client);
    let is_same = |client: &&Client| {
        client.kind == ClientKind::Dynamic && client.redirect_uri == redirect_uri
    };
    if let Some(client) = known.filter(is_same) {
        return Ok(client.clone());
    }
    let Some(endpoint) = &issuer.registration_endpoint else {
        let reason = "the authorization server does not register clients by itself: register one \
                      there by hand and set oauth.client_id of the server";
        return Err(AuthError::Refused(reason.to_owned()));
    };
    register(http, issuer, endpoint, redirect).await
}

async fn register(
    http: &Http,
    issuer: &Issuer,
    endpoint: &str,
    redirect_uri: String,
) -> Result<Client, AuthError> {
    let endpoint = secure(endpoint, "the registration endpoint")?;
    let wanted = wanted_auth(issuer);
    let body = json!({
        "client_name": "Narthex",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": name(wanted),
        "application_type": "native",
    });
    let request = wire::post(http, &endpoint, "application/json", body.to_string());
    let answer = wire::answer("registration", request.send().await?).await?;
    let text = |key: &str| answer.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let Some(id) = text("client_id") else {
        return Err(AuthError::Refused("the registration endpoint gave no client_id".to_owned()));
    };
    let secret = text("client_secret").map(|secret| Secret::new(secret.to_owned()));
    let auth = match text("token_endpoint_auth_method") {
        Some("none") => ClientAuth::None,
        Some("client_secret_post") => ClientAuth::Post,
        Some("client_secret_basic") => ClientAuth::Basic,
        _ => wanted,
    };
    // A method that needs a secret is worth nothing without one.
    let auth = if secret.is_none() { ClientAuth::None } else { auth };
    let kind = ClientKind::Dynamic;
    Ok(Client { id: id.to_owned(), secret, auth, kind, redirect_uri })
}

/// Chooses how to ask to be known: a program on a person's machine keeps no secret from them, so
/// none is best where it is offered.
fn wanted_auth(issuer: &Issuer) -> ClientAuth {
    match &issuer.token_endpoint_auth_methods_supported {
        None => ClientAuth::None,
        Some(methods) if methods.iter().any(|method| method == "none") => ClientAuth::None,
        Some(_) => secret_auth(issuer),
    }
}

/// Chooses how to send a secret.
fn secret_auth(issuer: &Issuer) -> ClientAuth {
    let methods = issuer.token_endpoint_auth_methods_supported.as_deref();
    let has = |name: &str| methods.is_none_or(|methods| methods.iter().any(|own| own == name));
    if has("client_secret_basic") || !has("client_secret_post") {
        ClientAuth::Basic
    } else {
        ClientAuth::Post
    }
}

fn name(auth: ClientAuth) -> &'static str {
    match auth {
        ClientAuth::None => "none",
        ClientAuth::Basic => "client_secret_basic",
        ClientAuth::Post => "client_secret_post",
    }
}
