//! Attempts that are judged from outside: what lives on, what is used up, and what the agent and
//! its file service let themselves be made to do.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use agent::files::Target;
use agent::files::wire::{HEADER_LEN, Header, Reply, Request};
use agent::neuron::{COMMANDS, FILES, Layer};
use agent::wire::{FRAME_COST, Reply as Said, WINDOW};

use super::super::house::Neuron;
use super::attempt::Told;
use super::machine::Machine;
use crate::client::{PATIENCE, SOON, Tree, bash, command, wait_until};

/// Those that no layer is about: the agent itself sees to them.
pub(super) const OF_THE_AGENT: [&str; 9] = [
    "a daemon in a session of its own",
    "a daemon that ignores signals",
    "a daemon that is nobody's child",
    "a daemon that is its parent's sister",
    "a daemon that takes in orphans itself",
    "output without end",
    "a file read through a racing link",
    "a file written through a racing link",
    "a connection that says nothing sensible",
];

/// Everything that is tried, in this order: the last one may end the neuron.
pub(super) fn all(
    machine: &Machine,
    neuron: &Neuron,
    project: &Path,
    off: Option<Layer>,
) -> Vec<(&'static str, Told)> {
    let mut told = vec![
        (
            "a daemon in a session of its own",
            daemon(neuron, off, "setsid setsid {} & disown -a; exit"),
        ),
        (
            "a daemon that ignores signals",
            daemon(neuron, off, "(trap '' TERM INT HUP QUIT; {} & wait) & disown -a; exit"),
        ),
        (
            "a daemon that is nobody's child",
            daemon(
                neuron,
                off,
                "sh -c '(sh -c \"(setsid {} &) & exit\" &) & exit' & disown -a; exit",
            ),
        ),
        ("a daemon that is its parent's sister", daemon(neuron, off, &sister())),
        ("a daemon that takes in orphans itself", daemon(neuron, off, &reaper())),
        ("output without end", output(neuron)),
        ("a processor hog", processor(machine, off)),
        ("the agent's own program as a command", own_program(neuron)),
        ("a file read through a racing link", race(neuron, project, Ask::Read)),
        ("a file written through a racing link", race(neuron, project, Ask::Write)),
        ("a connection that says nothing sensible", garbage(neuron)),
    ];
    told.push(("signals to everybody", everybody(neuron, project, off)));
    told.push(("the end of the first process", first_process(neuron, off)));
    told
}

fn daemon(neuron: &Neuron, off: Option<Layer>, script: &str) -> Told {
    if off == Some(Layer::Mount) {
        return Told::absent("the agent finds its processes in /proc, which is the machine's here");
    }
    let tree = Tree::new();
    let mut client = neuron.client();
    client.run(&script.replace("{}", &format!("{} >/dev/null 2>&1 </dev/null", tree.sleep(1))));
    let since = Instant::now();
    while !tree.alive().is_empty() && since.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    let alive = tree.alive();
    Told::open_if(!alive.is_empty(), format!("{} live on", alive.len()))
}

/// `CLONE_PARENT`: the command's own parent gets a child that it did not ask for.
fn sister() -> String {
    let number = libc::SYS_clone;
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    format!("perl -e 'my $pid = syscall({number}, {flags}, 0, 0, 0, 0); exec \"{{}}\" if !$pid'")
}

/// `PR_SET_CHILD_SUBREAPER`.
fn reaper() -> String {
    let number = libc::SYS_prctl;
    format!(
        "perl -e 'syscall({number}, 36, 1, 0, 0, 0); if (!fork) {{ if (!fork) {{ exec \"{{}}\" }} \
         exit }} sleep 1; exec \"true\"' &"
    )
}

/// What nobody takes is not made: the agent stops reading when the reader gives no credit.
fn output(neuron: &Neuron) -> Told {
    let mut client = neuron.client();
    client.spawn(bash("exec yes"));
    client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut bytes = vec![0; 1 << 20];
    let mut count = 0;
    let most = usize::try_from(2 * WINDOW + FRAME_COST).unwrap();
    while count <= most {
        match client.stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    Told::open_if(count > most, format!("{count} bytes came"))
}

/// A loop in a neuron that may use a twentieth of a core; the kernel tells how often it was held
/// back.
fn processor(machine: &Machine, off: Option<Layer>) -> Told {
    if !machine.can(Layer::Cpu) {
        return Told::absent("nothing limits the processor here");
    }
    let mut site = machine.site(off);
    site.plan.limits.cpu_millis = Some(50);
    let neuron = site.start();
    let is_held_back = || {
        let files = neuron.report.cgroups.iter().map(|group| group.join("cpu.stat"));
        files.filter_map(|file| fs::read_to_string(file).ok()).any(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("nr_throttled "));
            line.is_some_and(|count| count.trim() != "0")
        })
    };
    let mut client = neuron.client();
    client.spawn(bash("while :; do :; done"));
    let since = Instant::now();
    let limit = if neuron.has(Layer::Cpu) { PATIENCE } else { Duration::ZERO };
    while !is_held_back() && since.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    Told::open_if(!is_held_back(), "held back by the kernel")
}

/// A link to `/proc/self/exe` in the place of a program would lead there too: the agent would run
/// itself under the libraries of the neuron, and could be written once it has ended.
fn own_program(neuron: &Neuron) -> Told {
    let mut client = neuron.client();
    let id = client.spawn(command(&["/proc/self/exe", "battery"]));
    match client.next(id) {
        Said::Failed { errno, .. } => {
            Told::held(std::io::Error::from_raw_os_error(errno).to_string())
        }
        other => Told::open(format!("{other:?}")),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    Read,
    Write,
}

/// A folder is replaced by a link and back while the file service works in it.
fn race(neuron: &Neuron, project: &Path, ask: Ask) -> Told {
    let mut racer = neuron.client();
    let script = format!(
        "cd {} && exec perl -e 'while (1) {{ rename \"race\", \"aside\"; \
         symlink \"hidden\", \"race\"; unlink \"race\"; rename \"aside\", \"race\" }}'",
        project.display()
    );
    racer.spawn(bash(&script));
    let mut stream = neuron.connect(FILES);
    let mut told = (0, 0);
    hear(&mut stream);
    for number in 0..400 {
        let name = if ask == Ask::Read { "key".to_owned() } else { format!("new{number}") };
        let real = project.join("race").join(&name);
        let file = Target { real, root: Some(project.to_owned()) };
        let request = match ask {
            Ask::Read => Request::Read { file, limit: 100 },
            Ask::Write => Request::Write { file, mode: None, bytes: b"x" },
        };
        let mut frame = Vec::new();
        request.encode(&mut frame).unwrap();
        stream.write_all(&frame).unwrap();
        match hear(&mut stream) {
            Reply::Contents(_, bytes) if bytes == b"hidden" => {
                return Told::open("the link was followed");
            }
            Reply::Contents(..) | Reply::Written(_) => told.0 += 1,
            Reply::Refused(_) => told.1 += 1,
            other => panic!("unexpected {other:?}"),
        }
    }
    drop(racer);
    let behind = fs::read_dir(project.join("hidden")).unwrap().count();
    let text = format!("{} went through, {} were refused", told.0, told.1);
    Told::open_if(behind != 1, text)
}

fn hear(stream: &mut UnixStream) -> Reply {
    let mut head = [0; HEADER_LEN];
    stream.read_exact(&mut head).unwrap();
    let header = Header::parse(head).unwrap();
    let mut payload = vec![0; header.len];
    stream.read_exact(&mut payload).unwrap();
    Reply::decode(header.kind, &payload).unwrap()
}

/// Frames that are none, and one that says that it is 4 GiB long, in both protocols.
fn garbage(neuron: &Neuron) -> Told {
    for purpose in [COMMANDS, FILES, b'?'] {
        for bytes in [&[0xff; 64][..], &[0; 64], &[0x41; 4096], &[9, 0, 0, 0, 1, 0, 0, 0, 0, 1]] {
            let mut stream = neuron.connect(purpose);
            let _closed = stream.write_all(bytes);
            let _closed = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            if stream.read_to_end(&mut answer).is_ok_and(|count| count > 4_096) {
                return Told::open("it was answered at length");
            }
        }
    }
    Told::open_if(!lives(neuron), "it lives on")
}

/// Whether a new connection is greeted. The first may still be met by what was on its way.
fn lives(neuron: &Neuron) -> bool {
    let is_greeted = || {
        let mut stream = UnixStream::connect(neuron.site.socket())?;
        stream.set_read_timeout(Some(SOON))?;
        stream.write_all(&[COMMANDS])?;
        stream.read_exact(&mut [0; agent::wire::HEADER_LEN])
    };
    (0..20).any(|_| {
        let greeted: std::io::Result<()> = is_greeted();
        if greeted.is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
        greeted.is_ok()
    })
}

fn everybody(neuron: &Neuron, project: &Path, off: Option<Layer>) -> Told {
    if off == Some(Layer::Pid) {
        return Told::absent("it would reach the processes of the machine");
    }
    let mut client = neuron.client();
    let done = project.join("signalled");
    let script = "kill -TERM -1; kill -STOP -1; kill -KILL -1; : > ";
    client.spawn(bash(&format!("{script}{}", done.display())));
    // Its own agent is among them: the connection ends.
    let mut bytes = [0; 64];
    while client.stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    // The shell leaves itself out, and may be ended with its agent before it is done.
    let word = done.to_string_lossy().into_owned();
    let is_over = || done.exists() || !is_running(&word);
    wait_until(PATIENCE, is_over, || "signals on their way".to_owned());
    Told::open_if(!lives(neuron), "a new connection is served")
}

/// Whether a process of the machine has a word in its command line.
fn is_running(word: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(word))
}

fn first_process(neuron: &Neuron, off: Option<Layer>) -> Told {
    let first = if off == Some(Layer::Pid) { neuron.report.pid } else { 1 };
    let mut client = neuron.client();
    let script = format!(
        "for s in STOP INT SEGV TERM KILL; do kill -$s {first}; done; kill -CONT {first}; sleep 0.1"
    );
    client.spawn(bash(&script));
    client.stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut bytes = [0; 4096];
    while client.stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    Told::open_if(!lives(neuron), "it lives on")
}
