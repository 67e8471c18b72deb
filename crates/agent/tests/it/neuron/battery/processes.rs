//! Processes of the machine and of the agent, names, messages, and what a neuron may use up.

use std::fs;
use std::os::fd::AsRawFd;
use std::time::Duration;

use agent::neuron::Layer;
use libc::c_long;

use super::attempt::{
    Attempt, Told, at, call, finish, fork, in_fork, into, leave, path, processes, readable,
    writable,
};

/// More processes than the battery's neuron may have.
const PROCESSES: usize = 300;

/// More memory than it may have.
const MEMORY: usize = 224 << 20;

/// More bytes than its layers may hold.
const BYTES: usize = 40 << 20;

/// More files than they may hold.
const FILES: usize = 17_000;

/// Those that are held by what each process of a machine may use.
pub(super) const OF_LIMITS: [&str; 3] =
    ["a hog of descriptors", "signals queued without end", "memory that cannot be swapped"];

pub(super) const LIST: &[Attempt] = &[
    ("a process of the machine seen", |place| {
        let path = format!("/proc/{}/cmdline", place.text("victim"));
        let line = fs::read_to_string(path).unwrap_or_default();
        Told::open_if(line.contains(place.text("victim.word")), "its command line")
    }),
    ("a process of the machine signalled", |place| {
        Told::of(call(libc::SYS_kill, &[place.number("victim"), 0]))
    }),
    ("a process of the machine signalled by its pidfd", |place| {
        let victim = call(libc::SYS_pidfd_open, &[place.number("victim"), 0]);
        Told::of(victim.and_then(|fd| call(libc::SYS_pidfd_send_signal, &[fd, 0, 0, 0])))
    }),
    ("a process of the machine held back", |place| {
        Told::of(call(libc::SYS_setpriority, &[0, place.number("victim"), 19]))
    }),
    ("a process of the machine limited", |place| {
        let mut limit = [0_u64; 2];
        let number = c_long::from(libc::RLIMIT_NOFILE);
        let arguments = [place.number("victim"), number, 0, into(&mut limit)];
        Told::of(call(libc::SYS_prlimit64, &arguments))
    }),
    ("variables of a process of the machine", |place| {
        readable(format!("/proc/{}/environ", place.text("victim")))
    }),
    ("memory of a process of the machine", |place| {
        readable(format!("/proc/{}/maps", place.text("victim")))
    }),
    ("variables of the first process", |_| readable("/proc/1/environ")),
    ("memory of the first process as a file", |_| {
        Told::any([readable("/proc/1/maps"), readable("/proc/1/mem"), writable("/proc/1/mem")])
    }),
    ("variables and memory of the agent's processes", |_| {
        Told::any(of_the_agent().into_iter().flat_map(|pid| {
            ["environ", "maps", "mem"].map(|name| readable(format!("/proc/{pid}/{name}")))
        }))
    }),
    ("the first process's program written", |_| {
        Told::any([writable("/proc/1/exe"), readable("/proc/1/exe")])
    }),
    ("messages of the machine", |place| {
        Told::of(call(libc::SYS_msgget, &[place.number("queue"), 0]))
    }),
    ("named message queues of the machine", |place| {
        // The system call takes the name without the slash that the library wants.
        let name = place.text("posix_queue").trim_start_matches('/');
        let name = std::ffi::CString::new(name).unwrap();
        Told::of(call(libc::SYS_mq_open, &[path(&name), 0, 0, 0]))
    }),
    ("the machine's name", |place| {
        let mut names = [0_u8; 65 * 6];
        call(libc::SYS_uname, &[into(&mut names)]).unwrap();
        let own = String::from_utf8_lossy(&names[65..130]).trim_end_matches('\0').to_owned();
        Told::open_if(own == place.text("machine"), own)
    }),
    ("its place among the machine's cgroups", |_| {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let is_root = |line: &str| line.rsplit(':').next() == Some("/");
        Told::open_if(!groups.lines().all(is_root), groups.lines().next().unwrap_or_default())
    }),
    ("a fork bomb", |_| bomb()),
    ("a bomb of threads", |_| thread_bomb()),
    ("a memory hog", |place| {
        if !place.has(Layer::Memory) && !place.is_off(Layer::Memory) {
            return Told::absent("nothing limits memory here");
        }
        in_fork(|| {
            let flags = c_long::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE);
            let len = MEMORY as c_long;
            let memory = call(libc::SYS_mmap, &[0, len, 3, flags, -1, 0])?;
            // Populated as far as it goes: the last page is what counts.
            let last = (memory + len - 1) as *mut u8;
            // SAFETY: within the mapping that was just made.
            unsafe { last.write_volatile(1) };
            let mut resident = vec![0_u8; MEMORY / 4096];
            call(libc::SYS_mincore, &[memory, len, into(resident.as_mut_slice())])?;
            Ok(resident.iter().filter(|page| **page & 1 == 1).count() > MEMORY / 4096 * 9 / 10)
        })
    }),
    ("a disk hog", |_| {
        let path = "battery-hog";
        let block = vec![7_u8; 1 << 20];
        let mut file = fs::File::create(path).unwrap();
        let mut count = 0;
        while count < BYTES && std::io::Write::write_all(&mut file, &block).is_ok() {
            count += block.len();
        }
        drop(file);
        fs::remove_file(path).unwrap();
        Told::open_if(count >= BYTES, format!("{count} bytes"))
    }),
    ("a hog of memory that is files", |place| {
        if place.is_off(Layer::Mount) {
            return Told::absent("it would be in the machine's own");
        }
        let path = "/dev/shm/hog";
        let file = fs::File::create(path).unwrap();
        // Asked for and not written: memory is taken all the same.
        let told = call(libc::SYS_fallocate, &[file.as_raw_fd().into(), 0, 0, 300 << 20]);
        fs::remove_file(path).unwrap();
        Told::of(told)
    }),
    ("a hog of files", |_| {
        let folder = "battery-files";
        fs::create_dir_all(folder).unwrap();
        let made =
            (0..FILES).take_while(|number| fs::File::create(format!("{folder}/{number}")).is_ok());
        let count = made.count();
        fs::remove_dir_all(folder).unwrap();
        Told::open_if(count == FILES, format!("{count} files"))
    }),
    ("a hog of descriptors", |_| {
        let mut limit = [0_u64; 2];
        let number = c_long::from(libc::RLIMIT_NOFILE);
        call(libc::SYS_prlimit64, &[0, number, 0, into(&mut limit)]).unwrap();
        let max = limit[1];
        Told::open_if(max > 1 << 20, format!("a process may open {max}"))
    }),
    ("signals queued without end", |_| {
        in_fork(|| {
            // Blocked, each of them is kept.
            let all = [u64::MAX];
            call(libc::SYS_rt_sigprocmask, &[0, at(&all), 0, 8])?;
            let mut info = [0_i32; 32];
            info[2] = -1;
            let own = c_long::from(std::process::id());
            for _ in 0..2_000_000 {
                if call(libc::SYS_rt_sigqueueinfo, &[own, 40, at(&info)]).is_err() {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }),
    ("memory that cannot be swapped", |_| {
        in_fork(|| {
            let flags = c_long::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let memory = call(libc::SYS_mmap, &[0, 1 << 30, 3, flags, -1, 0])?;
            call(libc::SYS_mlock2, &[memory, 1 << 30, 1]).map(|_| true)
        })
    }),
];

/// Processes of the agent: they share the neuron with commands.
pub(super) fn of_the_agent() -> Vec<i32> {
    let is_agent = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("narthex-")
    };
    processes().into_iter().filter(is_agent).collect()
}

fn bomb() -> Told {
    let mut children = Vec::new();
    while children.len() < PROCESSES {
        match fork() {
            Ok(0) => {
                // SAFETY: plain calls, at most until its parent ends it or is gone.
                unsafe { libc::sleep(30) };
                leave(0);
            }
            Ok(pid) => children.push(pid),
            Err(_) => break,
        }
    }
    let count = children.len();
    for child in children {
        finish(child, libc::SIGKILL);
    }
    Told::open_if(count == PROCESSES, format!("{count} processes"))
}

fn thread_bomb() -> Told {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let stopped = std::sync::Arc::new(std::sync::Mutex::new(stopped));
    let mut threads = Vec::new();
    while threads.len() < PROCESSES {
        let stopped = std::sync::Arc::clone(&stopped);
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
            // Until the other end is gone, each in its turn.
            let _end = stopped.lock().map(|stopped| stopped.recv_timeout(Duration::from_secs(30)));
        });
        match thread {
            Ok(thread) => threads.push(thread),
            Err(_) => break,
        }
    }
    let count = threads.len();
    drop(stop);
    for thread in threads {
        thread.join().unwrap();
    }
    Told::open_if(count == PROCESSES, format!("{count} threads"))
}
