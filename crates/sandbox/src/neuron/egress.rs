//! The way out of a neuron, as far as this crate knows it: who opens it, and what the neuron is
//! shown of it.

use std::fmt::Debug;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use driver_api::{Egress, EgressCredential, EgressRule, Fault};
use protocol::NeuronId;
use serde::{Deserialize, Serialize};
use stdx::Secret;

/// The name of the file in a neuron's folder.
const FILE: &str = "egress.json";

/// Opens ways out.
#[async_trait]
pub trait EgressGate: Send + Sync + Debug {
    /// Opens the way out of a neuron: from now on a proxy listens on a Unix socket in `folder`,
    /// which belongs to this neuron alone and lets nobody but this user and the neuron's in. A
    /// socket that lies there already is another process's, which is dead: a new one takes its
    /// place.
    ///
    /// # Errors
    /// A fault when the socket cannot be made.
    async fn open(
        &self,
        neuron: &NeuronId,
        egress: &Egress,
        folder: &Path,
    ) -> Result<EgressDoor, Fault>;
}

/// A way out that is open as long as this is kept.
#[derive(Debug)]
pub struct EgressDoor {
    /// The socket, directly in the folder. It must be open to everybody: who comes to its folder
    /// is this user or the neuron.
    pub socket: PathBuf,
    /// Files of this machine to show inside, read-only, each with its path inside, which must be
    /// below `/run/narthex`: the certificate of a neuron's own authority, for example.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Variables of commands beyond those that name the proxy.
    pub variables: Vec<(String, String)>,
    /// Closes the way when it is dropped.
    pub guard: Box<dyn Debug + Send + Sync>,
}

/// What a neuron may reach, as one process leaves it to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptEgress {
    pub(super) egress: Egress,
    /// What [`EgressDoor::variables`] was.
    pub(super) variables: Vec<(String, String)>,
}

/// What a neuron may reach, for the next owner. Lies beside the state, for nobody but this user:
/// the secrets in it never enter the neuron.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    allow: Vec<Rule>,
    credentials: Vec<Credential>,
    variables: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Rule {
    host: String,
    port: Option<u16>,
    methods: Vec<String>,
    allows_private: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Credential {
    host: String,
    header: String,
    value: String,
    variable: Option<String>,
}

/// Tells whether nothing at all may be reached.
pub(super) fn is_closed(egress: &Egress) -> bool {
    egress.allow.is_empty() && egress.credentials.is_empty()
}

/// Writes down what a neuron may reach, and the variables that its commands get for it.
pub(super) fn keep(
    folder: &Path,
    egress: &Egress,
    variables: &[(String, String)],
) -> io::Result<()> {
    let allow = egress.allow.iter().cloned().map(|rule| {
        let EgressRule { host, port, methods, allows_private } = rule;
        Rule { host, port, methods, allows_private }
    });
    let credentials = egress.credentials.iter().cloned().map(|credential| {
        let EgressCredential { host, header, value, variable } = credential;
        Credential { host, header, value: value.expose().clone(), variable }
    });
    let kept = Kept {
        allow: allow.collect(),
        credentials: credentials.collect(),
        variables: variables.to_vec(),
    };
    let bytes = serde_json::to_vec(&kept)?;
    let temporary = folder.join("egress.json.new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&bytes)?;
    file.sync_data()?;
    std::fs::rename(temporary, folder.join(FILE))
}

/// Reads what was written down; nothing where nothing may be reached.
pub(super) fn kept(folder: &Path) -> io::Result<Option<KeptEgress>> {
    let bytes = match std::fs::read(folder.join(FILE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Kept { allow, credentials, variables } = serde_json::from_slice(&bytes)?;
    let allow = allow.into_iter().map(|rule| {
        let Rule { host, port, methods, allows_private } = rule;
        EgressRule { host, port, methods, allows_private }
    });
    let credentials = credentials.into_iter().map(|credential| {
        let Credential { host, header, value, variable } = credential;
        EgressCredential { host, header, value: Secret::new(value), variable }
    });
    let egress = Egress { allow: allow.collect(), credentials: credentials.collect() };
    Ok(Some(KeptEgress { egress, variables }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_is_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        assert!(kept(folder.path()).unwrap().is_none());
        let egress = Egress {
            allow: vec![EgressRule {
                host: "*.example.com".into(),
                port: Some(8443),
                methods: vec!["GET".into()],
                allows_private: true,
            }],
            credentials: vec![EgressCredential {
                host: "api.example.com".into(),
                header: "authorization".into(),
                value: Secret::new("planted".into()),
                variable: Some("KEY".into()),
            }],
        };
        let variables = vec![("KEY".to_owned(), "placeholder".to_owned())];
        keep(folder.path(), &egress, &variables).unwrap();
        assert_eq!(kept(folder.path()).unwrap(), Some(KeptEgress { egress, variables }));
        let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
