//! The way out, and that there is no other.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::thread::JoinHandle;

use agent::neuron::Egress;

use super::house::{Site, Who, everybody};

#[test]
fn x2_nothing_is_reached() {
    let machine = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = machine.local_addr().unwrap().port();
    for who in everybody() {
        let neuron = Site::new(who).start();
        let script = format!("echo > /dev/tcp/127.0.0.1/{port}");
        assert!(neuron.run(&script).contains("Connection refused"));
        for address in ["192.0.2.1/80", "169.254.169.254/80"] {
            let told = neuron.run(&format!("echo > /dev/tcp/{address}"));
            assert!(told.contains("Network is unreachable"), "{told}");
            let told = neuron.run(&format!("echo > /dev/udp/{address}"));
            assert!(told.contains("Network is unreachable"), "{told}");
        }
        assert_eq!(neuron.run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo");
    }
}

/// A proxy that answers each connection with its name and what it was sent.
fn proxy(path: &Path, name: &'static str) -> JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut said = String::new();
        // Up to the half-close.
        stream.read_to_string(&mut said).unwrap();
        stream.write_all(format!("{name}:{said}").as_bytes()).unwrap();
    })
}

/// Sends a word, closes that half, and reads the answer: without a program for it, by the test
/// binary's own language of last resort.
const ASK: &str = "perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(\
    PeerAddr => \"127.0.0.1:3128\") or die \"none\"; print $s \"word\"; $s->shutdown(1); \
    print <$s>'";

fn egress(who: Who) -> Site {
    let mut site = Site::new(who);
    let folder = site.folder("egress");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o711)).unwrap();
    site.plan.egress = Some(Egress { folder, socket: "proxy.sock".to_owned() });
    site
}

#[test]
fn the_proxy_is_reached_and_may_be_replaced() {
    for who in everybody() {
        let site = egress(who);
        let socket = site.home.path().join("egress/proxy.sock");
        let neuron = site.start();
        for name in ["one", "two"] {
            let served = proxy(&socket, name);
            assert_eq!(neuron.run(ASK), format!("{name}:word"));
            served.join().unwrap();
            std::fs::remove_file(&socket).unwrap();
        }
        // No proxy: the connection ends at once.
        assert_eq!(neuron.run(ASK), "");
        let script = "find / -name proxy.sock 2>/dev/null; \
            ls -d /proc/*/cwd/proxy.sock 2>/dev/null; echo looked";
        assert_eq!(neuron.run(script), "looked", "commands have no path to it");
    }
}

#[test]
fn abstract_sockets_of_the_machine_are_not_there() {
    for who in everybody() {
        let neuron = Site::new(who).start();
        let name = neuron.site.plan.name.clone();
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let script = format!(
            "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0); \
            connect($s, pack(\"Sa*\", AF_UNIX, \"\\0{name}\")) and print \"open\"; print \"$!\"'"
        );
        assert_eq!(neuron.run(&script), "Connection refused");
    }
}
