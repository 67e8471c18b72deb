//! Prints what a command costs through the agent, and bare, alternating so that both meet the
//! same weather. Give it the path of a `narthex-agent`, and how many rounds to run.
#![allow(clippy::disallowed_methods, reason = "it starts the program that it measures")]
#![allow(clippy::print_stdout, reason = "the figures are for whoever runs it")]

use std::error::Error;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agent::wire::{HEADER_LEN, Header, Reply, Request, Spawn};

const ROUNDS: u32 = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let path = words.next().ok_or("name the agent's program")?;
    let rounds = words.next().and_then(|word| word.to_str()?.parse().ok()).unwrap_or(ROUNDS);
    let (mut near, far) = UnixStream::pair()?;
    let mut agent = Command::new(path).stdin(Stdio::from(OwnedFd::from(far))).spawn()?;
    let mut bytes = Vec::new();
    read_until(&mut near, &mut bytes, |reply| matches!(reply, Reply::Hello { .. }))?;
    let (mut through, mut bare) = (Vec::new(), Vec::new());
    for id in 1..=rounds {
        let since = Instant::now();
        let mut frame = Vec::new();
        Request::Spawn(command()).encode(id, &mut frame)?;
        near.write_all(&frame)?;
        read_until(&mut near, &mut bytes, |reply| matches!(reply, Reply::Ended(_)))?;
        through.push(since.elapsed());

        let since = Instant::now();
        Command::new("bash")
            .args(["-c", "true"])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        bare.push(since.elapsed());
    }
    drop(near);
    agent.wait()?;
    show("through the agent", &mut through);
    show("bare", &mut bare);
    Ok(())
}

fn command() -> Spawn {
    Spawn {
        argv: vec![b"bash".to_vec(), b"-c".to_vec(), b"true".to_vec()],
        cwd: b"/tmp".to_vec(),
        env: vec![b"PATH=/usr/local/bin:/usr/bin:/bin".to_vec()],
        stdin: Vec::new(),
    }
}

fn read_until(
    stream: &mut UnixStream,
    bytes: &mut Vec<u8>,
    is_it: impl Fn(&Reply) -> bool,
) -> Result<(), Box<dyn Error>> {
    let mut part = [0; 4096];
    loop {
        while let Some(header) = Header::parse(bytes)? {
            let len = HEADER_LEN + header.len;
            let Some(payload) = bytes.get(HEADER_LEN..len) else { break };
            let reply = Reply::decode(header.kind, payload)?;
            bytes.drain(..len);
            if is_it(&reply) {
                return Ok(());
            }
        }
        match stream.read(&mut part)? {
            0 => return Err("the agent closed its stream".into()),
            count => bytes.extend_from_slice(part.get(..count).unwrap_or_default()),
        }
    }
}

fn show(name: &str, times: &mut [Duration]) {
    times.sort();
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
    println!("{name}: median {:?}, 10 % {:?}, 90 % {:?}", at(50), at(10), at(90));
}
