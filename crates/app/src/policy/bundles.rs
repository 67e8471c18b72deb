//! Keys and bundles: making, signing, checking.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use door_cli::{Failure, NewKey, SignedBundle, VerifiedBundle};
use driver_api::{Clock, SystemClock};
use governance::bundle::{
    self, Accepted, Bundle, ENVELOPE_BYTES_MAX, Envelope, Reason, Rejection, Terms,
};
use governance::{KeyError, Managed, PrivateKey, PublicKey};
use narthex::LayerName;
use narthex::governed::Remote;
use serde_json::{Map, Value};

use super::report;
use crate::settings::Settings;

/// The largest file of a key: a key has about a hundred bytes.
const KEY_BYTES_MAX: u64 = 16 * 1024;

/// Makes a key pair and writes the private key to a file of its own.
pub(super) fn make_key(path: &Path) -> Result<NewKey, Failure> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::usage(format!(
            "{} is there already and is not overwritten; name another with --out",
            path.display()
        )),
        _ => Failure::failed(format!("write {}: {error}", path.display())),
    };
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::failed(format!("read the system's randomness: {error}")))?;
    let key = bundle::keygen(&random);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let written = file.write_all(key.to_pem().expose().as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Half a key is of no use to anybody; what cannot be removed either is told below.
        drop(fs::remove_file(path));
        return Err(failed(error));
    }
    let public = key.public();
    Ok(NewKey { public: public.to_string(), id: public.id(), path: path.to_owned() })
}

/// Signs a bundle with the key of a file.
pub(super) fn sign(
    path: &Path,
    key_path: &Path,
    out: Option<&Path>,
) -> Result<SignedBundle, Failure> {
    let (key, notices) = private_key(key_path)?;
    let wrong = |message: String| Failure::usage(format!("{}: {message}", path.display()));
    let text = read(path, ENVELOPE_BYTES_MAX as u64)?;
    let mut value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if value.get("bundle").is_some() {
        value = Envelope::parse(&text).map_err(|refusal| wrong(refusal.message))?.bundle;
    }
    if let Some(map) = value.as_object_mut()
        && !map.contains_key("issuedAt")
    {
        map.insert("issuedAt".to_owned(), SystemClock::default().now().to_string().into());
    }
    let envelope = bundle::sign(&value, &key).map_err(|refusal| wrong(refusal.message))?;
    let text = serde_json::to_string_pretty(&envelope.to_value())
        .map_err(|error| Failure::failed(format!("write the bundle: {error}")))?
        + "\n";
    // A text that reads otherwise than it was signed would hold nowhere.
    Envelope::parse(&text).map_err(|refusal| wrong(refusal.message))?;
    if let Some(out) = out {
        fs::write(out, &text)
            .map_err(|error| Failure::failed(format!("write {}: {error}", out.display())))?;
    }
    Ok(SignedBundle { text, written: out.map(Path::to_owned), notices })
}

fn private_key(path: &Path) -> Result<(PrivateKey, Vec<String>), Failure> {
    let text = read(path, KEY_BYTES_MAX)?;
    let key = text
        .parse::<PrivateKey>()
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let is_open = fs::metadata(path).is_ok_and(|stat| stat.mode() & 0o077 != 0);
    let notice =
        format!("others can read the private key in {}; to mend it: chmod 600 {0}", path.display());
    Ok((key, if is_open { vec![notice] } else { Vec::new() }))
}

/// Says whether a signed bundle would hold on this machine.
pub(super) fn verify(
    settings: &Settings,
    path: &Path,
    keys: &[String],
) -> Result<VerifiedBundle, Failure> {
    let text = read(path, ENVELOPE_BYTES_MAX as u64 + 1)?;
    let keys: Vec<PublicKey> = keys
        .iter()
        .map(|key| key.parse())
        .collect::<Result<_, KeyError>>()
        .map_err(|error| Failure::usage(format!("--public-key: {error}")))?;
    let sources = sources(settings, &keys);
    if sources.is_empty() {
        return Err(Failure::usage(
            "no key to check against: name one with --public-key, or set remotePolicyPublicKey or \
             embed.hostPolicyPublicKeys in the managed settings",
        ));
    }
    let envelope = Envelope::parse(&text);
    let form = envelope.as_ref().ok().and_then(|it| Bundle::from_value(&it.bundle).ok());
    let results = sources.into_iter().map(|source| {
        let verified = envelope.clone().and_then(|it| source.verify(&it, settings));
        (source.name, verified)
    });
    let results: Vec<(&str, Result<Accepted, Rejection>)> = results.collect();
    let holds_as: Vec<&str> =
        results.iter().filter(|(_, result)| result.is_ok()).map(|(name, _)| *name).collect();
    let refused: Vec<(String, String)> = results
        .iter()
        .filter_map(|(name, result)| {
            let refusal = result.as_ref().err()?;
            Some((format!("not as {name}"), refusal.to_string()))
        })
        .collect();
    let verified = of_all(results.into_iter().map(|(_, result)| result).collect());
    let mut facts = form.as_ref().map(report::bundle_facts).unwrap_or_default();
    let mut json = Map::new();
    let mut note = |key: &str, value: Value| drop(json.insert(key.to_owned(), value));
    note("valid", verified.is_ok().into());
    note("sources", holds_as.clone().into());
    if let Some(form) = &form {
        note("id", form.id.as_str().into());
        note("version", form.version.into());
        note("issuedAt", form.issued_at.to_string().into());
        note("expiresAt", form.expires_at.map(|it| it.to_string()).into());
    }
    let refusal = match verified {
        Ok(accepted) => {
            if let Some(key) = accepted.signed_by {
                facts.push(("signed by".to_owned(), format!("{} ({key})", key.id())));
                note("signedBy", key.to_string().into());
            }
            facts.push(("says".to_owned(), report::says(&accepted.layer)));
            if !accepted.stripped_keys.is_empty() {
                facts.push(("taken out".to_owned(), accepted.stripped_keys.join(", ")));
            }
            note("strippedKeys", accepted.stripped_keys.into());
            None
        }
        Err(Rejection { reason, message }) => {
            note("reason", reason.as_str().into());
            note("message", message.as_str().into());
            Some((reason.as_str().to_owned(), message))
        }
    };
    if !holds_as.is_empty() {
        facts.push(("holds as".to_owned(), holds_as.join(" and ")));
        facts.extend(refused);
    }
    Ok(VerifiedBundle { refusal, facts, json: json.into() })
}

/// A way on which a bundle comes to a machine.
struct Source<'a> {
    name: &'static str,
    layer: LayerName,
    keys: Vec<PublicKey>,
    accepts_unsigned: bool,
    in_force: Option<&'a Bundle>,
}

impl Source<'_> {
    fn verify(&self, envelope: &Envelope, settings: &Settings) -> Result<Accepted, Rejection> {
        let terms = Terms {
            layer: self.layer,
            keys: &self.keys,
            accepts_unsigned: self.accepts_unsigned,
            now: SystemClock::default().now(),
            in_force: self.in_force,
            policy: &settings.policy,
        };
        bundle::verify(envelope, &terms)
    }
}

/// Returns the ways that the managed settings open; with keys of the command line both, as if the
/// settings named these.
fn sources<'a>(settings: &'a Settings, given: &[PublicKey]) -> Vec<Source<'a>> {
    let managed = settings.managed.as_ref();
    let remote_key = managed.and_then(|managed| managed.remote.as_ref()).map(|remote| remote.key);
    let (remote, pushed) = match given {
        [] => (Vec::from_iter(remote_key), managed.map(Managed::host_keys).unwrap_or_default()),
        given => (given.to_vec(), given.to_vec()),
    };
    let trusts_host = given.is_empty() && managed.is_some_and(|managed| managed.embed.trust_host);
    let mut sources = Vec::new();
    if !remote.is_empty() {
        sources.push(Source {
            name: "remote",
            layer: LayerName::Remote,
            keys: remote,
            accepts_unsigned: false,
            in_force: settings.remote.as_ref().and_then(Remote::newest),
        });
    }
    if !pushed.is_empty() || trusts_host {
        sources.push(Source {
            name: "pushed",
            layer: LayerName::Pushed,
            keys: pushed,
            accepts_unsigned: trusts_host,
            in_force: None,
        });
    }
    sources
}

/// Makes one result of those of all ways. A way whose key did not sign it is not meant by it; any
/// other refusal counts, for example of an older version of what is in force there.
fn of_all(results: Vec<Result<Accepted, Rejection>>) -> Result<Accepted, Rejection> {
    let (mut accepted, mut not_meant) = (None, None);
    for result in results {
        match result {
            Ok(it) => accepted = Some(it),
            Err(refusal) => match refusal.reason {
                Reason::Unsigned | Reason::BadSignature | Reason::UnknownKey => {
                    not_meant = Some(refusal);
                }
                _ => return Err(refusal),
            },
        }
    }
    match (accepted, not_meant) {
        (Some(accepted), _) => Ok(accepted),
        (None, Some(refusal)) => Err(refusal),
        (None, None) => Err(Rejection {
            reason: Reason::UnknownKey,
            message: "there is no way for it to come".to_owned(),
        }),
    }
}

fn read(path: &Path, bytes_max: u64) -> Result<String, Failure> {
    let problem =
        |error: std::io::Error| Failure::usage(format!("read {}: {error}", path.display()));
    let mut text = String::new();
    let mut file = File::open(path).map_err(problem)?.take(bytes_max + 1);
    file.read_to_string(&mut text).map_err(problem)?;
    if text.len() as u64 > bytes_max {
        let limit = stdx::bytes(bytes_max);
        return Err(Failure::usage(format!("{} is larger than {limit}", path.display())));
    }
    Ok(text)
}
