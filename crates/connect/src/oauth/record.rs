//! What is kept of an authorization.

use serde::{Deserialize, Serialize};
use stdx::Secret;

/// All that is known of this client at a server's authorization server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// What the token is for: the server as it calls itself.
    pub(super) resource: String,
    /// Who gave it; clients and tokens of one issuer never go to another.
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) client: Client,
    pub(super) token: Option<Token>,
}

/// This client, as the issuer knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_secret")]
    pub(super) secret: Option<Secret<String>>,
    pub(super) auth: ClientAuth,
    pub(super) kind: ClientKind,
    pub(super) redirect_uri: String,
}

/// How the client says at the token endpoint who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientAuth {
    None,
    Basic,
    Post,
}

/// How the issuer came to know the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientKind {
    /// Registered by hand.
    Manual,
    /// By a description that is published.
    Document,
    /// By asking for it.
    Dynamic,
}

/// A token and what replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    #[serde(with = "secret")]
    pub(super) access: Secret<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_secret")]
    pub(super) refresh: Option<Secret<String>>,
    /// Milliseconds since the epoch; none where the issuer did not say.
    pub(super) expires_at_ms: Option<i64>,
    /// The rights that were asked for or granted.
    pub(super) scopes: Vec<String>,
}

/// The one place where these secrets are written out: the private file.
mod secret {
    use serde::{Deserialize, Deserializer, Serializer};
    use stdx::Secret;

    pub(super) fn serialize<S: Serializer>(
        secret: &Secret<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Secret<String>, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

mod optional_secret {
    use serde::{Deserialize, Deserializer, Serializer};
    use stdx::Secret;

    pub(super) fn serialize<S: Serializer>(
        secret: &Option<Secret<String>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => serializer.serialize_some(secret.expose()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Secret<String>>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
    }
}
