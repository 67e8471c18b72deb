//! The way out of a neuron: the proxy of `egress`, on the socket that the driver of neurons shows
//! inside.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{Clock, Egress, EgressAudit, EgressEvent, Fault};
use egress::{Certificates, Door, Options};
use protocol::NeuronId;
use sandbox::{EgressDoor, EgressGate};
use tokio::net::UnixListener;

/// The socket in the folder of a neuron's way out.
const SOCKET: &str = "proxy.sock";

/// The file with the certificate of the neuron's authority, in the same folder.
const CA_FILE: &str = "ca.pem";

/// The file with all certificates that commands trust, in the same folder.
const BUNDLE_FILE: &str = "roots.pem";

/// Opens ways out.
#[derive(Debug)]
pub(crate) struct WaysOut {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) audit: Arc<dyn EgressAudit>,
}

#[async_trait]
impl EgressGate for WaysOut {
    async fn open(
        &self,
        neuron: &NeuronId,
        egress: &Egress,
        folder: &Path,
    ) -> Result<EgressDoor, Fault> {
        let what = format!("open the way out of neuron {neuron}");
        let socket = folder.join(SOCKET);
        let listener = bind(folder).map_err(|error| Fault::with(&*what, error))?;
        let options = Options { clock: Arc::clone(&self.clock), ..Options::default() };
        let (ca_path, bundle_path) = (options.ca_path.clone(), options.bundle_path.clone());
        let audit = Arc::clone(&self.audit);
        let door = Door::open(neuron.clone(), egress, listener, audit, options)
            .map_err(|error| Fault::with(&*what, error))?;
        let certificates = door.certificates().await;
        let mut files = Vec::new();
        if let Some(certificates) = certificates.map_err(|error| Fault::with(&*what, error))? {
            let Certificates { ca_pem, bundle_pem } = certificates;
            for (name, text, inside) in
                [(CA_FILE, ca_pem, ca_path), (BUNDLE_FILE, bundle_pem, bundle_path)]
            {
                let path = folder.join(name);
                write(&path, &text).map_err(|error| Fault::with(&*what, error))?;
                files.push((path, PathBuf::from(inside)));
            }
        }
        let variables = door.variables();
        Ok(EgressDoor { socket, files, variables, guard: Box::new(door) })
    }
}

/// Listens in a folder, in place of whoever did before. The folder is named by its descriptor: an
/// address has at most 107 bytes, a home may be anywhere.
fn bind(folder: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(folder.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let opened = std::fs::File::open(folder)?;
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd()))?;
    // Whoever comes to the folder is this user or the neuron.
    std::fs::set_permissions(folder.join(SOCKET), std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Writes a file that the neuron reads. Always into the file that is there: a neuron that runs
/// has that one, and a new one of the same name would be of no use to it.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
    file.write_all(text.as_bytes())?;
    // Whatever the mask of this process is: commands of the neuron have another user.
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// Writes what neurons ask for into the log. No event holds a secret.
#[derive(Debug)]
pub(crate) struct EgressLog;

impl EgressAudit for EgressLog {
    fn saw(&self, event: &EgressEvent) {
        let EgressEvent { neuron, method, host, port, .. } = event;
        let address = event.address.map(|address| address.to_string()).unwrap_or_default();
        match &event.refused {
            Some(why) => tracing::warn!(
                target: "egress", %neuron, method, host, port, address, why, "refused"
            ),
            None => tracing::info!(
                target: "egress", %neuron, method, host, port, address, status = event.status,
                credential = event.has_credential, "let through"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use driver_api::{EgressCredential, EgressRule, SystemClock};
    use stdx::Secret;

    use super::*;

    fn egress(has_credential: bool) -> Egress {
        let rule = EgressRule {
            host: "api.example.com".to_owned(),
            port: None,
            methods: Vec::new(),
            allows_private: false,
        };
        let credential = EgressCredential {
            host: "api.example.com".to_owned(),
            header: "authorization".to_owned(),
            value: Secret::new("Bearer planted".to_owned()),
            variable: Some("EXAMPLE_KEY".to_owned()),
        };
        let credentials = has_credential.then_some(credential).into_iter().collect();
        Egress { allow: vec![rule], credentials }
    }

    #[tokio::test]
    async fn a_door_is_opened_again_over_the_files_that_are_there() {
        use std::os::unix::fs::MetadataExt;
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("x".repeat(120));
        std::fs::create_dir(&folder).unwrap();
        let ways = WaysOut { clock: Arc::new(SystemClock::default()), audit: Arc::new(EgressLog) };
        let neuron = NeuronId::new("n");
        let first = ways.open(&neuron, &egress(true), &folder).await.unwrap();
        assert_eq!(first.files.len(), 2);
        let names: Vec<&str> = first.variables.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"https_proxy") && names.contains(&"EXAMPLE_KEY"), "{names:?}");
        assert!(!format!("{first:?}").contains("planted"), "{first:?}");
        let inode = std::fs::metadata(&first.files[0].0).unwrap().ino();
        drop(first);
        let second = ways.open(&neuron, &egress(true), &folder).await.unwrap();
        assert_eq!(std::fs::metadata(&second.files[0].0).unwrap().ino(), inode);
        assert_eq!(second.socket, folder.join(SOCKET));
        drop(second);
        assert!(ways.open(&neuron, &egress(false), &folder).await.unwrap().files.is_empty());
    }
}
