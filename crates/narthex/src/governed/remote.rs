//! The remote policy: fetched from where the managed settings say, kept, and used as long as it
//! holds.
//!
//! A bundle that is kept and holds is used at once, and a newer one is fetched beside the run and
//! counts from the next start on; in a server for sessions that are opened from then on. Only a
//! machine without one waits, and not for long. What is
//! kept is checked anew at each start: the file belongs to the user, and the signature does not.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use driver_api::{Clock, SystemClock};
use governance::RemotePolicy;
use governance::bundle::{self, Accepted, Bundle, ENVELOPE_BYTES_MAX, Envelope, Rejection, Terms};
use outbound::{AllowedTarget, Client, Limits, Options, StatusCode, Url};
use policy::{Layer, LayerName, Policy};
use protocol::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{GovernError, write_private};

/// How long a first fetch may take before the program starts without the policy, or does not.
const FETCH_WAIT: Duration = Duration::from_secs(10);

/// The remote policy of this machine.
#[derive(Clone, Debug)]
pub struct Remote {
    /// What the managed settings say.
    terms: RemotePolicy,
    /// Private places that the settings open besides the one that the terms name.
    allowed: Vec<AllowedTarget>,
    /// Every layer but this one.
    base: Policy,
    /// Where the bundle is kept.
    file: PathBuf,
    /// The bundle that holds.
    in_force: Option<Accepted>,
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
    pub fn kept(terms: &RemotePolicy, home: &Path, policy: &Policy) -> Self {
        let file = home.join("policy/remote.json");
        let mut remote = Self {
            terms: terms.clone(),
            allowed: Vec::new(),
            base: policy.clone(),
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
    pub fn allow(mut self, allowed: &[AllowedTarget]) -> Self {
        self.allowed = allowed.to_vec();
        self
    }

    /// Returns where the bundle is kept.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the newest bundle that was taken, also after its time.
    pub fn newest(&self) -> Option<&Bundle> {
        self.floor.as_ref()
    }

    /// Returns the bundle that holds.
    #[must_use]
    pub fn in_force(&self) -> Option<&Accepted> {
        self.in_force.as_ref()
    }

    /// Changes the layers that newer bundles are added to.
    pub fn rebase(&mut self, change: impl FnOnce(&Policy) -> Policy) {
        self.base = change(&self.base);
    }

    /// Says what a person should know of it, where there is anything.
    pub fn notice(&self) -> Option<String> {
        let refused = self.kept.as_ref()?.refused.as_ref()?;
        self.in_force.as_ref()?;
        Some(format!(
            "the remote policy that {} gave at {} was refused: {}; the one before stays in force",
            self.terms.url, refused.at, refused.reason
        ))
    }

    /// Says where the layer comes from.
    pub fn source(&self) -> String {
        let bundle = self.in_force.as_ref().map(|accepted| &accepted.bundle);
        let name = bundle.map(|it| format!("{} version {} from ", it.id, it.version));
        format!("{}{}", name.unwrap_or_default(), self.terms.url)
    }

    /// Says how it stands with it.
    pub fn state(&self) -> String {
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
    pub fn to_json(&self) -> Value {
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
    fn keep(&self, kept: &Kept) -> Result<(), GovernError> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            GovernError::Failed(format!("{what} {}: {error}", self.file.display()))
        };
        let folder = self.file.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed("make the folder of", &error))?;
        let lock = folder.join("remote.lock");
        let lock = File::options().create(true).append(true).mode(0o600).open(lock);
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
            if let Err(error) = self.keep(kept) {
                tracing::warn!(%error, "keep the remote policy");
            }
        }
        taken
    }
}

/// What came of seeing to a remote policy.
#[derive(Debug)]
pub struct Held {
    /// The layer of a bundle that was fetched just now, to be added to the policy.
    pub fetched: Option<Layer>,
    /// What a person should know.
    pub notice: Option<String>,
    was_fetched: bool,
}

impl Remote {
    /// Sees to it that the policy holds before anything runs: waits for it where none is kept, ten
    /// seconds at most. `policy` is the policy so far.
    ///
    /// # Errors
    /// [`GovernError::Wrong`] when the policy is required and there is none.
    pub async fn hold(&mut self, policy: &Policy) -> Result<Held, GovernError> {
        if self.in_force.is_some() {
            return Ok(Held { fetched: None, notice: None, was_fetched: false });
        }
        let fetched = tokio::time::timeout(FETCH_WAIT, self.refresh(policy)).await;
        let fetched = fetched.unwrap_or_else(|_| {
            let limit = FETCH_WAIT.as_secs();
            Err(format!("fetch {}: no answer within {limit} s", self.terms.url))
        });
        let mut why = match (fetched, &self.in_force) {
            (Ok(()), Some(accepted)) => {
                let fetched = Some(accepted.layer.clone());
                return Ok(Held { fetched, notice: None, was_fetched: true });
            }
            (fetched, _) => fetched.err().unwrap_or_default(),
        };
        if let Some(problem) = &self.problem {
            why = format!("{why}; {problem}");
        }
        if self.terms.is_required {
            return Err(GovernError::Wrong(format!(
                "the managed settings require the remote policy and none holds: {why}"
            )));
        }
        let notice = Some(format!("no remote policy is in force: {why}"));
        Ok(Held { fetched: None, notice, was_fetched: true })
    }

    /// Returns what keeps it fresh beside whatever runs. `policy` is the whole policy.
    #[must_use]
    pub fn standing(&self, held: &Held, policy: Policy) -> Standing {
        Standing { remote: self.clone(), policy, was_fetched: held.was_fetched }
    }
}

/// The remote policy beside whatever runs.
#[derive(Debug)]
pub struct Standing {
    remote: Remote,
    policy: Policy,
    was_fetched: bool,
}

impl Standing {
    /// Fetches newer bundles and hands on the policy with each, for sessions that are opened from
    /// then on. Never ends.
    pub async fn keep_in_force(self, replace: impl Fn(Policy)) {
        let base = self.remote.base.clone();
        self.keep(move |accepted| {
            let bundle = &accepted.bundle;
            tracing::info!(id = %bundle.id, version = bundle.version, "the remote policy changed");
            replace(base.tighten(accepted.layer.clone()));
        })
        .await;
    }

    /// Fetches newer bundles, which count from the next start on. Never ends.
    pub async fn keep_fresh(self) {
        self.keep(|_| {}).await;
    }

    /// Fetches a newer bundle now and then, and says when one takes the place of another. Sessions
    /// keep the policy that they began with.
    async fn keep(mut self, changed: impl Fn(&Accepted)) {
        let period = Duration::from_millis(self.remote.terms.refresh_ms);
        if self.was_fetched {
            tokio::time::sleep(period).await;
        }
        loop {
            let before = self.remote.in_force.as_ref().map(|accepted| accepted.bundle.clone());
            if let Err(problem) = self.remote.refresh(&self.policy).await {
                tracing::warn!(%problem, "refresh the remote policy");
            }
            match &self.remote.in_force {
                Some(accepted) if before.as_ref() != Some(&accepted.bundle) => changed(accepted),
                _ => {}
            }
            tokio::time::sleep(period).await;
        }
    }
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

fn write(file: &Path, kept: &Kept) -> Result<(), GovernError> {
    let text = serde_json::to_string_pretty(kept)
        .map_err(|error| GovernError::Failed(format!("write {}: {error}", file.display())))?;
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
