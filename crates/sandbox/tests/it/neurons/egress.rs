//! X9: the way out of a neuron, who opens it, when, and what the neuron sees of it. No secret is in
//! its memory, its files or those beside it.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use driver_api::{
    Egress, EgressCredential, EgressRule, Fault, NeuronDriver, NeuronError, NeuronSpec, Neurons,
};
use protocol::NeuronId;
use sandbox::{EgressDoor, EgressGate, EgressPlace};
use stdx::Secret;

use super::{Land, options, spec};

/// A gate whose proxies say a word to whoever comes, and remember that they were opened.
#[derive(Debug)]
pub(super) struct Gate {
    word: &'static str,
    /// What is promised of the neurons of a test.
    has_credentials: bool,
    pub(super) opened: Mutex<Vec<Opened>>,
}

/// A way out, and with what it was opened.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) neuron: NeuronId,
    pub(super) egress: Egress,
    authority: Option<Vec<u8>>,
    guard: Weak<()>,
}

impl Gate {
    pub(super) fn new(word: &'static str) -> Arc<Self> {
        Arc::new(Self { word, has_credentials: true, opened: Mutex::default() })
    }

    /// How many ways out were opened so far.
    pub(super) fn count(&self) -> usize {
        self.opened.lock().unwrap().len()
    }

    /// How many ways out are open now.
    pub(super) fn open_now(&self) -> usize {
        let opened = self.opened.lock().unwrap();
        opened.iter().filter(|opened| opened.guard.strong_count() > 0).count()
    }
}

#[async_trait]
impl EgressGate for Gate {
    fn prepare(&self, has_credentials: bool, folder: &Path) -> Result<EgressPlace, Fault> {
        assert_eq!(has_credentials, self.has_credentials);
        let certificate = folder.join("ca.pem");
        if !certificate.exists() {
            std::fs::write(&certificate, "").unwrap();
        }
        std::fs::set_permissions(&certificate, std::fs::Permissions::from_mode(0o644)).unwrap();
        Ok(EgressPlace {
            socket: "proxy.sock".to_owned(),
            files: vec![("ca.pem".to_owned(), "/run/narthex/ca.pem".into())],
        })
    }

    async fn open(
        &self,
        neuron: &NeuronId,
        egress: &Egress,
        folder: &Path,
        authority: Option<&Secret<Vec<u8>>>,
    ) -> Result<EgressDoor, Fault> {
        let socket = folder.join("proxy.sock");
        let _old = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
        std::fs::write(folder.join("ca.pem"), "certificate\n").unwrap();
        let guard = Arc::new(());
        let opened = Opened {
            neuron: neuron.clone(),
            egress: egress.clone(),
            authority: authority.map(|secret| secret.expose().clone()),
            guard: Arc::downgrade(&guard),
        };
        self.opened.lock().unwrap().push(opened);
        let (word, watched) = (self.word, Arc::downgrade(&guard));
        listener.set_nonblocking(true).unwrap();
        let _proxy = std::thread::spawn(move || {
            while watched.strong_count() > 0 {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        stream.set_nonblocking(false).unwrap();
                        let mut asked = [0; 4];
                        let _asked = stream.read_exact(&mut asked);
                        let _said = stream.write_all(word.as_bytes());
                    }
                    Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
                }
            }
        });
        Ok(EgressDoor {
            variables: vec![("SHOWN_KEY".to_owned(), "placeholder".to_owned())],
            authority: Some(Secret::new(format!("authority of {}", self.word).into_bytes())),
            guard: Box::new(guard),
        })
    }
}

pub(super) fn reaching(id: &str) -> NeuronSpec {
    let rule = EgressRule {
        host: "api.example.com".into(),
        port: None,
        methods: Vec::new(),
        allows_private: false,
    };
    let credential = EgressCredential {
        host: "api.example.com".into(),
        header: "authorization".into(),
        prefix: String::new(),
        value: Secret::new("planted-secret".into()),
        variable: Some("SHOWN_KEY".into()),
    };
    let egress = Egress { allow: vec![rule], credentials: vec![credential] };
    NeuronSpec { egress, ..spec(NeuronDriver::Namespace, id) }
}

/// A process whose settings have the secret of these tests.
fn with_gate(land: &Land, gate: &Arc<Gate>) -> Arc<dyn Neurons> {
    let mut options = options(&land.home());
    options.usual_egress = reaching("any").egress;
    options.egress = Some(Arc::clone(gate) as Arc<dyn EgressGate>);
    sandbox::neurons(options)
}

async fn says(neurons: &dyn Neurons, id: &str, script: &str) -> String {
    let workspace = neurons.workspace(&NeuronId::new(id), None).await.unwrap();
    let ran = testkit::workspace_suite::bash(&*workspace, script).await;
    ran.out + &ran.err
}

pub(super) const KNOCK: &str = "exec 3<>/dev/tcp/127.0.0.1/3128 && printf ask. >&3 && cat <&3";

#[tokio::test]
async fn a_neuron_reaches_its_proxy_and_the_next_one_after_it() {
    let land = Land::new();
    let first = Gate::new("first\n");
    let neurons = with_gate(&land, &first);
    neurons.create(reaching("out")).await.unwrap();
    assert_eq!(first.open_now(), 1);
    assert_eq!(says(&*neurons, "out", KNOCK).await, "first\n");
    let script = "echo $https_proxy $HTTP_PROXY $SHOWN_KEY; cat /run/narthex/ca.pem";
    let expected = "http://127.0.0.1:3128 http://127.0.0.1:3128 placeholder\ncertificate\n";
    assert_eq!(says(&*neurons, "out", script).await, expected);
    // The secret is nowhere where a command could look.
    let seen = says(&*neurons, "out", "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null").await;
    assert!(!seen.contains("planted-secret"));
    neurons.close().await;
    assert_eq!(first.open_now(), 0, "whoever lets go closes the way");
    let second = Gate::new("second\n");
    let next = with_gate(&land, &second);
    assert_eq!(says(&*next, "out", KNOCK).await, "second\n");
    let opened = second.opened.lock().unwrap()[0].clone();
    assert_eq!(opened.egress, reaching("out").egress);
    assert_eq!(opened.authority.as_deref(), Some(b"authority of first\n".as_slice()));
    assert_eq!(says(&*next, "out", script).await, expected);
    next.destroy(&NeuronId::new("out")).await.unwrap();
    assert_eq!(second.open_now(), 0);
}

#[tokio::test]
async fn without_a_proxy_nothing_is_promised_and_nothing_reached() {
    let land = Land::new();
    let refused = land.neurons.create(reaching("out")).await;
    assert!(matches!(refused, Err(NeuronError::NotSupported(_))), "got {refused:?}");
    let gate = Gate::new("never\n");
    let neurons = with_gate(&land, &gate);
    neurons.create(spec(NeuronDriver::Namespace, "closed")).await.unwrap();
    assert_eq!(gate.opened.lock().unwrap().len(), 0);
    let script =
        "(exec 3<>/dev/tcp/127.0.0.1/3128) 2>/dev/null || echo closed; env | grep -i proxy";
    assert_eq!(says(&*neurons, "closed", script).await, "closed\n");
}

#[tokio::test]
async fn a_secret_is_in_no_file_and_comes_from_the_settings_of_the_next_owner() {
    let land = Land::new();
    let first = Gate::new("first\n");
    let neurons = with_gate(&land, &first);
    neurons.create(reaching("out")).await.unwrap();
    // Also where it is forked, by the one who was given the secret for the first one.
    neurons.fork(&NeuronId::new("out"), NeuronId::new("copy")).await.unwrap();
    assert_eq!(first.opened.lock().unwrap()[1].egress, reaching("out").egress);
    for id in ["out", "copy"] {
        for entry in std::fs::read_dir(land.of(id)).unwrap().flatten() {
            if entry.file_type().unwrap().is_file() {
                let text = std::fs::read(entry.path()).unwrap();
                let text = String::from_utf8_lossy(&text).into_owned();
                assert!(!text.contains("planted-secret"), "{:?}", entry.path());
            }
        }
    }
    neurons.close().await;
    // One whose settings have it not: it opens a way out that leads to no such host.
    let second = Gate::new("second\n");
    let mut poor = options(&land.home());
    poor.egress = Some(Arc::clone(&second) as Arc<dyn EgressGate>);
    let poor = sandbox::neurons(poor);
    assert_eq!(says(&*poor, "out", KNOCK).await, "second\n");
    assert_eq!(second.opened.lock().unwrap()[0].egress, Egress::default());
    poor.close().await;
    let refused = poor.fork(&NeuronId::new("out"), NeuronId::new("other")).await;
    assert!(
        matches!(&refused, Err(NeuronError::NotSupported(it)) if it.contains("api.example.com")),
        "got {refused:?}"
    );
    assert!(!land.of("other").exists());
}
