//! Managed settings: the JSON file with which an organisation governs a machine.

use std::str::FromStr;

use policy::{Layer, LayerName, Rule, nearest};
use protocol::Mode;
use serde_json::{Map, Value};

use crate::{KeyError, PublicKey, canonical};

/// The most entries of one list. A longer one is a mistake of a program that wrote the file.
const ENTRIES_MAX: usize = 1000;

/// How often the remote policy is fetched where nothing is said, in milliseconds.
const REFRESH_MS: u64 = 3_600_000;

/// The shortest and the longest time between two fetches, in milliseconds: a server that is asked
/// more than once a second, or less than once in four weeks, is a mistake in the unit.
const REFRESH_MS_RANGE: std::ops::RangeInclusive<u64> = 1_000..=2_419_200_000;

/// The keys at the top of the file.
const KEYS: [&str; 9] = [
    "disableFullAuto",
    "permissions",
    "models",
    "remotePolicyUrl",
    "remotePolicyPublicKey",
    "remotePolicyRefreshMs",
    "remotePolicyRequired",
    "embed",
    "hooks",
];

const PERMISSIONS_KEYS: [&str; 5] = ["mode", "allow", "ask", "deny", "allowPersist"];
const MODELS_KEYS: [&str; 1] = ["allowed"];
const EMBED_KEYS: [&str; 2] = ["hostPolicyPublicKeys", "trustHostPolicy"];

/// The managed settings of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Managed {
    /// What they say about calls, modes and models.
    pub layer: Layer,
    /// The key of the organisation, for remote and pushed bundles alike.
    pub remote_key: Option<PublicKey>,
    /// Where the organisation's bundle is fetched.
    pub remote: Option<RemotePolicy>,
    /// What a host that embeds the program may do.
    pub embed: Embed,
    /// The hooks, for their own reader.
    pub hooks: Option<Value>,
}

/// Where the organisation's bundle is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePolicy {
    /// The address.
    pub url: String,
    /// The key that its bundles are signed with.
    pub key: PublicKey,
    /// How often it is fetched, in milliseconds.
    pub refresh_ms: u64,
    /// Whether nothing runs without a bundle that holds.
    pub is_required: bool,
}

/// What a host that embeds the program may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embed {
    /// Further keys that pushed bundles may be signed with.
    pub host_keys: Vec<PublicKey>,
    /// Whether a pushed bundle needs no signature. One with a wrong signature is refused still.
    pub trust_host: bool,
}

impl Managed {
    /// Reads the file.
    ///
    /// Its keys are `disableFullAuto`, `permissions` (`mode`, `allow`, `ask`, `deny`,
    /// `allowPersist`), `models` (`allowed`), `remotePolicyUrl`, `remotePolicyPublicKey`,
    /// `remotePolicyRefreshMs`, `remotePolicyRequired`, `embed` (`hostPolicyPublicKeys`,
    /// `trustHostPolicy`) and `hooks`. `permissions.allowPersist: false` keeps every "always" to
    /// its session.
    ///
    /// # Errors
    /// A text that names the key, and the nearest one for a key that is unknown. A file that
    /// governs is not half read: a misspelt key would be a rule that does not hold.
    pub fn parse(text: &str) -> Result<Managed, String> {
        let value = canonical::read(text).map_err(|error| format!("not valid JSON: {error}"))?;
        let settings = object(&value, "the settings")?;
        let mut layer = Layer::new(LayerName::Managed);
        let (mut url, mut key, mut embed) = (None, None, Embed::default());
        let (mut refresh_ms, mut is_required, mut hooks) = (None, false, None);
        for (name, value) in settings {
            match name.as_str() {
                "remotePolicyUrl" => url = Some(address(name, value)?),
                "remotePolicyPublicKey" => key = Some(read::<PublicKey>(name, value)?),
                "remotePolicyRefreshMs" => refresh_ms = Some(period(name, value)?),
                "remotePolicyRequired" => is_required = flag(name, value)?,
                "embed" => embed = self::embed(object(value, "'embed'")?)?,
                "hooks" => hooks = Some(value.clone()),
                _ => of_layer(&mut layer, name, value, &KEYS)?,
            }
        }
        let remote = match (url, key) {
            (Some(url), Some(key)) => {
                let refresh_ms = refresh_ms.unwrap_or(REFRESH_MS);
                Some(RemotePolicy { url, key, refresh_ms, is_required })
            }
            (Some(_), None) => {
                return Err("'remotePolicyUrl' needs 'remotePolicyPublicKey' beside it".into());
            }
            (None, _) if is_required => {
                return Err("'remotePolicyRequired' needs 'remotePolicyUrl' beside it".into());
            }
            (None, _) => None,
        };
        Ok(Managed { layer, remote_key: key, remote, embed, hooks })
    }

    /// Returns the keys that a pushed bundle may be signed with.
    #[must_use]
    pub fn host_keys(&self) -> Vec<PublicKey> {
        self.remote_key.iter().chain(&self.embed.host_keys).copied().collect()
    }
}

/// Reads the settings of a bundle: what managed settings say about calls, modes and models.
///
/// # Errors
/// As [`Managed::parse`].
pub(crate) fn layer_of_bundle(
    name: LayerName,
    settings: &Map<String, Value>,
) -> Result<Layer, String> {
    let mut layer = Layer::new(name);
    for (key, value) in settings {
        of_layer(&mut layer, key, value, &["disableFullAuto", "permissions", "models"])?;
    }
    Ok(layer)
}

/// Reads a key that speaks of calls, modes or models.
fn of_layer(
    layer: &mut Layer,
    key: &str,
    value: &Value,
    known: &[&'static str],
) -> Result<(), String> {
    match key {
        "disableFullAuto" => layer.disable_full_auto = flag(key, value)?,
        "permissions" => permissions(layer, object(value, "'permissions'")?)?,
        "models" => {
            for (key, value) in object(value, "'models'")? {
                let name = format!("models.{key}");
                match key.as_str() {
                    "allowed" => layer.models = Some(list(&name, value)?),
                    _ => return Err(unknown(&name, key, &MODELS_KEYS)),
                }
            }
        }
        _ => return Err(unknown(key, key, known)),
    }
    Ok(())
}

fn permissions(layer: &mut Layer, permissions: &Map<String, Value>) -> Result<(), String> {
    for (key, value) in permissions {
        let name = format!("permissions.{key}");
        match key.as_str() {
            "mode" => layer.locked_mode = Some(read::<Mode>(&name, value)?),
            "allow" => {
                layer.allow = rules(&name, value)?;
                // An empty list is a list: nothing may be allowed.
                layer.is_allow_list = true;
            }
            "ask" => layer.ask = rules(&name, value)?,
            "deny" => layer.deny = rules(&name, value)?,
            "allowPersist" => layer.disable_persist = !flag(&name, value)?,
            _ => return Err(unknown(&name, key, &PERMISSIONS_KEYS)),
        }
    }
    Ok(())
}

fn embed(settings: &Map<String, Value>) -> Result<Embed, String> {
    let mut embed = Embed::default();
    for (key, value) in settings {
        let name = format!("embed.{key}");
        match key.as_str() {
            "trustHostPolicy" => embed.trust_host = flag(&name, value)?,
            "hostPolicyPublicKeys" => {
                let keys = list(&name, value)?;
                let keys = keys.iter().map(|key| key.parse());
                embed.host_keys = keys
                    .collect::<Result<_, _>>()
                    .map_err(|error: KeyError| format!("'{name}': {error}"))?;
            }
            _ => return Err(unknown(&name, key, &EMBED_KEYS)),
        }
    }
    Ok(embed)
}

fn unknown(name: &str, key: &str, known: &[&'static str]) -> String {
    match nearest(key, known) {
        Some(nearest) => {
            let group = name.strip_suffix(key).unwrap_or_default();
            format!("unknown key '{name}'; did you mean '{group}{nearest}'?")
        }
        None => format!("unknown key '{name}'; known here: {}", known.join(", ")),
    }
}

fn address(name: &str, value: &Value) -> Result<String, String> {
    let url = text(name, value)?;
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    if is_web { Ok(url.to_owned()) } else { Err(format!("'{name}' must begin with https://")) }
}

fn period(name: &str, value: &Value) -> Result<u64, String> {
    let (shortest, longest) = (REFRESH_MS_RANGE.start(), REFRESH_MS_RANGE.end());
    value.as_u64().filter(|ms| REFRESH_MS_RANGE.contains(ms)).ok_or_else(|| {
        format!("'{name}' must be a number of milliseconds from {shortest} to {longest}")
    })
}

fn flag(name: &str, value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("'{name}' must be true or false"))
}

fn rules(name: &str, value: &Value) -> Result<Vec<Rule>, String> {
    let texts = list(name, value)?;
    Rule::parse_all(&texts).map_err(|error| format!("'{name}': {error}"))
}

fn list(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("'{name}' must be a list of texts");
    let values = value.as_array().ok_or_else(wrong)?;
    if values.len() > ENTRIES_MAX {
        return Err(format!("'{name}' has more than {ENTRIES_MAX} entries"));
    }
    values.iter().map(|value| value.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

fn read<T: FromStr<Err: std::fmt::Display>>(name: &str, value: &Value) -> Result<T, String> {
    text(name, value)?.parse().map_err(|error| format!("'{name}': {error}"))
}

fn text<'v>(name: &str, value: &'v Value) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| format!("'{name}' must be a text"))
}

fn object<'v>(value: &'v Value, name: &str) -> Result<&'v Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{name} must be an object"))
}

#[cfg(test)]
mod tests;
