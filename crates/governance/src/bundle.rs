//! Signed bundles: what an organisation sends as a further governing layer.
//!
//! An envelope holds a bundle, the signature over its canonical form (RFC 8785, Ed25519), and a
//! name of the key. What a bundle may say is what managed settings say about calls, modes and
//! models. Keys beyond that which would give whoever sends bundles more to decide are taken out
//! and named: `remotePolicy*` and `embed`, with which a bundle would choose who may send the next,
//! and `hooks`, which are programs to run: that is no tightening. Any other unknown key refuses the
//! bundle, since a rule that is not understood would be a rule that does not hold.

mod envelope;

use std::fmt;

use policy::{Layer, LayerName, Policy, covers_models};
use protocol::{Mode, Timestamp};
use serde_json::{Map, Value};

use crate::{PrivateKey, PublicKey, canonical, managed};

pub use envelope::Envelope;

/// The largest envelope, in bytes.
pub const ENVELOPE_BYTES_MAX: usize = 1 << 20;

/// How far in the future a bundle may be issued, in milliseconds: clocks of two machines differ.
const CLOCK_SKEW_MS: i64 = 300_000;

/// The longest id, in bytes.
const ID_BYTES_MAX: usize = 200;

/// Why a bundle is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It has no signature.
    Unsigned,
    /// Its signature is of none of the keys that count.
    BadSignature,
    /// It names a key that does not count, or there is none that does.
    UnknownKey,
    /// Its time is over.
    Expired,
    /// It was issued in the future.
    NotYetValid,
    /// It is no bundle, or holds a key or value that is not understood.
    Malformed,
    /// A newer one of the same id is in force, or another of the same version.
    Stale,
    /// It names what a stronger layer does not let.
    Widening,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 8] = [
        Reason::Unsigned,
        Reason::BadSignature,
        Reason::UnknownKey,
        Reason::Expired,
        Reason::NotYetValid,
        Reason::Malformed,
        Reason::Stale,
        Reason::Widening,
    ];

    /// Returns the name that programs read. It never changes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Unsigned => "unsigned",
            Reason::BadSignature => "bad_signature",
            Reason::UnknownKey => "unknown_key",
            Reason::Expired => "expired",
            Reason::NotYetValid => "not_yet_valid",
            Reason::Malformed => "malformed",
            Reason::Stale => "stale",
            Reason::Widening => "widening",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Rejection {
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people.
    pub message: String,
}

impl Rejection {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// A bundle whose form is right. Nothing is said about who made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// Its version, from 1 on; a higher one takes the place of a lower one of the same id.
    pub version: u64,
    /// Which bundle it is a version of.
    pub id: String,
    /// When it was made.
    pub issued_at: Timestamp,
    /// When it ends to hold.
    pub expires_at: Option<Timestamp>,
    /// Its settings as they came.
    pub settings: Map<String, Value>,
    /// The text that is signed.
    canonical: String,
}

impl Bundle {
    /// Reads a bundle: `version`, `id`, `issuedAt`, `expiresAt` where it ends, and `settings`.
    ///
    /// # Errors
    /// [`Reason::Malformed`], with what is wrong.
    pub fn from_value(value: &Value) -> Result<Self, Rejection> {
        let wrong = |what: String| Rejection::new(Reason::Malformed, what);
        let map = value.as_object().ok_or_else(|| wrong("the bundle is no object".into()))?;
        let known = ["version", "id", "issuedAt", "expiresAt", "settings"];
        if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(wrong(format!("unknown key '{key}' of the bundle")));
        }
        let version = map.get("version").and_then(Value::as_u64).filter(|version| *version >= 1);
        let version = version.ok_or_else(|| wrong("'version' must be 1 or more".into()))?;
        let id = map.get("id").and_then(Value::as_str).unwrap_or_default();
        if id.is_empty() || id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
            return Err(wrong(format!("'id' must be a text of 1 to {ID_BYTES_MAX} bytes")));
        }
        let time = |key: &str| match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_str().and_then(|text| text.parse().ok()) {
                Some(time) => Ok(Some(time)),
                None => Err(wrong(format!("'{key}' must be a time such as 2026-11-30T12:00:00Z"))),
            },
        };
        let issued_at: Timestamp =
            time("issuedAt")?.ok_or_else(|| wrong("'issuedAt' is missing".into()))?;
        let expires_at: Option<Timestamp> = time("expiresAt")?;
        let settings = map.get("settings").and_then(Value::as_object);
        let settings = settings.ok_or_else(|| wrong("'settings' must be an object".into()))?;
        let canonical = canonical::write(value).map_err(wrong)?;
        if canonical.len() > ENVELOPE_BYTES_MAX {
            return Err(wrong(format!("the bundle is longer than {ENVELOPE_BYTES_MAX} bytes")));
        }
        let (id, settings) = (id.to_owned(), settings.clone());
        Ok(Self { version, id, issued_at, expires_at, settings, canonical })
    }

    /// Tells whether its time is over.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Takes out what no bundle may say, and returns the rest and the names of what was taken.
    fn stripped(&self) -> (Map<String, Value>, Vec<String>) {
        let mut kept = Map::new();
        let mut stripped = Vec::new();
        for (key, value) in &self.settings {
            match (key.as_str(), value) {
                ("embed", Value::Object(inner)) if !inner.is_empty() => {
                    stripped.extend(inner.keys().map(|inner| format!("embed.{inner}")));
                }
                (name, _)
                    if name.starts_with("remotePolicy")
                        || ["embed", "hooks"].contains(&name)
                        || name.starts_with("embed.") =>
                {
                    stripped.push(key.clone());
                }
                _ => drop(kept.insert(key.clone(), value.clone())),
            }
        }
        (kept, stripped)
    }
}

/// What a bundle is held against.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The layer that it is to be: [`LayerName::Remote`] or [`LayerName::Pushed`].
    pub layer: LayerName,
    /// The keys whose signature counts.
    pub keys: &'a [PublicKey],
    /// Whether it needs no signature. One with a wrong signature is refused still.
    pub accepts_unsigned: bool,
    /// The time.
    pub now: Timestamp,
    /// The bundle of the same source that is in force, or was before its time was over: no older
    /// version of it counts.
    pub in_force: Option<&'a Bundle>,
    /// The policy that it would join: its stronger layers bind the bundle.
    pub policy: &'a Policy,
}

/// A bundle that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The bundle.
    pub bundle: Bundle,
    /// What it says, ready for [`Policy::tighten`].
    pub layer: Layer,
    /// The settings that were taken out.
    pub stripped_keys: Vec<String>,
    /// The key that signed it; none for one that needed no signature.
    pub signed_by: Option<PublicKey>,
}

/// Makes a key pair of 32 bytes, which have to come from the system's source of randomness.
#[must_use]
pub fn keygen(random: &[u8; 32]) -> PrivateKey {
    PrivateKey::from_random(random)
}

/// Signs a bundle, after a look at whether anybody would take it.
///
/// # Errors
/// [`Reason::Malformed`] for a bundle that is none, or holds settings that no bundle may hold or
/// that are not understood.
pub fn sign(bundle: &Value, key: &PrivateKey) -> Result<Envelope, Rejection> {
    let form = Bundle::from_value(bundle)?;
    // Whoever is sent one finds it expired; whoever signs it has made a mistake.
    if form.expires_at.is_some_and(|end| end <= form.issued_at) {
        let message = "'expiresAt' is not after 'issuedAt'";
        return Err(Rejection::new(Reason::Malformed, message));
    }
    let (settings, stripped) = form.stripped();
    if !stripped.is_empty() {
        let message = format!("no bundle may set {}", stripped.join(", "));
        return Err(Rejection::new(Reason::Malformed, message));
    }
    layer(LayerName::Remote, &settings)?;
    Ok(Envelope {
        signature: Some(key.sign(&form.canonical)),
        key_id: Some(key.public().id()),
        bundle: bundle.clone(),
    })
}

/// Says whether a bundle holds.
///
/// Who made it is looked at first, so that a stranger learns nothing but that; then what it says.
///
/// # Errors
/// Every [`Reason`]. Nothing changes then: the bundle in force stays.
pub fn verify(envelope: &Envelope, terms: &Terms<'_>) -> Result<Accepted, Rejection> {
    let bundle = Bundle::from_value(&envelope.bundle)?;
    let signed_by = signer(envelope, &bundle, terms)?;
    let refuse = |reason, message: String| Err(Rejection::new(reason, message));
    if bundle.issued_at > terms.now.plus_ms(CLOCK_SKEW_MS) {
        let message = format!("it was issued at {}, which is in the future", bundle.issued_at);
        return refuse(Reason::NotYetValid, message);
    }
    if let Some(end) = bundle.expires_at.filter(|_| bundle.is_expired(terms.now)) {
        return refuse(Reason::Expired, format!("it held until {end}"));
    }
    let (settings, stripped_keys) = bundle.stripped();
    let layer = layer(terms.layer, &settings)?;
    if let Some(other) = terms.in_force.filter(|other| other.id == bundle.id) {
        let (version, newest, id) = (bundle.version, other.version, &bundle.id);
        if version < newest {
            let message =
                format!("version {version} of '{id}' is older than {newest}, which came before");
            return refuse(Reason::Stale, message);
        }
        if version == newest && other.canonical != bundle.canonical {
            let message = format!("another version {version} of '{id}' came before");
            return refuse(Reason::Stale, message);
        }
    }
    if let Some(message) = widening(&layer, terms.policy) {
        return refuse(Reason::Widening, message);
    }
    Ok(Accepted { bundle, layer, stripped_keys, signed_by })
}

/// Reads a bundle that one of these keys has signed, whether its time is over or not, and whatever
/// it says: how far its source had come when it was taken. Nothing of it holds by this.
///
/// # Errors
/// [`Reason::Malformed`] for what is none, and every reason of a signature.
pub fn signed(envelope: &Envelope, keys: &[PublicKey]) -> Result<Bundle, Rejection> {
    let bundle = Bundle::from_value(&envelope.bundle)?;
    let terms = Terms {
        layer: LayerName::Remote,
        keys,
        accepts_unsigned: false,
        now: bundle.issued_at,
        in_force: None,
        policy: &Policy::default(),
    };
    signer(envelope, &bundle, &terms)?;
    Ok(bundle)
}

/// Finds the key that signed.
fn signer(
    envelope: &Envelope,
    bundle: &Bundle,
    terms: &Terms<'_>,
) -> Result<Option<PublicKey>, Rejection> {
    let Some(signature) = &envelope.signature else {
        let message = "it has no signature".to_owned();
        let refusal = Rejection::new(Reason::Unsigned, message);
        return if terms.accepts_unsigned { Ok(None) } else { Err(refusal) };
    };
    let bytes = envelope::signature_bytes(signature);
    let has_signed = |key: &&PublicKey| {
        bytes.as_ref().is_some_and(|bytes| key.has_signed(&bundle.canonical, bytes))
    };
    if let Some(key) = terms.keys.iter().find(has_signed) {
        return Ok(Some(*key));
    }
    let is_known = |id: &String| terms.keys.iter().any(|key| key.id() == *id);
    let (reason, message) = match &envelope.key_id {
        _ if bytes.is_none() => {
            (Reason::BadSignature, "the signature is no base64 text of 64 bytes".to_owned())
        }
        _ if terms.keys.is_empty() => {
            (Reason::UnknownKey, "the managed settings name no key for it".to_owned())
        }
        Some(id) if !is_known(id) => {
            let message = format!("it is signed with the key '{id}', which does not count here");
            (Reason::UnknownKey, message)
        }
        _ => (Reason::BadSignature, "the signature fits none of the keys that count".to_owned()),
    };
    Err(Rejection::new(reason, message))
}

fn layer(name: LayerName, settings: &Map<String, Value>) -> Result<Layer, Rejection> {
    managed::layer_of_bundle(name, settings)
        .map_err(|what| Rejection::new(Reason::Malformed, format!("settings: {what}")))
}

/// Says what of a layer a stronger one does not let. By its nature a layer cannot widen; one that
/// names what it cannot have is refused all the same, so that whoever wrote it learns of it.
fn widening(layer: &Layer, policy: &Policy) -> Option<String> {
    let above = || policy.layers().filter(|other| other.name < layer.name);
    if let Some(mode) = layer.locked_mode {
        let locks = above().filter_map(|other| Some((other.name, other.locked_mode?)));
        let tightest = locks.min_by_key(|(_, locked)| *locked);
        if let Some((name, locked)) = tightest.filter(|(_, locked)| mode > *locked) {
            return Some(format!("it locks the mode '{mode}', the {name} lock '{locked}'"));
        }
        if let Some(other) = above().find(|other| other.disable_full_auto)
            && mode == Mode::FullAuto
        {
            return Some(format!(
                "it locks the mode 'full-auto', which the {} disable",
                other.name
            ));
        }
        // There is no wider mode that such a lock could keep anybody from.
        if mode == Mode::FullAuto && tightest.is_none() {
            return Some("it locks the mode 'full-auto', which forbids only tighter ones".into());
        }
    }
    for model in layer.models.iter().flatten() {
        let is_listed = |list: &Vec<String>| list.iter().any(|wide| covers_models(wide, model));
        let refusing = above().find(|other| other.models.as_ref().is_some_and(|it| !is_listed(it)));
        if let Some(other) = refusing {
            return Some(format!("it allows the model '{model}', the {} do not", other.name));
        }
    }
    None
}
