//! A blocking client of the agent, and the means to find what a command left behind.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use agent::wire::{Ended, FRAME_COST, HEADER_LEN, Header, Reply, Request, Spawn, Stream, VERSION};

/// More than any of these tests needs, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long a step may take that should take no time.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// A client of an agent that it started itself, or of one in a neuron.
#[derive(Debug)]
pub(crate) struct Client<A = Agent> {
    pub(crate) stream: UnixStream,
    pub(crate) agent: A,
    bytes: Vec<u8>,
    start: usize,
    early: HashMap<u32, Vec<Reply>>,
    last_id: u32,
}

/// An agent as a child, ended with its client.
#[derive(Debug)]
pub(crate) struct Agent(Child);

impl std::ops::Deref for Agent {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl std::ops::DerefMut for Agent {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ended = (self.0.kill(), self.0.wait());
    }
}

impl Client {
    pub(crate) fn start() -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let agent = Command::new(env!("CARGO_BIN_EXE_narthex-agent"))
            .stdin(Stdio::from(OwnedFd::from(far)))
            .spawn()
            .unwrap();
        Self::over(near, Agent(agent))
    }

    /// Closes the stream and waits for the agent's exit, which must be a good one.
    pub(crate) fn close(mut self) -> Duration {
        let since = Instant::now();
        self.stream.shutdown(std::net::Shutdown::Both).unwrap();
        let status = self.agent.wait().unwrap();
        assert!(status.success(), "expected a clean exit, got {status}");
        since.elapsed()
    }
}

impl<A> Client<A> {
    /// A client over a stream whose other end is an agent.
    pub(crate) fn over(stream: UnixStream, agent: A) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client =
            Self { stream, agent, bytes: Vec::new(), start: 0, early: HashMap::new(), last_id: 0 };
        assert_eq!(client.next(0), Reply::Hello { version: VERSION });
        client
    }

    pub(crate) fn ask(&mut self, id: u32, request: &Request) {
        let mut frame = Vec::new();
        request.encode(id, &mut frame).unwrap();
        self.stream.write_all(&frame).unwrap();
    }

    /// Asks for a command without waiting for an answer.
    pub(crate) fn spawn(&mut self, spawn: Spawn) -> u32 {
        self.last_id += 1;
        self.ask(self.last_id, &Request::Spawn(spawn));
        self.last_id
    }

    /// Starts a shell command and waits until it runs.
    pub(crate) fn bash(&mut self, script: &str) -> (u32, u32) {
        let id = self.spawn(bash(script));
        match self.next(id) {
            Reply::Started { pid } => (id, pid),
            other => panic!("expected {script:?} to start, got {:.80}", format!("{other:?}")),
        }
    }

    pub(crate) fn kill(&mut self, id: u32, grace: Duration) {
        let grace_ms = u32::try_from(grace.as_millis()).unwrap();
        self.ask(id, &Request::Kill { grace_ms });
    }

    /// Returns the next reply about a command; others wait for their turn.
    pub(crate) fn next(&mut self, id: u32) -> Reply {
        loop {
            if let Some(replies) = self.early.get_mut(&id).filter(|replies| !replies.is_empty()) {
                return replies.remove(0);
            }
            let (about, reply) = self.read();
            self.early.entry(about).or_default().push(reply);
        }
    }

    pub(crate) fn read(&mut self) -> (u32, Reply) {
        loop {
            let unread = &self.bytes[self.start..];
            if let Some(header) = Header::parse(unread).unwrap() {
                let len = HEADER_LEN + header.len;
                if unread.len() >= len {
                    let payload = &unread[HEADER_LEN..len];
                    let reply = Reply::decode(header.kind, payload).unwrap();
                    self.start += len;
                    return (header.id, reply);
                }
            }
            self.bytes.drain(..self.start);
            self.start = 0;
            let len = self.bytes.len();
            self.bytes.resize(len + (256 << 10), 0);
            let count = loop {
                match self.stream.read(&mut self.bytes[len..]) {
                    // A machine that freezes and thaws its processes interrupts timed reads.
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    read => break read.expect("expected a frame in time"),
                }
            };
            assert!(count > 0, "expected a frame, got the end of the stream");
            self.bytes.truncate(len + count);
        }
    }

    /// Reads a command to its end, giving credit; returns both outputs and the last word.
    pub(crate) fn finish(&mut self, id: u32) -> (Vec<u8>, Vec<u8>, Reply) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            match self.next(id) {
                Reply::Output { stream, bytes } => {
                    let bytes_taken = u32::try_from(bytes.len()).unwrap() + FRAME_COST;
                    match stream {
                        Stream::Stdout => out.extend(bytes),
                        Stream::Stderr => err.extend(bytes),
                    }
                    self.ask(id, &Request::Credit { bytes: bytes_taken });
                }
                Reply::Started { .. } => {}
                last => return (out, err, last),
            }
        }
    }

    pub(crate) fn run(&mut self, script: &str) -> (String, String, Ended) {
        let id = self.spawn(bash(script));
        let (out, err, last) = self.finish(id);
        let Reply::Ended(ended) = last else { panic!("expected an end, got {last:?}") };
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), ended)
    }
}

pub(crate) fn command(argv: &[&str]) -> Spawn {
    let env = ["PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"];
    Spawn {
        argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
        cwd: b"/".to_vec(),
        env: env.iter().map(|pair| pair.as_bytes().to_vec()).collect(),
        stdin: Vec::new(),
    }
}

pub(crate) fn bash(script: &str) -> Spawn {
    command(&["bash", "-c", script])
}

/// A command that starts a stubborn tree. Every process of it is a `sleep` with a number that
/// nobody else uses.
#[derive(Debug)]
pub(crate) struct Tree {
    mark: String,
}

impl Tree {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { mark: format!("97{}{count:03}", std::process::id()) }
    }

    /// Six processes that try all ways to get away, and one in the foreground.
    pub(crate) fn script(&self) -> String {
        let shape = "setsid sleep {m}1 & \
            nohup sleep {m}2 >/dev/null 2>&1 & \
            (trap '' TERM INT HUP; sleep {m}3; sleep {m}4) & \
            setsid sh -c 'setsid sleep {m}5 & exec sleep {m}6' & \
            disown -a; sleep {m}7";
        shape.replace("{m}", &self.mark)
    }

    pub(crate) fn sleep(&self, number: u32) -> String {
        format!("sleep {}{number}", self.mark)
    }

    pub(crate) fn alive(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let words: Vec<&str> = line.split('\0').collect();
            let is_own = words[0].ends_with("sleep")
                && words.get(1).is_some_and(|w| w.starts_with(&self.mark));
            if is_own {
                found.push(words.join(" "));
            }
        }
        found
    }

    pub(crate) fn wait_up(&self, count: usize) {
        wait_until(PATIENCE, || self.alive().len() >= count, || format!("{:?}", self.alive()));
    }

    pub(crate) fn assert_gone(&self, when: &str) {
        let alive = self.alive();
        assert!(alive.is_empty(), "expected no survivor {when}, got {alive:?}");
    }

    /// For deaths that nobody reports.
    pub(crate) fn wait_gone(&self, within: Duration) {
        wait_until(within, || self.alive().is_empty(), || format!("{:?}", self.alive()));
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A failed test must not leave its tree on the machine.
        let _status =
            Command::new("pkill").args(["-9", "-f", &format!("^sleep {}", self.mark)]).status();
    }
}

pub(crate) fn wait_until(limit: Duration, done: impl Fn() -> bool, shown: impl Fn() -> String) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < limit, "expected it within {limit:?}, got {}", shown());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The pids below a process, itself not among them.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let list = std::fs::read_to_string(path).unwrap_or_default();
    list.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect()
}

pub(crate) fn parent(pid: u32) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = text.rsplit_once(')').unwrap().1;
    rest.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
