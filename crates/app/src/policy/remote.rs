//! The remote policy: fetched from where the managed settings say, kept, and used as long as it
//! holds.
//!
//! A bundle that is kept and holds is used at once, and a newer one is fetched beside the run and
//! counts from the next start on. Only a machine without one waits, and not for long. What is
//! kept is checked anew at each start: the file belongs to the user, and the signature does not.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use door_cli::Failure;
use driver_api::{Clock, SystemClock};
use governance::RemotePolicy;
use governance::bundle::{self, Accepted, Bundle, ENVELOPE_BYTES_MAX, Envelope, Rejection, Terms};
use narthex::{LayerName, Policy};
use outbound::{AllowedTarget, Client, Limits, Options, StatusCode, Url};
use protocol::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::settings::{Origin, Settings, write_private};

/// How long a first fetch may take before the program starts without the policy, or does not.
const FETCH_WAIT: Duration = Duration::from_secs(10);

/// The remote policy of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    /// What the managed settings say.
    terms: RemotePolicy,
    /// Private places that the settings open besides the one that the terms name.
    allowed: Vec<AllowedTarget>,
    /// Where the bundle is kept.
    file: PathBuf,
    /// The bundle that holds.
    pub(crate) in_force: Option<Accepted>,
    /// What is kept, whether it holds or not.
    kept: Option<Kept>,
    /// The newest bundle that was taken from there and is known, also after its time: no older
    /// version of it is taken.
    floor: Option<Bundle>,
    /// Why what is kept does not hold.
    problem: Option<String>,
}

/// The file in which a bundle is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kept {
    /// Where the bundle came from: one from elsewhere says nothing here.
    url: String,
    /// When it came.
    fetched_at: Timestamp,
    /// The envelope.
    envelope: Value,
    /// The newest answer, where that was refused and this bundle stayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<Refused>,
}

/// An answer that was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Refused {
    at: Timestamp,
    reason: String,
}

impl Remote {
    /// Looks at what is kept. Asks nobody.
    pub(crate) fn kept(terms: &RemotePolicy, home: &Path, policy: &Policy) -> Self {
        let file = home.join("policy/remote.json");
        let mut remote = Self {
            terms: terms.clone(),
            allowed: Vec::new(),
            file,
            in_force: None,
            kept: None,
            floor: None,
            problem: None,
        };
        let kept = match remote.read() {
            Ok(kept) => kept,
            Err(problem) => {
                remote.problem = Some(problem);
                None
            }
        };
        remote.raise_floor(kept.as_ref());
        if let Some(kept) = &kept {
            let envelope = Envelope::from_value(&kept.envelope);
            match envelope.and_then(|it| remote.check(&it, policy)) {
                Ok(accepted) => remote.in_force = Some(accepted),
                Err(refusal) => {
                    remote.problem = Some(format!("the one that is kept was refused: {refusal}"));
                }
            }
        }
        remote.kept = kept;
        remote
    }

    /// Opens private places, for example one that the server sends on to.
    pub(crate) fn allow(mut self, allowed: &[AllowedTarget]) -> Self {
        self.allowed = allowed.to_vec();
        self
    }

    /// Returns where the bundle is kept.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the newest bundle that was taken, also after its time.
    pub(crate) fn newest(&self) -> Option<&Bundle> {
        self.floor.as_ref()
    }

    /// Returns where its values come from.
    pub(crate) fn origin(&self) -> Origin {
        Origin::File(LayerName::Remote, self.file.clone())
    }

    /// Says what a person should know of it, where there is anything.
    pub(crate) fn notice(&self) -> Option<String> {
        let refused = self.kept.as_ref()?.refused.as_ref()?;
        self.in_force.as_ref()?;
        Some(format!(
            "the remote policy that {} gave at {} was refused: {}; the one before stays in force",
            self.terms.url, refused.at, refused.reason
        ))
    }

    /// Says where the layer comes from.
    pub(crate) fn source(&self) -> String {
        let bundle = self.in_force.as_ref().map(|accepted| &accepted.bundle);
        let name = bundle.map(|it| format!("{} version {} from ", it.id, it.version));
        format!("{}{}", name.unwrap_or_default(), self.terms.url)
    }

    /// Says how it stands with it.
    pub(crate) fn state(&self) -> String {
        let url = &self.terms.url;
        match (&self.in_force, &self.kept) {
            (Some(_), Some(kept)) => format!("{url}, fetched at {}", kept.fetched_at),
            _ => {
                let problem = self.problem.as_deref().unwrap_or("not fetched yet");
                let required = if self.terms.is_required { ", required" } else { "" };
                format!("{url}{required}: {problem}")
            }
        }
    }

    /// Tells all of it to programs.
    pub(crate) fn to_json(&self) -> Value {
        let bundle = self.in_force.as_ref().map(|accepted| {
            let bundle = &accepted.bundle;
            json!({
                "id": bundle.id,
                "version": bundle.version,
                "issuedAt": bundle.issued_at,
                "expiresAt": bundle.expires_at,
                "signedBy": accepted.signed_by.map(|key| key.to_string()),
                "strippedKeys": accepted.stripped_keys,
            })
        });
        json!({
            "url": self.terms.url,
            "required": self.terms.is_required,
            "fetchedAt": self.kept.as_ref().map(|kept| kept.fetched_at),
            "inForce": bundle,
            "problem": self.problem,
            "refused": self.kept.as_ref().and_then(|kept| kept.refused.as_ref()),
        })
    }

    fn check(&self, envelope: &Envelope, policy: &Policy) -> Result<Accepted, Rejection> {
        let terms = Terms {
            layer: LayerName::Remote,
            keys: &[self.terms.key],
            accepts_unsigned: false,
            now: SystemClock::default().now(),
            in_force: self.floor.as_ref(),
            policy,
        };
        bundle::verify(envelope, &terms)
    }

    /// Reads what is kept for the address.
    fn read(&self) -> Result<Option<Kept>, String> {
        Ok(read(&self.file)?.filter(|kept| kept.url == self.terms.url))
    }

    /// Takes note of how far the source had come. What somebody changed by hand counts for nothing.
    fn raise_floor(&mut self, kept: Option<&Kept>) {
        let Some(bundle) = kept.and_then(|kept| self.bundle_of(kept)) else { return };
        if self.floor.as_ref().is_none_or(|floor| is_further(&bundle, floor)) {
            self.floor = Some(bundle);
        }
    }

    fn bundle_of(&self, kept: &Kept) -> Option<Bundle> {
        let envelope = Envelope::from_value(&kept.envelope).ok()?;
        bundle::signed(&envelope, &[self.terms.key]).ok()
    }

    /// Keeps a bundle. Where another process has kept a newer one meanwhile, that stays.
    fn keep(&self, kept: &Kept) -> Result<(), Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Failure::failed(format!("{what} {}: {error}", self.file.display()))
        };
        let folder = self.file.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed("make the folder of", &error))?;
        let lock = File::options().create(true).append(true).open(folder.join("remote.lock"));
        let lock = lock.map_err(|error| failed("lock", &error))?;
        lock.lock().map_err(|error| failed("lock", &error))?;
        let other = self.read().ok().flatten().and_then(|other| self.bundle_of(&other));
        let own = self.bundle_of(kept);
        if let (Some(other), Some(own)) = (&other, &own)
            && is_newer(other, own)
        {
            return Ok(());
        }
        write(&self.file, kept)
    }

    /// Fetches and takes a bundle. What is in force stays when that fails.
    async fn refresh(&mut self, policy: &Policy) -> Result<(), String> {
        let text = fetch(&self.terms.url, &self.allowed).await?;
        // Another process may have come further meanwhile.
        let known = self.read().ok().flatten();
        self.raise_floor(known.as_ref());
        let now = SystemClock::default().now();
        let envelope = Envelope::parse(&text);
        let checked = envelope.and_then(|it| Ok((self.check(&it, policy)?, it)));
        let url = self.terms.url.clone();
        let (kept, taken) = match checked {
            Ok((accepted, envelope)) => {
                self.floor = Some(accepted.bundle.clone());
                self.in_force = Some(accepted);
                let envelope = envelope.to_value();
                (Some(Kept { url, fetched_at: now, envelope, refused: None }), Ok(()))
            }
            Err(refusal) => {
                let reason = refusal.to_string();
                let refused = Some(Refused { at: now, reason: reason.clone() });
                let kept = self.kept.take().filter(|_| self.in_force.is_some());
                (kept.map(|kept| Kept { refused, ..kept }), Err(format!("{url}: {reason}")))
            }
        };
        self.kept = kept;
        if let Some(kept) = &self.kept {
            // A bundle that cannot be kept holds all the same, until the next start fetches it.
            if let Err(failure) = self.keep(kept) {
                tracing::warn!(error = %failure.message, "keep the remote policy");
            }
        }
        taken
    }
}

/// Sees to it that the remote policy holds before anything runs: waits for it where none is kept,
/// else fetches a newer one beside the run.
///
/// # Errors
/// A failure of configuration when the policy is required and there is none.
pub(crate) async fn ensure(settings: &mut Settings) -> Result<(), Failure> {
    let Some(mut remote) = settings.remote.take() else { return Ok(()) };
    let is_first = remote.in_force.is_none();
    if is_first {
        let fetched = tokio::time::timeout(FETCH_WAIT, remote.refresh(&settings.policy)).await;
        let fetched = fetched.unwrap_or_else(|_| {
            let limit = FETCH_WAIT.as_secs();
            Err(format!("fetch {}: no answer within {limit} s", remote.terms.url))
        });
        match (fetched, &remote.in_force) {
            (Ok(()), Some(accepted)) => {
                settings.govern(accepted.layer.clone(), &remote.origin());
            }
            (fetched, _) => {
                let mut why = fetched.err().unwrap_or_default();
                if let Some(problem) = &remote.problem {
                    why = format!("{why}; {problem}");
                }
                if remote.terms.is_required {
                    return Err(Failure::usage(format!(
                        "the managed settings require the remote policy and none holds: {why}"
                    )));
                }
                settings.notices.push(format!("no remote policy is in force: {why}"));
            }
        }
    }
    keep_fresh(remote.clone(), settings.policy.clone(), is_first);
    settings.remote = Some(remote);
    Ok(())
}

/// Fetches a newer bundle now and then, beside whatever runs. It counts from the next start on:
/// sessions keep the policy that they began with.
fn keep_fresh(mut remote: Remote, policy: Policy, was_fetched: bool) {
    let period = Duration::from_millis(remote.terms.refresh_ms);
    #[allow(clippy::disallowed_methods, reason = "lives as long as the program itself")]
    tokio::spawn(async move {
        if was_fetched {
            tokio::time::sleep(period).await;
        }
        loop {
            if let Err(problem) = remote.refresh(&policy).await {
                tracing::warn!(%problem, "refresh the remote policy");
            }
            tokio::time::sleep(period).await;
        }
    });
}

async fn fetch(url: &str, allowed: &[AllowedTarget]) -> Result<String, String> {
    let problem = |error: &dyn std::fmt::Display| format!("fetch {url}: {error}");
    // Whoever manages the machine named this place, so it may lie within their own network.
    let parsed = Url::parse(url).map_err(|error| problem(&error))?;
    let place = match (parsed.host_str(), parsed.port_or_known_default()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        _ => return Err(problem(&"the address names no host")),
    };
    let place: AllowedTarget = place.parse().map_err(|error| problem(&error))?;
    let limits = Limits {
        response_bytes_max: ENVELOPE_BYTES_MAX as u64,
        total_timeout: FETCH_WAIT,
        ..Limits::default()
    };
    let allow = allowed.iter().cloned().chain([place]).collect();
    let client = Client::new(Options { allow, limits, ..Options::default() })
        .map_err(|error| problem(&error))?;
    let response = client.get(url).send().await.map_err(|error| problem(&error))?;
    if response.status() != StatusCode::OK {
        return Err(problem(&format!("it answered {}", response.status())));
    }
    let bytes = response.bytes().await.map_err(|error| problem(&error))?;
    String::from_utf8(bytes.to_vec()).map_err(|_| problem(&"the answer is no text"))
}

/// Tells whether a bundle is a newer version of another. Those of two ids have no order.
fn is_newer(bundle: &Bundle, other: &Bundle) -> bool {
    bundle.id == other.id && bundle.version > other.version
}

/// Tells whether a bundle takes the place of another as the newest that is known.
fn is_further(bundle: &Bundle, other: &Bundle) -> bool {
    bundle.id != other.id || bundle.version > other.version
}

fn read(file: &Path) -> Result<Option<Kept>, String> {
    let problem = |error: &dyn std::fmt::Display| format!("read {}: {error}", file.display());
    match fs::metadata(file) {
        Ok(stat) if stat.len() > 2 * ENVELOPE_BYTES_MAX as u64 => {
            return Err(problem(&"it is too large"));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(problem(&error)),
    }
    let text = fs::read_to_string(file).map_err(|error| problem(&error))?;
    serde_json::from_str(&text).map(Some).map_err(|error| problem(&error))
}

fn write(file: &Path, kept: &Kept) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(kept)
        .map_err(|error| Failure::failed(format!("write {}: {error}", file.display())))?;
    write_private(file, &text)
}

#[cfg(test)]
mod tests {
    use governance::{PrivateKey, PublicKey};

    use super::*;

    const URL: &str = "https://policy.example/x.json";

    fn key() -> PrivateKey {
        bundle::keygen(&[7; 32])
    }

    fn kept(version: u64, settings: &Value, expires: Option<&str>) -> Kept {
        let mut value = json!({
            "version": version, "id": "acme", "issuedAt": "2026-01-01T00:00:00Z",
            "settings": settings,
        });
        if let Some(end) = expires {
            value["expiresAt"] = end.into();
        }
        let envelope = bundle::sign(&value, &key()).unwrap().to_value();
        let fetched_at = SystemClock::default().now();
        Kept { url: URL.to_owned(), fetched_at, envelope, refused: None }
    }

    fn remote(home: &Path) -> Remote {
        let key: PublicKey = key().public();
        let terms = RemotePolicy { url: URL.to_owned(), key, refresh_ms: 1000, is_required: false };
        Remote::kept(&terms, home, &Policy::default())
    }

    fn check(remote: &Remote, kept: &Kept) -> Result<u64, String> {
        let envelope = Envelope::from_value(&kept.envelope).unwrap();
        let accepted = remote.check(&envelope, &Policy::default());
        accepted.map(|it| it.bundle.version).map_err(|refusal| refusal.reason.to_string())
    }

    #[test]
    fn an_older_bundle_is_never_written_over_a_newer_one() {
        let home = tempfile::tempdir().unwrap();
        let slow = remote(home.path());
        let quick = remote(home.path());
        quick.keep(&kept(5, &json!({}), None)).unwrap();
        slow.keep(&kept(4, &json!({}), None)).unwrap();
        let next = remote(home.path());
        assert_eq!(next.in_force.as_ref().unwrap().bundle.version, 5);
        slow.keep(&kept(6, &json!({}), None)).unwrap();
        assert_eq!(remote(home.path()).in_force.unwrap().bundle.version, 6);
    }

    #[test]
    fn what_is_over_still_keeps_older_versions_out() {
        let home = tempfile::tempdir().unwrap();
        let over = kept(5, &json!({}), Some("2026-01-02T00:00:00Z"));
        remote(home.path()).keep(&over).unwrap();
        let next = remote(home.path());
        assert!(next.in_force.is_none());
        assert_eq!(check(&next, &kept(4, &json!({}), None)), Err("stale".to_owned()));
        let other = json!({"disableFullAuto": true});
        assert_eq!(check(&next, &kept(5, &other, None)), Err("stale".to_owned()));
        assert_eq!(check(&next, &kept(6, &json!({}), None)), Ok(6));
    }

    #[test]
    fn what_another_process_took_meanwhile_is_known() {
        let home = tempfile::tempdir().unwrap();
        let mut slow = remote(home.path());
        remote(home.path()).keep(&kept(5, &json!({}), None)).unwrap();
        let known = slow.read().unwrap();
        slow.raise_floor(known.as_ref());
        assert_eq!(check(&slow, &kept(4, &json!({}), None)), Err("stale".to_owned()));
        // What was changed by hand is nobody's word.
        let mut forged = kept(9, &json!({}), None);
        forged.envelope["bundle"]["version"] = 99.into();
        slow.raise_floor(Some(&forged));
        assert_eq!(check(&slow, &kept(6, &json!({}), None)), Ok(6));
    }
}
