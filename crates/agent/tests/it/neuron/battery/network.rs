//! Ways to the network that pass by the proxy, and through it to where it must not lead.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use agent::neuron::{EGRESS_PORT, Layer};
use libc::c_long;

use super::attempt::{Attempt, Told, at, call, into};
use super::place::Place;

/// Longer than anything takes that is answered.
const SOON: Duration = Duration::from_secs(5);

/// The host that the neuron may reach.
const ALLOWED: &str = "allowed.example";

/// Past the proxy.
pub(super) const PAST: &[Attempt] = &[
    ("a service of the machine's loopback device", |place| {
        tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port(place, "tcp4"))))
    }),
    ("the same by IPv6", |place| match port(place, "tcp6") {
        0 => Told::absent("the machine has no IPv6"),
        port => tcp(SocketAddr::from((Ipv6Addr::LOCALHOST, port))),
    }),
    ("the same by the address of nobody", |place| {
        tcp(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port(place, "tcp4"))))
    }),
    ("a way to the internet", |_| route("0.0.0.0:0", "198.51.100.7:443")),
    ("a way to the internet by IPv6", |_| route("[::]:0", "[2001:db8::7]:443")),
    ("a way to a name server", |_| {
        Told::any([route("0.0.0.0:0", "192.0.2.53:53"), route("[::]:0", "[2001:db8::53]:53")])
    }),
    ("a name resolved", |_| {
        use std::net::ToSocketAddrs;
        Told::of(("allowed.example", 80).to_socket_addrs())
    }),
    ("a way to the machine's metadata", |_| {
        Told::any([route("0.0.0.0:0", "169.254.169.254:80"), route("[::]:0", "[fd00:ec2::254]:80")])
    }),
    ("neighbours by broadcast", |_| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_broadcast(true).unwrap();
        Told::of(socket.connect("255.255.255.255:9"))
    }),
    ("raw packets", |_| raw(libc::AF_INET, libc::IPPROTO_ICMP)),
    ("raw packets of IPv6", |_| raw(libc::AF_INET6, libc::IPPROTO_ICMPV6)),
    ("a device of the network changed", |_| {
        // Its flags as they are: a success changes nothing.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = c_long::from(std::os::fd::AsRawFd::as_raw_fd(&socket));
        let mut request = [0_u8; 40];
        request[..2].copy_from_slice(b"lo");
        call(libc::SYS_ioctl, &[fd, 0x8913, into(&mut request)]).unwrap();
        Told::of(call(libc::SYS_ioctl, &[fd, 0x8914, at(&request)]))
    }),
    ("devices of the machine's network", |_| {
        let text = std::fs::read_to_string("/proc/self/net/dev").unwrap();
        let names = text.lines().skip(2).filter_map(|line| line.split(':').next());
        let others: Vec<&str> = names.map(str::trim).filter(|name| *name != "lo").collect();
        Told::open_if(!others.is_empty(), others.join(" "))
    }),
    ("a service of the machine by an abstract name", |place| {
        let address =
            std::os::unix::net::SocketAddr::from_abstract_name(place.text("abstract")).unwrap();
        Told::of(UnixStream::connect_addr(&address))
    }),
];

/// What the proxy itself has to see through.
pub(super) const THROUGH: &[Attempt] = &[
    ("another host", |place| get(place, "http://other.example/")),
    ("a name that only ends like an allowed one", |place| get(place, "http://notallowed.example/")),
    ("a port that is not allowed", |place| get(place, "http://allowed.example:8080/")),
    ("the metadata by the proxy", |place| get(place, "http://169.254.169.254/latest/meta-data/")),
    ("the metadata by a name", |place| get(place, "http://meta.example/latest/meta-data/")),
    ("the metadata by its number", |place| get(place, "http://2852039166/latest/meta-data/")),
    ("the metadata in an address of IPv6", |place| {
        Told::any(
            ["[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[fd00:ec2::254]"]
                .map(|host| get(place, &format!("http://{host}/"))),
        )
    }),
    ("the machine by the proxy", |place| {
        let port = port(place, "tcp4");
        let hosts = ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1", "inner.example"];
        Told::any(hosts.map(|host| get(place, &format!("http://{host}:{port}/"))))
    }),
    ("a name whose address changes", |place| {
        // The first answer may be public, the second is the machine.
        Told::any([(); 3].map(|()| get(place, "http://turning.example/")))
    }),
    ("a host before the @ of an address", |place| {
        Told::any(
            ["http://allowed.example@other.example/", "http://allowed.example:80@169.254.169.254/"]
                .map(|url| get(place, url)),
        )
    }),
    ("another host in the Host header", |place| {
        let text = "GET http://allowed.example/ HTTP/1.1\r\nhost: other.example\r\n\
            connection: close\r\n\r\n";
        heard_of(place, text)
    }),
    ("two Host headers", |place| {
        let text = "GET http://allowed.example/ HTTP/1.1\r\nhost: allowed.example\r\n\
            host: other.example\r\nconnection: close\r\n\r\n";
        heard_of(place, text)
    }),
    ("a second request within a body", |place| {
        let text = "POST http://allowed.example/ HTTP/1.1\r\nhost: allowed.example\r\n\
            content-length: 61\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n\
            GET http://other.example/ HTTP/1.1\r\nhost: other.example\r\n\r\n";
        heard_of(place, text)
    }),
    ("a second request on one connection", |place| {
        let text = "GET http://allowed.example/ HTTP/1.1\r\nhost: allowed.example\r\n\r\n\
            GET http://other.example/ HTTP/1.1\r\nhost: other.example\r\nconnection: close\r\n\r\n";
        heard_of(place, text)
    }),
    ("a line in an address", |place| {
        let text = "GET http://allowed.example/\nhost:other.example HTTP/1.1\r\n\
            host: allowed.example\r\nconnection: close\r\n\r\n";
        heard_of(place, text)
    }),
    ("a tunnel to an address", |place| {
        Told::any(
            ["93.184.215.14:443", "169.254.169.254:443", "127.0.0.1:443"]
                .map(|target| tunnel(place, target, None)),
        )
    }),
    ("a tunnel to another port", |place| {
        Told::any(
            [22, 25, 8443, 3306].map(|port| tunnel(place, &format!("{ALLOWED}:{port}"), None)),
        )
    }),
    ("a tunnel to an allowed host with another name in it", |place| {
        tunnel(place, "allowed.example:443", Some(&hello(Some("other.example"))))
    }),
    ("a tunnel with no name in it", |place| {
        tunnel(place, "allowed.example:443", Some(&hello(None)))
    }),
    ("a tunnel for something that is not TLS", |place| {
        let text = b"GET / HTTP/1.1\r\nhost: other.example\r\n\r\n";
        Told::any(
            [&text[..], b"SSH-2.0-x\r\n", &[0x16; 300]]
                .map(|bytes| tunnel(place, "allowed.example:443", Some(bytes))),
        )
    }),
    ("the proxy's own tunnels within a tunnel", |place| {
        let inner = b"CONNECT other.example:443 HTTP/1.1\r\nhost: other.example:443\r\n\r\n";
        tunnel(place, "allowed.example:443", Some(inner))
    }),
    ("more connections than the way out takes", |place| {
        if place.is_off(Layer::Network) {
            return Told::absent("there is no way out without a network of its own");
        }
        let many: Vec<_> = (0..200).map_while(|_| proxy().ok()).collect();
        let count = many.len();
        drop(many);
        let answer = say("GET http://allowed.example/ HTTP/1.1\r\nhost: x\r\n\
            connection: close\r\n\r\n");
        let is_well = answer.as_deref().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"));
        Told::open_if(!is_well, format!("after {count} others: {answer:.80?}"))
    }),
];

fn port(place: &Place, key: &str) -> u16 {
    u16::try_from(place.number(key)).unwrap()
}

fn tcp(address: SocketAddr) -> Told {
    Told::of(TcpStream::connect_timeout(&address, SOON))
}

/// Asks the kernel for a way without sending anything.
fn route(from: &str, to: &str) -> Told {
    match UdpSocket::bind(from) {
        Ok(socket) => Told::of(socket.connect(to)),
        Err(error) => Told::held(error.to_string()),
    }
}

fn raw(family: i32, protocol: i32) -> Told {
    let arguments = [family.into(), c_long::from(libc::SOCK_RAW), protocol.into()];
    Told::of(call(libc::SYS_socket, &arguments))
}

fn proxy() -> io::Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, EGRESS_PORT));
    let stream = TcpStream::connect_timeout(&address, SOON)?;
    stream.set_read_timeout(Some(SOON))?;
    Ok(stream)
}

/// Says something to the proxy and reads all that comes back.
fn say(text: &str) -> io::Result<String> {
    let mut stream = proxy()?;
    stream.write_all(text.as_bytes())?;
    Ok(rest(&mut stream))
}

/// What comes until the end, or until nothing comes any more.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _late = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn get(place: &Place, url: &str) -> Told {
    if place.is_off(Layer::Network) {
        return Told::absent("there is no way out without a network of its own");
    }
    let host = url.split('/').nth(2).unwrap_or_default();
    match say(&format!("GET {url} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")) {
        Ok(answer) => {
            let status = answer.lines().next().unwrap_or_default().to_owned();
            Told::open_if(status.starts_with("HTTP/1.1 2"), format!("{host}: {status}"))
        }
        Err(error) => Told::held(error.to_string()),
    }
}

/// The server behind the proxy repeats the names that it hears.
fn heard_of(place: &Place, text: &str) -> Told {
    if place.is_off(Layer::Network) {
        return Told::absent("there is no way out without a network of its own");
    }
    match say(text) {
        Ok(answer) => {
            let status = answer.lines().next().unwrap_or_default().to_owned();
            Told::open_if(answer.contains("heard other.example"), status)
        }
        Err(error) => Told::held(error.to_string()),
    }
}

/// Opens a tunnel. It is a success by itself where nothing is to be said in it, else where anything
/// comes back.
fn tunnel(place: &Place, target: &str, bytes: Option<&[u8]>) -> Told {
    if place.is_off(Layer::Network) {
        return Told::absent("there is no way out without a network of its own");
    }
    let opened = proxy().and_then(|mut stream| {
        write!(stream, "CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n")?;
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        Ok((stream, head))
    });
    let (mut stream, head) = match opened {
        Ok(opened) => opened,
        Err(error) => return Told::held(error.to_string()),
    };
    let status = head.lines().next().unwrap_or_default().to_owned();
    let is_open = status.starts_with("HTTP/1.1 200");
    let Some(bytes) = bytes.filter(|_| is_open) else {
        return Told::open_if(is_open, status);
    };
    let _refused = stream.write_all(bytes);
    let answer = rest(&mut stream);
    Told::open_if(answer.contains("heard"), format!("{} bytes came back", answer.len()))
}

/// A hello of TLS 1.2 with one cipher and at most one extension, the name.
fn hello(name: Option<&str>) -> Vec<u8> {
    let mut extensions = Vec::new();
    if let Some(name) = name {
        let len = u16::try_from(name.len()).unwrap();
        extensions.extend([0, 0]);
        extensions.extend((len + 5).to_be_bytes());
        extensions.extend((len + 3).to_be_bytes());
        extensions.push(0);
        extensions.extend(len.to_be_bytes());
        extensions.extend(name.as_bytes());
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
    body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend(&extensions);
    let mut handshake = vec![1, 0];
    handshake.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    handshake.extend(&body);
    let mut record = vec![0x16, 3, 1];
    record.extend(u16::try_from(handshake.len()).unwrap().to_be_bytes());
    record.extend(&handshake);
    record
}
