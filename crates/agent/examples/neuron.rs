//! What it costs to start a neuron and to run `true` in it, against a bare start of `true`.
//!
//! `cargo run --release -p agent --example neuron -- AGENT [ROUNDS] [user]`; with `user`, as an
//! ordinary user where it is started by root.
#![allow(clippy::print_stdout, reason = "the figures are for whoever runs it")]
#![allow(clippy::disallowed_methods, reason = "an example starts the program that it measures")]

use std::error::Error;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent::neuron::{Answer, Base, HostId, Layer, Layers, Limits, Plan, Report, remove_cgroups};
use agent::wire::{HEADER_LEN, Header, Reply, Request, Spawn};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Whose ids an ordinary user gets.
const USER: u32 = 1500;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let agent = arguments.next().ok_or("expected the path of narthex-agent")?;
    let rounds: usize = arguments.next().map_or(Ok(50), |text| text.parse())?;
    let is_user = arguments.next().is_some();
    let is_root = rustix::process::geteuid().is_root() && !is_user;
    let home = tempfile::tempdir()?;
    if is_user {
        std::os::unix::fs::chown(home.path(), Some(USER), Some(USER))?;
    }
    let pids = Limits { pids: Some(256), ..Limits::default() };
    let grouped = Limits { memory_bytes: Some(1 << 30), cpu_millis: Some(2_000), ..pids };
    let cases = [
        ("all layers", Layers::ALL, pids),
        ("and limits by cgroups", Layers::ALL, grouped),
        ("no seccomp", Layers::ALL.without(Layer::Seccomp), pids),
        ("no landlock", Layers::ALL.without(Layer::Landlock), pids),
        ("no network namespace", Layers::ALL.without(Layer::Network), pids),
    ];
    show("bare true", &mut (0..rounds).map(|_| bare()).collect::<Outcome<Vec<_>>>()?);
    for (name, layers, limits) in cases {
        let mut up = Vec::new();
        let mut done = Vec::new();
        for round in 0..rounds {
            let layer = home.path().join(format!("{name}-{round}"));
            std::fs::create_dir(&layer)?;
            if is_user {
                std::os::unix::fs::chown(&layer, Some(USER), Some(USER))?;
            }
            let plan = Plan {
                name: format!("cost-{}-{round}", std::process::id()),
                layers,
                base: Base::default(),
                layer: layer.clone(),
                disk: None,
                folder: None,
                home: "/home/neuron".into(),
                host_id: is_root.then_some(HostId { uid: 100_000, gid: 100_000 }),
                limits,
                cgroup_parents: Vec::new(),
                egress: None,
                files: Vec::new(),
            };
            let socket = layer.join("agent.sock");
            let since = Instant::now();
            let (report, mut launcher) = launch(&agent, is_user, &plan, &socket)?;
            up.push(since.elapsed());
            run_true(&socket)?;
            done.push(since.elapsed());
            launcher.wait()?;
            if round == 0 {
                for entry in &report.missing {
                    println!("  missing {}: {}", entry.layer.as_str(), entry.reason);
                }
            }
            if let Some(pid) = Pid::from_raw(i32::try_from(report.pid)?) {
                kill_process(pid, Signal::KILL)?;
            }
            remove_cgroups(&report.cgroups);
        }
        show(&format!("{name}: up"), &mut up);
        show(&format!("{name}: true ended"), &mut done);
    }
    Ok(())
}

fn show(name: &str, times: &mut [Duration]) {
    times.sort();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    println!("{name:35} min {:>9.2?} p50 {:>9.2?} p90 {:>9.2?}", at(0), at(50), at(90));
}

fn bare() -> Outcome<Duration> {
    let since = Instant::now();
    Command::new("true").stdin(Stdio::null()).status()?;
    Ok(since.elapsed())
}

fn launch(agent: &str, is_user: bool, plan: &Plan, socket: &Path) -> Outcome<(Report, Child)> {
    let listener = UnixListener::bind(socket)?;
    let (mut near, far) = UnixStream::pair()?;
    let mut command = Command::new(agent);
    command.arg("neuron").env_clear().stdin(Stdio::from(OwnedFd::from(far)));
    if is_user {
        command.uid(USER).gid(USER);
    }
    let child = command.spawn()?;
    let bytes = plan.encode()?;
    let head = u32::try_from(bytes.len())?.to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    let files = [listener.as_fd()];
    along.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(&near, &[IoSlice::new(&head)], &mut along, SendFlags::NOSIGNAL)?;
    near.write_all(&bytes)?;
    let mut head = [0; 4];
    near.read_exact(&mut head)?;
    let mut bytes = vec![0; usize::try_from(u32::from_le_bytes(head))?];
    near.read_exact(&mut bytes)?;
    match Answer::decode(&bytes)? {
        Answer::Up(report) => Ok((report, child)),
        Answer::Failed(failure) => Err(failure.into()),
    }
}

fn run_true(socket: &Path) -> Outcome<()> {
    let mut stream = UnixStream::connect(socket)?;
    let mut bytes = vec![agent::neuron::COMMANDS];
    let spawn = Spawn {
        argv: vec![b"true".to_vec()],
        cwd: b"/".to_vec(),
        env: vec![b"PATH=/usr/bin:/bin".to_vec()],
        stdin: Vec::new(),
    };
    Request::Spawn(spawn).encode(1, &mut bytes)?;
    stream.write_all(&bytes)?;
    loop {
        let mut head = [0; HEADER_LEN];
        stream.read_exact(&mut head)?;
        let header = Header::parse(&head)?.ok_or("a header is whole")?;
        let mut payload = vec![0; header.len];
        stream.read_exact(&mut payload)?;
        match Reply::decode(header.kind, &payload)? {
            Reply::Ended(_) => return Ok(()),
            Reply::Hello { .. } | Reply::Started { .. } | Reply::Output { .. } => {}
            other => return Err(format!("{other:?}").into()),
        }
    }
}
