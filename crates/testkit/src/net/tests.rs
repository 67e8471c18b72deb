//! The proxy against a server that says what it is told.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::meter::Meter;
use super::{At, Fault, Harm, Proxy};

const ANSWER: &str = "HTTP/1.1 200 OK\r\n\r\nid: 1\n\nid: 2\n\nid: 3\n\n";
const HEAD: usize = 19;

/// How a server's connection ended.
type End = std::io::Result<usize>;

/// Serves connections: reads a line, answers, reads to the end, and tells how that came.
fn server() -> (u16, Receiver<End>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (ends, ended) = channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut byte = [0; 1];
            while stream.read(&mut byte).is_ok_and(|count| count > 0) && byte != *b"\n" {}
            if stream.write_all(ANSWER.as_bytes()).is_err() {
                continue;
            }
            let end = stream.read(&mut byte);
            if matches!(end, Ok(0)) {
                drop(stream.write_all(b"bye"));
            }
            drop(ends.send(end));
        }
    });
    (port, ended)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    drop(stream.write_all(b"go\n"));
    stream
}

/// Reads until the end; returns what came, and whether the end was a proper one.
fn read(stream: &mut TcpStream) -> (String, bool) {
    let (mut all, mut piece) = (Vec::new(), [0; 64]);
    let is_proper = loop {
        match stream.read(&mut piece) {
            Ok(0) => break true,
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(_) => break false,
        }
    };
    (String::from_utf8(all).unwrap(), is_proper)
}

#[test]
fn places_are_found_however_the_bytes_are_cut() {
    let frame = |count, more| At::Frame { count, more };
    for (at, expected) in [
        (At::Bytes(0), Some(0)),
        (At::Bytes(5), Some(5)),
        (At::frame(0), Some(HEAD)),
        (At::frame(2), Some(HEAD + 14)),
        (frame(1, 3), Some(HEAD + 10)),
        (frame(3, 1), None),
        (At::Bytes(1000), None),
    ] {
        for size in [1, 2, 3, 7, 64] {
            let mut meter = Meter::new(at);
            let mut before = 0;
            let found = ANSWER.as_bytes().chunks(size).find_map(|piece| {
                let due = meter.pass(piece).map(|bytes| before + bytes);
                before += piece.len();
                due
            });
            assert_eq!(found, expected, "{at:?} in pieces of {size}");
        }
    }
}

#[test]
fn cuts_come_where_they_were_planned_and_both_sides_see_them() {
    let (port, ended) = server();
    let proxy = Proxy::start(port);
    for (place, harm) in [(1, Harm::Reset), (2, Harm::Finish)] {
        proxy.plan(Fault { at: At::frame(place), harm });
        let mut stream = connect(&proxy);
        let (came, is_proper) = read(&mut stream);
        assert_eq!((came.as_str(), is_proper), (&ANSWER[..HEAD + 7 * place], harm == Harm::Finish));
        assert_eq!(ended.recv().unwrap().is_ok(), harm == Harm::Finish);
        assert_eq!(proxy.struck(), place);
    }
}

#[test]
fn a_black_hole_hands_nothing_on_until_it_is_released() {
    let (port, ended) = server();
    let proxy = Proxy::start(port);
    proxy.plan(Fault { at: At::frame(1), harm: Harm::BlackHole });
    let mut stream = connect(&proxy);
    let mut came = vec![0; HEAD + 7];
    stream.read_exact(&mut came).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    while proxy.struck() == 0 {
        std::thread::yield_now();
    }
    assert!(ended.try_recv().is_err(), "the server does not hear that the client left");
    proxy.release();
    assert_eq!(read(&mut stream), (String::new(), false));
    assert!(ended.recv().unwrap().is_err());
}

#[test]
fn a_half_closed_client_still_gets_what_comes() {
    let (port, ended) = server();
    let proxy = Proxy::start(port);
    proxy.in_pieces_of(1);
    proxy.plan(Fault { at: At::Bytes(4), harm: Harm::HalfClose });
    let mut stream = connect(&proxy);
    assert_eq!(read(&mut stream), (format!("{ANSWER}bye"), true));
    assert!(matches!(ended.recv().unwrap(), Ok(0)));
}

#[test]
fn refused_connections_reach_nobody_and_others_go_where_they_are_sent() {
    let (port, _ended) = server();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let proxy = Proxy::start(gone);
    let mut stream = connect(&proxy);
    // A reset that meets the client's own words is told to those, and the end after them looks
    // like a proper one.
    assert_eq!(read(&mut stream).0, "", "nobody listens there");
    proxy.retarget(port);
    proxy.refuse(true);
    assert_eq!(read(&mut connect(&proxy)).0, "");
    proxy.refuse(false);
    let mut stream = connect(&proxy);
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read(&mut stream), (format!("{ANSWER}bye"), true));
    assert_eq!((proxy.accepted(), proxy.struck()), (3, 0));
}
