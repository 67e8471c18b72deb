//! The way out of a neuron, as far as this crate knows it: who opens it, and what the neuron is
//! shown of it.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use driver_api::{Egress, EgressCredential, EgressRule, Fault};
use protocol::NeuronId;
use serde::{Deserialize, Serialize};
use stdx::Secret;

/// The file with what a neuron may reach, in its folder.
const FILE: &str = "egress.json";

/// The file with [`EgressDoor::authority`], beside it.
const AUTHORITY_FILE: &str = "egress.key";

/// How many bytes either may have: 512 rules and their methods are well below.
const BYTES_MAX: u64 = 1 << 20;

/// Opens ways out.
#[async_trait]
pub trait EgressGate: Send + Sync + Debug {
    /// Makes ready what a neuron is shown of its way out, in a folder that belongs to this neuron
    /// alone and lets nobody but this user and the neuron's in. Nothing can be reached by it. What
    /// is there already stays as it is.
    ///
    /// # Errors
    /// A fault when a file cannot be made.
    fn prepare(&self, has_credentials: bool, folder: &Path) -> Result<EgressPlace, Fault>;

    /// Opens the way out of a neuron, which was started with what [`Self::prepare`] made: from now
    /// on a proxy listens on the socket in `folder`. A socket that lies there already is another
    /// process's, which is dead: a new one takes its place. Files that are shown are written in
    /// place, since a neuron that runs has those and no others. `authority` is what
    /// [`EgressDoor::authority`] was of the way out that it had before.
    ///
    /// # Errors
    /// A fault when the socket cannot be made.
    async fn open(
        &self,
        neuron: &NeuronId,
        egress: &Egress,
        folder: &Path,
        authority: Option<&Secret<Vec<u8>>>,
    ) -> Result<EgressDoor, Fault>;
}

/// What a neuron is shown of its way out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPlace {
    /// The name of the socket, directly in the folder. It must be open to everybody: who comes to
    /// its folder is this user or the neuron.
    pub socket: String,
    /// Files of the folder to show inside, read-only: each by its name and its path inside, which
    /// must be below `/run/narthex`. The certificate of a neuron's own authority, for example.
    pub files: Vec<(String, PathBuf)>,
}

/// A way out that is open as long as this is kept.
#[derive(Debug)]
pub struct EgressDoor {
    /// Variables of commands beyond those that name the proxy.
    pub variables: Vec<(String, String)>,
    /// What the next owner's gate needs so that commands go on trusting it. Kept beside the
    /// neuron, for nobody but this user: it must be worth nothing to anybody but the neuron.
    pub authority: Option<Secret<Vec<u8>>>,
    /// Closes the way when it is dropped.
    pub guard: Box<dyn Debug + Send + Sync>,
}

/// What a neuron may reach, as one process leaves it to the next: without any secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptEgress {
    allow: Vec<EgressRule>,
    credentials: Vec<Reference>,
    /// What [`EgressDoor::variables`] was.
    pub(super) variables: Vec<(String, String)>,
    /// What [`EgressDoor::authority`] was.
    pub(super) authority: Option<Secret<Vec<u8>>>,
}

/// What a neuron may reach with the secrets that this process has.
#[derive(Debug)]
pub(super) struct Reachable {
    pub(super) egress: Egress,
    /// The hosts whose secrets it has not: no rule that covers one of them is left.
    pub(super) lacking: Vec<String>,
}

/// The form of the file, for nobody but this user.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    allow: Vec<Rule>,
    credentials: Vec<Reference>,
    variables: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Rule {
    host: String,
    port: Option<u16>,
    methods: Vec<String>,
    allows_private: bool,
}

/// Which credential is meant. Its value is in the settings of whoever owns the neuron.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reference {
    host: String,
    header: String,
    variable: Option<String>,
}

impl Reference {
    fn is_of(&self, credential: &EgressCredential) -> bool {
        self.host.eq_ignore_ascii_case(&credential.host)
            && self.header.eq_ignore_ascii_case(&credential.header)
    }
}

impl KeptEgress {
    /// Puts the secrets in that this process knows. Where one is missing, its hosts cannot be
    /// reached: a request without it would tell a placeholder to a stranger, at best in vain.
    pub(super) fn with(&self, known: &[EgressCredential]) -> Reachable {
        let (mut credentials, mut lacking) = (Vec::new(), Vec::new());
        for reference in &self.credentials {
            match known.iter().find(|credential| reference.is_of(credential)) {
                Some(credential) => credentials.push(EgressCredential {
                    variable: reference.variable.clone(),
                    ..credential.clone()
                }),
                None => lacking.push(reference.host.clone()),
            }
        }
        let is_open = |rule: &&EgressRule| !lacking.iter().any(|host| overlap(host, &rule.host));
        let allow = self.allow.iter().filter(is_open).cloned().collect();
        Reachable { egress: Egress { allow, credentials }, lacking }
    }
}

/// Whether two patterns may mean the same host.
fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    let covers = |pattern: &str, host: &str| {
        pattern == host
            || pattern.strip_prefix("*.").is_some_and(|tail| {
                let host = host.strip_prefix("*.").unwrap_or(host);
                host == tail || host.strip_suffix(tail).is_some_and(|rest| rest.ends_with('.'))
            })
    };
    covers(&one, &other) || covers(&other, &one)
}

/// Tells whether nothing at all may be reached.
pub(super) fn is_closed(egress: &Egress) -> bool {
    egress.allow.is_empty() && egress.credentials.is_empty()
}

/// Writes down what a neuron may reach, and what belongs to its way out.
pub(super) fn keep(folder: &Path, egress: &Egress, door: &EgressDoor) -> io::Result<()> {
    let allow = egress.allow.iter().cloned().map(|rule| {
        let EgressRule { host, port, methods, allows_private } = rule;
        Rule { host, port, methods, allows_private }
    });
    let credentials = egress.credentials.iter().cloned().map(|credential| {
        let EgressCredential { host, header, variable, .. } = credential;
        Reference { host, header, variable }
    });
    let kept = Kept {
        allow: allow.collect(),
        credentials: credentials.collect(),
        variables: door.variables.clone(),
    };
    keep_authority(folder, door)?;
    write(folder, FILE, &serde_json::to_vec(&kept)?)
}

/// Writes down the part of it that a later way out may have made anew.
pub(super) fn keep_authority(folder: &Path, door: &EgressDoor) -> io::Result<()> {
    match &door.authority {
        Some(authority) => write(folder, AUTHORITY_FILE, authority.expose()),
        None => Ok(()),
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = folder.join(format!("{name}.new"));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(temporary, folder.join(name))
}

/// Reads what was written down; nothing where nothing may be reached.
pub(super) fn kept(folder: &Path) -> io::Result<Option<KeptEgress>> {
    let Some(bytes) = read(&folder.join(FILE))? else { return Ok(None) };
    let Kept { allow, credentials, variables } = serde_json::from_slice(&bytes)?;
    let allow = allow.into_iter().map(|rule| {
        let Rule { host, port, methods, allows_private } = rule;
        EgressRule { host, port, methods, allows_private }
    });
    let authority = read(&folder.join(AUTHORITY_FILE))?.map(Secret::new);
    Ok(Some(KeptEgress { allow: allow.collect(), credentials, variables, authority }))
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(BYTES_MAX).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn rule(host: &str) -> EgressRule {
        EgressRule {
            host: host.into(),
            port: Some(8443),
            methods: vec!["GET".into()],
            allows_private: true,
        }
    }

    fn credential(host: &str, value: &str, variable: &str) -> EgressCredential {
        EgressCredential {
            host: host.into(),
            header: "authorization".into(),
            prefix: String::new(),
            value: Secret::new(value.into()),
            variable: Some(variable.into()),
        }
    }

    fn door() -> EgressDoor {
        EgressDoor {
            variables: vec![("KEY".to_owned(), "placeholder".to_owned())],
            authority: Some(Secret::new(vec![7, 0, 255])),
            guard: Box::new(()),
        }
    }

    #[test]
    fn what_is_kept_comes_back_without_secrets_and_is_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        assert!(kept(folder.path()).unwrap().is_none());
        let egress = Egress {
            allow: vec![rule("*.example.com")],
            credentials: vec![credential("api.example.com", "planted", "KEY")],
        };
        keep(folder.path(), &egress, &door()).unwrap();
        let back = kept(folder.path()).unwrap().unwrap();
        assert_eq!((&back.variables, &back.authority), (&door().variables, &door().authority));
        for name in [FILE, AUTHORITY_FILE] {
            let path = folder.path().join(name);
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let bytes = std::fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("planted"), "{name}");
        }
        // Whoever has the secret, under whatever variable, has the same way out.
        let reached = back.with(&[credential("API.example.com", "planted", "OTHER")]);
        assert!(reached.lacking.is_empty());
        assert_eq!(reached.egress.allow, egress.allow);
        let found = &reached.egress.credentials[0];
        assert_eq!(
            (found.value.expose().as_str(), found.variable.as_deref()),
            ("planted", Some("KEY"))
        );
    }

    #[test]
    fn hosts_whose_secret_is_not_known_are_out_of_reach() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = ["api.example.com", "*.example.com", "*.com", "b.example", "*.b.example"];
        let egress = Egress {
            allow: hosts.map(rule).into(),
            credentials: vec![credential("api.example.com", "planted", "KEY")],
        };
        keep(folder.path(), &egress, &door()).unwrap();
        let back = kept(folder.path()).unwrap().unwrap();
        let reached = back.with(&[credential("other.example.com", "x", "KEY")]);
        assert_eq!(reached.lacking, ["api.example.com"]);
        let left: Vec<_> = reached.egress.allow.iter().map(|rule| rule.host.as_str()).collect();
        assert_eq!(left, ["b.example", "*.b.example"]);
        assert!(reached.egress.credentials.is_empty());
    }

    #[test]
    fn patterns_overlap_where_a_host_is_meant_by_both() {
        for (one, other, is_so) in [
            ("a.example", "A.example", true),
            ("a.example", "b.example", false),
            ("*.example", "a.example", true),
            ("*.a.example", "*.example", true),
            ("*.a.example", "xa.example", false),
            ("*.a.example", "b.example", false),
            // A name is not beneath itself; what is let go of too much is not reached.
            ("*.a.example", "a.example", true),
        ] {
            assert_eq!(overlap(one, other), is_so, "{one} and {other}");
            assert_eq!(overlap(other, one), is_so, "{other} and {one}");
        }
    }
}
