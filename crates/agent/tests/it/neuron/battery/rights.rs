//! Rights: ids, capabilities, files that lend them, limits, priorities, terminals, and what of the
//! kernel is shown as files.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::Command;

use agent::neuron::Layer;
use libc::c_long;

use super::attempt::{Attempt, Told, at, call, in_fork, into, path, processes, readable, writable};

pub(super) const LIST: &[Attempt] = &[
    ("user 0", |_| in_fork(|| call(libc::SYS_setuid, &[0]).map(|_| true))),
    ("group 0", |_| in_fork(|| call(libc::SYS_setgid, &[0]).map(|_| true))),
    ("another group beside its own", |_| {
        in_fork(|| call(libc::SYS_setgroups, &[1, at(&[0_u32])]).map(|_| true))
    }),
    ("all capabilities by capset", |_| {
        in_fork(|| {
            let head = [0x2008_0522_u32, 0];
            let all = [u32::MAX, u32::MAX, 0, 0x1ff, 0x1ff, 0];
            call(libc::SYS_capset, &[at(&head), at(&all)]).map(|_| true)
        })
    }),
    ("an ambient capability", |_| {
        in_fork(|| call(libc::SYS_prctl, &[47, 2, 21, 0, 0]).map(|_| true))
    }),
    ("the ids of its namespace written anew", |_| writable_text("/proc/self/uid_map", "0 0 1")),
    ("a program that lends root's rights", |place| {
        let program = place.path("based").join("lending");
        match Command::new(program).arg("-u").output() {
            Ok(output) => {
                let user = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                // SAFETY: a plain call.
                let own = unsafe { libc::getuid() };
                Told::open_if(user == "0" && own != 0, format!("user {user}"))
            }
            Err(error) => Told::held(error.to_string()),
        }
    }),
    ("a file made to lend rights by chmod", |_| {
        let file = file("lends");
        Told::of(call(libc::SYS_fchmod, &[file.as_raw_fd().into(), 0o4755]))
    }),
    ("a file made to lend rights by fchmodat2", |_| {
        let _file = file("lends2");
        Told::of(call(452, &[-100, path(c"battery-lends2"), 0o4755, 0]))
    }),
    ("a file born to lend rights", |_| {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        let arguments = [-100, path(c"battery-born"), flags.into(), 0o6755];
        Told::of(call(libc::SYS_openat, &arguments))
    }),
    ("a file without a name born to lend rights", |_| {
        let flags = libc::O_TMPFILE | libc::O_WRONLY;
        Told::of(call(libc::SYS_openat, &[-100, path(c"."), flags.into(), 0o4755]))
    }),
    ("capabilities of a file", |_| {
        let _file = file("capable");
        let words = [0x0300_0001_u32, u32::MAX, 0, u32::MAX, 0, 0];
        attribute(c"security.capability", &words)
    }),
    ("attributes that only root may set", |_| {
        let _file = file("capable");
        attribute(c"trusted.overlay.opaque", &[u32::from(b'y')])
    }),
    ("a block device made", |_| made(libc::S_IFBLK, 8 << 8)),
    ("a character device made", |_| made(libc::S_IFCHR, 1 << 8 | 11)),
    ("a whiteout of overlayfs made", |_| made(libc::S_IFCHR, 0)),
    ("a better priority", |_| in_fork(|| call(libc::SYS_setpriority, &[0, 0, -5]).map(|_| true))),
    ("a schedule in real time", |_| {
        in_fork(|| call(libc::SYS_sched_setscheduler, &[0, 1, at(&[10_i32])]).map(|_| true))
    }),
    ("disks before all others", |_| {
        in_fork(|| call(libc::SYS_ioprio_set, &[1, 0, 1 << 13]).map(|_| true))
    }),
    ("more open files than the limit", |_| {
        in_fork(|| {
            let mut limit = [0_u64; 2];
            let number = c_long::from(libc::RLIMIT_NOFILE);
            call(libc::SYS_prlimit64, &[0, number, 0, into(&mut limit)])?;
            limit[1] = limit[1].checked_add(1).ok_or(io::ErrorKind::InvalidInput)?;
            call(libc::SYS_prlimit64, &[0, number, at(&limit), 0]).map(|_| true)
        })
    }),
    ("a core dump to the machine's program for them", |_| {
        in_fork(|| {
            let mut limit = [0_u64; 2];
            let number = c_long::from(libc::RLIMIT_CORE);
            call(libc::SYS_prlimit64, &[0, number, 0, into(&mut limit)])?;
            if limit[0] != 1 {
                return Ok(true);
            }
            limit[0] = 0;
            call(libc::SYS_prlimit64, &[0, number, at(&limit), 0]).map(|_| true)
        })
    }),
    ("its place among those that are killed for memory", |_| {
        writable_text("/proc/self/oom_score_adj", "-900")
    }),
    ("another program file in its name", |_| {
        let file = File::open("/bin/sh").unwrap();
        in_fork(|| call(libc::SYS_prctl, &[35, 13, file.as_raw_fd().into(), 0, 0]).map(|_| true))
    }),
    ("characters typed into its terminal", |_| typed(0x5412)),
    ("characters typed, by a longer number of the same call", |_| typed(0x1_0000_5412)),
    ("the console's selection", |_| typed(0x541C)),
    ("where core dumps go", |_| writable("/proc/sys/kernel/core_pattern")),
    ("what loads modules", |_| writable("/proc/sys/kernel/modprobe")),
    ("settings of memory", |_| writable("/proc/sys/vm/overcommit_memory")),
    ("settings of the network", |_| writable("/proc/sys/net/ipv4/ip_forward")),
    ("what runs programs of other kinds", |_| writable("/proc/sys/fs/binfmt_misc/register")),
    ("the keys that stop the machine", |_| writable("/proc/sysrq-trigger")),
    ("the slack of another's timers", |_| writable("/proc/1/timerslack_ns")),
    ("the name of a process", |_| writable_text("/proc/self/comm", "battery")),
    ("the kernel's memory as a file", |_| readable("/proc/kcore")),
    ("the kernel's messages as a file", |_| readable("/proc/kmsg")),
    ("the list of keys", |_| of_the_kernel("/proc/keys")),
    ("the list of timers", |_| of_the_kernel("/proc/timer_list")),
    ("what the kernel was started with, as a device", |_| {
        Told::any(["/dev/mem", "/dev/kmsg", "/dev/port"].map(readable))
    }),
    ("devices of the machine", |_| {
        let names = ["kvm", "fuse", "sda", "vda", "nvme0n1", "loop0", "loop-control", "net/tun"];
        Told::any(names.map(|name| readable(format!("/dev/{name}"))))
    }),
    ("what runs when a device comes", |_| writable("/sys/kernel/uevent_helper")),
    ("what runs when a cgroup is empty", |_| {
        let groups = ["memory", "pids", "cpu", "unified", ""];
        Told::any(groups.map(|group| writable(format!("/sys/fs/cgroup/{group}/release_agent"))))
    }),
    ("another cgroup entered", |_| {
        let groups = ["memory", "pids", "cpu", "unified", ""];
        Told::any(groups.map(|group| writable(format!("/sys/fs/cgroup/{group}/cgroup.procs"))))
    }),
    ("the mode of the machine's null device", |_| {
        // The mode that it has: a success changes nothing.
        let mode = fs::metadata("/dev/null").unwrap().mode() & 0o777;
        let null = File::open("/dev/null").unwrap();
        Told::of(call(libc::SYS_fchmod, &[null.as_raw_fd().into(), mode.into()]))
    }),
    ("the agent's own program opened", |place| {
        let own = (place.number("agent.device"), place.number("agent.file"));
        Told::any(processes().into_iter().map(|pid| {
            let Ok(file) = File::open(format!("/proc/{pid}/exe")) else {
                return Told::held("its program is closed");
            };
            let facts = file.metadata().unwrap();
            let is_agent = (facts.dev().cast_signed(), facts.ino().cast_signed()) == own;
            Told::open_if(is_agent, format!("process {pid} runs it"))
        }))
    }),
    ("more watches than a user's half", |place| {
        if !place.has(Layer::User) {
            return Told::absent("without its namespace they are counted as on the machine");
        }
        let machine = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap();
        let machine: usize = machine.trim().parse().unwrap();
        let mut open = Vec::new();
        while open.len() <= machine {
            match call(libc::SYS_inotify_init1, &[0]) {
                // SAFETY: it was just made and nobody else owns it.
                Ok(number) => open.push(unsafe {
                    std::os::fd::FromRawFd::from_raw_fd(i32::try_from(number).unwrap())
                }),
                Err(_) => break,
            }
        }
        let open: Vec<std::os::fd::OwnedFd> = open;
        Told::open_if(open.len() > machine / 2, format!("{} of {machine}", open.len()))
    }),
];

/// A file of its own to try things with.
fn file(name: &str) -> File {
    File::create(format!("battery-{name}")).unwrap()
}

fn writable_text(path: &str, text: &str) -> Told {
    Told::of(fs::write(path, text))
}

fn attribute(name: &CStr, words: &[u32]) -> Told {
    let len = size_of_val(words).min(24) as c_long;
    let arguments = [path(c"battery-capable"), path(name), at(words), len, 0];
    Told::of(call(libc::SYS_setxattr, &arguments))
}

fn made(kind: libc::mode_t, device: c_long) -> Told {
    let arguments = [-100, path(c"battery-device"), (kind | 0o600).into(), device];
    let told = Told::of(call(libc::SYS_mknodat, &arguments));
    let _absent = fs::remove_file("battery-device");
    told
}

/// What is covered is a device that has nothing to say.
fn of_the_kernel(path: &str) -> Told {
    match File::open(path) {
        Ok(mut file) => {
            let is_device = file.metadata().unwrap().file_type().is_char_device();
            let _count = file.read(&mut [0]);
            Told::open_if(!is_device, format!("{path} was opened"))
        }
        Err(error) => Told::held(error.to_string()),
    }
}

/// Makes a call about a terminal of its own that would act as its keyboard.
fn typed(request: c_long) -> Told {
    let Ok(keyboard) = File::options().read(true).write(true).open("/dev/ptmx") else {
        return Told::absent("no terminal can be opened");
    };
    let (mut number, lock) = ([0_i32], [0_i32]);
    let fd = c_long::from(keyboard.as_raw_fd());
    call(libc::SYS_ioctl, &[fd, 0x4004_5431, at(&lock)]).unwrap();
    call(libc::SYS_ioctl, &[fd, 0x8004_5430, into(&mut number)]).unwrap();
    let terminal = format!("/dev/pts/{}", number[0]);
    in_fork(|| {
        call(libc::SYS_setsid, &[])?;
        let terminal = File::options().read(true).write(true).open(terminal)?;
        let fd = c_long::from(terminal.as_raw_fd());
        call(libc::SYS_ioctl, &[fd, 0x540E, 0])?;
        call(libc::SYS_ioctl, &[fd, request, at(b"x")]).map(|_| true)
    })
}
