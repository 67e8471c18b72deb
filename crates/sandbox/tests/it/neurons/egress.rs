//! The way out of a neuron: who opens it, when, and what the neuron sees of it.

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
use sandbox::{EgressDoor, EgressGate};

use super::{Land, options, spec};

/// A gate whose proxies say a word to whoever comes, and remember that they were opened.
#[derive(Debug)]
struct Gate {
    word: &'static str,
    opened: Mutex<Vec<(Egress, Weak<()>)>>,
}

impl Gate {
    fn new(word: &'static str) -> Arc<Self> {
        Arc::new(Self { word, opened: Mutex::default() })
    }

    /// How many ways out are open now.
    fn open_now(&self) -> usize {
        let opened = self.opened.lock().unwrap();
        opened.iter().filter(|(_, guard)| guard.strong_count() > 0).count()
    }
}

#[async_trait]
impl EgressGate for Gate {
    async fn open(
        &self,
        _: &NeuronId,
        egress: &Egress,
        folder: &Path,
    ) -> Result<EgressDoor, Fault> {
        let socket = folder.join("proxy.sock");
        let _old = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
        let certificate = folder.join("ca.pem");
        std::fs::write(&certificate, "certificate\n").unwrap();
        std::fs::set_permissions(&certificate, std::fs::Permissions::from_mode(0o644)).unwrap();
        let guard = Arc::new(());
        self.opened.lock().unwrap().push((egress.clone(), Arc::downgrade(&guard)));
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
            socket,
            files: vec![(certificate, "/run/narthex/ca.pem".into())],
            variables: vec![("SHOWN_KEY".to_owned(), "placeholder".to_owned())],
            guard: Box::new(guard),
        })
    }
}

fn reaching(id: &str) -> NeuronSpec {
    let rule = EgressRule {
        host: "api.example.com".into(),
        port: None,
        methods: Vec::new(),
        allows_private: false,
    };
    let credential = EgressCredential {
        host: "api.example.com".into(),
        header: "authorization".into(),
        value: stdx::Secret::new("planted-secret".into()),
        variable: Some("SHOWN_KEY".into()),
    };
    let egress = Egress { allow: vec![rule], credentials: vec![credential] };
    NeuronSpec { egress, ..spec(NeuronDriver::Namespace, id) }
}

fn with_gate(land: &Land, gate: &Arc<Gate>) -> Arc<dyn Neurons> {
    let mut options = options(&land.home());
    options.egress = Some(Arc::clone(gate) as Arc<dyn EgressGate>);
    sandbox::neurons(options)
}

async fn says(neurons: &dyn Neurons, id: &str, script: &str) -> String {
    let workspace = neurons.workspace(&NeuronId::new(id), None).await.unwrap();
    let ran = testkit::workspace_suite::bash(&*workspace, script).await;
    ran.out + &ran.err
}

const KNOCK: &str = "exec 3<>/dev/tcp/127.0.0.1/3128 && printf ask. >&3 && cat <&3";

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
    let (egress, _) = second.opened.lock().unwrap()[0].clone();
    assert_eq!(egress, reaching("out").egress);
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
