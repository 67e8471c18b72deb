//! The token endpoint.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outbound::{Client as Http, HeaderValue, header};
use serde_json::Value;
use stdx::Secret;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::challenge::scopes;
use super::discovery::secure;
use super::record::{Client, ClientAuth, Record, Token};
use super::{AuthError, wire};

/// The longest life of a token that is believed, in seconds.
const LIFE_SECONDS_MAX: i64 = 10 * 365 * 24 * 60 * 60;

/// Replaces a token by the one that its refresh token gives.
///
/// # Errors
/// Any of [`AuthError`].
pub(super) async fn refresh(
    http: &Http,
    record: &Record,
    refresh: &Secret<String>,
    now_ms: i64,
) -> Result<Token, AuthError> {
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh.expose().as_str()),
        ("resource", record.resource.as_str()),
    ];
    ask(http, &record.token_endpoint, &record.client, &fields, now_ms).await
}

/// Redeems a code.
///
/// # Errors
/// Any of [`AuthError`].
pub(super) async fn redeem(
    http: &Http,
    record: &Record,
    code: &Secret<String>,
    verifier: &Secret<String>,
    now_ms: i64,
) -> Result<Token, AuthError> {
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code.expose().as_str()),
        ("redirect_uri", record.client.redirect_uri.as_str()),
        ("code_verifier", verifier.expose().as_str()),
        ("resource", record.resource.as_str()),
    ];
    ask(http, &record.token_endpoint, &record.client, &fields, now_ms).await
}

async fn ask(
    http: &Http,
    endpoint: &str,
    client: &Client,
    fields: &[(&str, &str)],
    now_ms: i64,
) -> Result<Token, AuthError> {
    let endpoint = secure(endpoint, "the token endpoint")?;
    let (body, login) = form(client, fields);
    let mut request = wire::post(http, &endpoint, "application/x-www-form-urlencoded", body);
    if let Some(mut login) = login {
        login.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, login);
    }
    read(&wire::answer("token", request.send().await?).await?, now_ms)
}

/// Writes a request, and the header that says who sends it where one does.
fn form(client: &Client, fields: &[(&str, &str)]) -> (String, Option<HeaderValue>) {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(fields);
    let mut login = None;
    match (&client.secret, client.auth) {
        (Some(secret), ClientAuth::Basic) => {
            let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encoded(&client.id), encoded(secret.expose()));
            login = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok();
        }
        (Some(secret), ClientAuth::Post) => {
            form.append_pair("client_id", &client.id).append_pair("client_secret", secret.expose());
        }
        (_, ClientAuth::None) | (None, _) => {
            form.append_pair("client_id", &client.id);
        }
    }
    (form.finish(), login)
}

fn read(answer: &Value, now_ms: i64) -> Result<Token, AuthError> {
    let text = |key: &str| answer.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let secret = |key: &str| text(key).map(|text| Secret::new(text.to_owned()));
    let refused = |reason: &str| AuthError::Refused(format!("the token endpoint {reason}"));
    let access = secret("access_token").ok_or_else(|| refused("gave no access_token"))?;
    if !text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(refused("gave a token that is no bearer token"));
    }
    let seconds = answer.get("expires_in").and_then(|value| {
        // Some servers write the number as a text.
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    });
    let expires_at_ms = seconds.map(|seconds| {
        now_ms.saturating_add(seconds.clamp(0, LIFE_SECONDS_MAX).saturating_mul(1_000))
    });
    let scopes = text("scope").map(scopes).unwrap_or_default();
    Ok(Token { access, refresh: secret("refresh_token"), expires_at_ms, scopes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_read_with_care() {
        let token = read(
            &json!({"access_token": "a", "token_type": "bearer", "expires_in": "60",
                    "refresh_token": "", "scope": "x y"}),
            1_000,
        )
        .unwrap();
        assert_eq!((token.access.expose().as_str(), token.expires_at_ms), ("a", Some(61_000)));
        assert_eq!((token.refresh, token.scopes.len()), (None, 2));
        let far = read(&json!({"access_token": "a", "expires_in": i64::MAX}), 0).unwrap();
        assert_eq!(far.expires_at_ms, Some(LIFE_SECONDS_MAX * 1_000));
        for wrong in [json!({}), json!({"access_token": "a", "token_type": "mac"})] {
            assert!(read(&wrong, 0).is_err(), "{wrong}");
        }
    }
}
