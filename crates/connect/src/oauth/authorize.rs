//! A person authorizes this client: from the server's description to a token that is kept.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driver_api::Fault;
use outbound::{Url, header};
use sha2::{Digest, Sha256};
use stdx::Secret;

use super::challenge::Challenge;
use super::discovery::{self, Issuer, secure};
use super::record::Record;
use super::{AuthError, Redirect, Tokens, registration, token, wire};
use crate::words::cut;

/// The right to a refresh token, at servers that ask for it by name.
const OFFLINE: &str = "offline_access";

impl Tokens {
    /// Leads a person through the authorization and keeps the token.
    ///
    /// # Errors
    /// Any of [`AuthError`]; what was kept before stays then.
    pub(crate) async fn authorize(&self, redirect: &dyn Redirect) -> Result<(), AuthError> {
        // A token that anybody on the way can read is no protection.
        secure(self.server.as_str(), "the server")?;
        let challenge = match self.challenge() {
            Some(challenge) => challenge,
            None => self.knock().await?,
        };
        let known = self.store.read().await?;
        let resource = discovery::resource(&self.http, &self.server, &challenge).await?;
        let named = resource.issuer.as_deref();
        let issuer = discovery::issuer(&self.http, &self.server, named).await?;
        let redirect_uri = redirect.uri();
        let (http, own) = (&self.http, &self.client);
        let client = registration::client(http, own, &issuer, known.as_ref(), redirect_uri).await?;
        let granted = known.as_ref().filter(|record| record.issuer == issuer.issuer);
        let granted = granted.and_then(|record| record.token.as_ref());
        let before = granted.map(|token| token.scopes.as_slice()).unwrap_or_default();
        let scopes = self.scopes(&challenge, &resource.scopes, &issuer, before);
        let mut record = Record {
            resource: resource.resource,
            issuer: issuer.issuer.clone(),
            token_endpoint: issuer.token_endpoint.clone(),
            client,
            token: None,
        };
        let proof = Proof::new()?;
        let address = address(&issuer, &record, &scopes, &proof)?;
        let back = redirect.visit(&address).await?;
        let code = code(&back, &issuer, &proof)?;
        let now_ms = self.clock.now().0;
        let mut token = token::redeem(http, &record, &code, &proof.verifier, now_ms).await?;
        if token.scopes.is_empty() {
            token.scopes = scopes;
        }
        record.token = Some(token);
        // In the order of a refresh, which may want both at the same time.
        let mut known = self.known.lock().await;
        let lock = self.store.lock(&*self.clock).await?;
        self.store.write(&record).await?;
        *known = Some(record);
        drop(lock);
        Ok(())
    }

    /// Asks the server without a token what it wants.
    async fn knock(&self) -> Result<Challenge, AuthError> {
        let headers = wire::knock(&self.http, &self.server).await?;
        let header = headers.get(header::WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        Ok(Challenge::read(header.unwrap_or_default()))
    }

    /// Chooses the rights to ask for: those of the settings, else those that the server wants now,
    /// else all that it knows. What was granted before is asked for again, so that a step up takes
    /// nothing away.
    fn scopes(
        &self,
        challenge: &Challenge,
        known: &[String],
        issuer: &Issuer,
        before: &[String],
    ) -> Vec<String> {
        let mut scopes: Vec<String> = if !self.client.scopes.is_empty() {
            self.client.scopes.clone()
        } else if !challenge.scopes.is_empty() {
            challenge.scopes.clone()
        } else {
            known.to_vec()
        };
        if challenge.is_insufficient_scope() {
            let wanted = challenge.scopes.iter().chain(before);
            scopes.extend(wanted.cloned());
        }
        if issuer.scopes_supported.iter().any(|scope| scope == OFFLINE) {
            scopes.push(OFFLINE.to_owned());
        }
        let mut seen = std::collections::HashSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }
}

/// What proves that the answer belongs to the question.
struct Proof {
    state: String,
    verifier: Secret<String>,
}

impl Proof {
    fn new() -> Result<Self, AuthError> {
        let random = || -> Result<String, AuthError> {
            let mut bytes = [0u8; 32];
            getrandom::fill(&mut bytes)
                .map_err(|error| Fault::new(format!("get random bytes: {error}")))?;
            Ok(URL_SAFE_NO_PAD.encode(bytes))
        };
        Ok(Self { state: random()?, verifier: Secret::new(random()?) })
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.expose().as_bytes()))
    }
}

/// Builds the address that the person opens.
fn address(
    issuer: &Issuer,
    record: &Record,
    scopes: &[String],
    proof: &Proof,
) -> Result<Url, AuthError> {
    let mut url = secure(&issuer.authorization_endpoint, "the authorization endpoint")?;
    {
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &record.client.id)
            .append_pair("redirect_uri", &record.client.redirect_uri)
            .append_pair("state", &proof.state)
            .append_pair("code_challenge", &proof.challenge())
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &record.resource);
        if !scopes.is_empty() {
            query.append_pair("scope", &scopes.join(" "));
        }
        // Without it some servers give no refresh token for this right.
        if scopes.iter().any(|scope| scope == OFFLINE) {
            query.append_pair("prompt", "consent");
        }
    }
    Ok(url)
}

/// Reads the address that the person came back with.
fn code(back: &Url, issuer: &Issuer, proof: &Proof) -> Result<Secret<String>, AuthError> {
    let field = |key: &str| {
        back.query_pairs().find(|(name, _)| name == key).map(|(_, value)| value.into_owned())
    };
    let refused = |reason: &str| AuthError::Refused(reason.to_owned());
    if field("state").as_deref() != Some(proof.state.as_str()) {
        return Err(refused("the answer belongs to another question: its state is not ours"));
    }
    match field("iss") {
        Some(own) if own != issuer.issuer => {
            return Err(refused("the answer comes from another authorization server"));
        }
        None if issuer.authorization_response_iss_parameter_supported => {
            return Err(refused("the answer does not say which authorization server it is from"));
        }
        _ => {}
    }
    if let Some(error) = field("error") {
        let description = field("error_description").map(|text| cut(&text, 300));
        return Err(AuthError::Denied { code: cut(&error, 100), description });
    }
    field("code").map(Secret::new).ok_or_else(|| refused("the answer holds no code"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(says_iss: bool) -> Issuer {
        serde_json::from_value(serde_json::json!({
            "issuer": "https://a.example", "authorization_endpoint": "https://a.example/a?x=1",
            "token_endpoint": "https://a.example/t",
            "authorization_response_iss_parameter_supported": says_iss,
        }))
        .unwrap()
    }

    #[test]
    fn an_answer_is_believed_only_with_our_state_from_the_right_issuer() {
        let proof = Proof { state: "s".to_owned(), verifier: Secret::new("v".to_owned()) };
        for (query, says_iss, expected) in [
            ("code=c&state=s", false, Ok("c")),
            ("code=c&state=s&iss=https%3A%2F%2Fa.example", true, Ok("c")),
            ("code=c&state=s&iss=https%3A%2F%2Fa.example", false, Ok("c")),
            ("code=c&state=s", true, Err("the answer does not say which")),
            ("code=c&state=s&iss=https%3A%2F%2Fa.example%2F", true, Err("the answer comes from")),
            ("code=c&state=s&iss=x", false, Err("the answer comes from another")),
            ("code=c&state=t", false, Err("the answer belongs to another question")),
            ("code=c", false, Err("the answer belongs to another question")),
            ("state=s", false, Err("the answer holds no code")),
            ("error=access_denied&state=s", false, Err("the authorization server answered access")),
        ] {
            let back: Url = format!("http://127.0.0.1:1/cb?{query}").parse().unwrap();
            let read = code(&back, &issuer(says_iss), &proof).map_err(|error| error.to_string());
            match (read, expected) {
                (Ok(code), Ok(expected)) => assert_eq!(code.expose(), expected),
                (Err(error), Err(expected)) => assert!(error.starts_with(expected), "{error}"),
                (read, expected) => panic!("{query}: {read:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn the_challenge_is_the_hash_of_the_verifier() {
        // The example of RFC 7636, appendix B.
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned());
        let proof = Proof { state: String::new(), verifier };
        assert_eq!(proof.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
