//! Ways out that have worked elsewhere, tried from inside.
//!
//! The test binary itself is shown to a neuron and run there. It does nothing unless it can prove
//! where it is: a marker that only [`battery_from_inside`]'s neuron shows, a host name of that
//! neuron, and another first process than the machine's.
//!
//! JUSTIFICATION: a battery has to make exactly the calls that safe libraries do not offer.

use std::fs;
use std::io;
use std::path::Path;

use agent::neuron::{Layer, Layers, ShownFile};

use super::house::{Site, everybody};

const MARKER: &str = "/run/narthex/battery-marker";
const BINARY: &str = "/run/narthex/battery";

/// Whether this process is in the neuron that the battery is for.
fn is_inside() -> bool {
    let marker = fs::read_to_string(MARKER).unwrap_or_default();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let first = fs::read_to_string("/proc/1/comm").unwrap_or_default();
    !marker.is_empty() && host.trim() == marker.trim() && first.trim() == "narthex-neuron"
}

/// Makes a system call by its number.
fn call(number: libc::c_long, arguments: [libc::c_long; 5]) -> io::Result<libc::c_long> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: called only inside of a neuron, with numbers or null pointers: whatever the kernel
    // does, it cannot write to our memory.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Calls that must not exist for a neuron.
fn closed_calls() -> Vec<(&'static str, libc::c_long, [libc::c_long; 5])> {
    let user = libc::c_long::from(libc::CLONE_NEWUSER);
    vec![
        ("unshare", libc::SYS_unshare, [user, 0, 0, 0, 0]),
        ("clone into a user namespace", libc::SYS_clone, [user | 17, 0, 0, 0, 0]),
        ("clone3", libc::SYS_clone3, [0, 0, 0, 0, 0]),
        ("mount", libc::SYS_mount, [0, 0, 0, 0, 0]),
        ("umount", libc::SYS_umount2, [0, 0, 0, 0, 0]),
        ("open_tree", libc::SYS_open_tree, [-100, 0, 1, 0, 0]),
        ("fsopen", libc::SYS_fsopen, [0, 0, 0, 0, 0]),
        ("pivot_root", libc::SYS_pivot_root, [0, 0, 0, 0, 0]),
        ("chroot", libc::SYS_chroot, [0, 0, 0, 0, 0]),
        ("setns", libc::SYS_setns, [0, 0, 0, 0, 0]),
        ("ptrace", libc::SYS_ptrace, [0, 0, 0, 0, 0]),
        ("process_vm_readv", libc::SYS_process_vm_readv, [1, 0, 0, 0, 0]),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, [0, 0, 0, 0, 0]),
        ("keyctl", libc::SYS_keyctl, [0, -3, 0, 0, 0]),
        ("add_key", libc::SYS_add_key, [0, 0, 0, 0, 0]),
        ("io_uring_setup", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
        ("bpf", libc::SYS_bpf, [0, 0, 0, 0, 0]),
        ("perf_event_open", libc::SYS_perf_event_open, [0, 0, -1, -1, 0]),
        ("userfaultfd", libc::SYS_userfaultfd, [0, 0, 0, 0, 0]),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, [-100, 0, 0, 0, 0]),
        ("syslog", libc::SYS_syslog, [10, 0, 0, 0, 0]),
        ("init_module", libc::SYS_init_module, [0, 0, 0, 0, 0]),
        ("kexec_load", libc::SYS_kexec_load, [0, 0, 0, 0, 0]),
        ("swapon", libc::SYS_swapon, [0, 0, 0, 0, 0]),
        ("quotactl", libc::SYS_quotactl, [0, 0, 0, 0, 0]),
        ("personality", libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0]),
        ("AF_VSOCK", libc::SYS_socket, [40, 1, 0, 0, 0]),
        ("AF_PACKET", libc::SYS_socket, [17, 3, 0, 0, 0]),
        ("AF_ALG", libc::SYS_socket, [38, 5, 0, 0, 0]),
        ("AF_XDP", libc::SYS_socket, [44, 3, 0, 0, 0]),
        ("netlink of netfilter", libc::SYS_socket, [16, 3, 12, 0, 0]),
        ("netlink of audit", libc::SYS_socket, [16, 3, 9, 0, 0]),
        ("TIOCSTI", libc::SYS_ioctl, [0, 0x5412, 0, 0, 0]),
        ("TIOCLINUX", libc::SYS_ioctl, [0, 0x541C, 0, 0, 0]),
    ]
}

/// Files that must neither be read nor written.
const CLOSED_FILES: [&str; 10] = [
    "/etc/shadow",
    "/proc/1/environ",
    "/proc/1/root/etc/passwd",
    "/proc/1/mem",
    "/proc/kmsg",
    "/dev/mem",
    "/dev/kvm",
    "/dev/fuse",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/memory/release_agent",
];

#[test]
fn battery_from_inside() {
    if !is_inside() {
        // Not the place for it.
        return;
    }
    let has_filter = fs::read_to_string("/proc/self/status").unwrap().contains("Seccomp:\t2");
    let mut open = Vec::new();
    // Without the filter some of them would do what they are for, to this very process.
    for (name, number, arguments) in closed_calls().into_iter().filter(|_| has_filter) {
        let told = call(number, arguments);
        if !told.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENOSYS)) {
            open.push(format!("{name}: {told:?}"));
        }
    }
    for path in CLOSED_FILES {
        if fs::read(path).is_ok_and(|bytes| !bytes.is_empty()) {
            open.push(format!("{path} can be read"));
        }
    }
    for path in ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory"] {
        if fs::OpenOptions::new().write(true).open(path).is_ok() {
            open.push(format!("{path} can be written"));
        }
    }
    for (name, mode) in [("block", libc::S_IFBLK), ("character", libc::S_IFCHR)] {
        let path = c"/tmp/device";
        // SAFETY: the path is terminated and outlives the call.
        if unsafe { libc::mknod(path.as_ptr(), mode | 0o600, 0x0101) } == 0 {
            open.push(format!("a {name} device can be made"));
        }
    }
    // SAFETY: plain calls without pointers.
    let gained = unsafe { [libc::setuid(0), libc::setgid(0), libc::nice(-5)] };
    if gained.contains(&0) {
        open.push(format!("another id or priority: {gained:?}"));
    }
    assert!(open.is_empty(), "{open:#?}");
}

/// Runs the battery in a neuron and returns what it said.
fn run(site: Site) -> String {
    let mut site = site;
    let marker = site.folder("battery").join("marker");
    fs::write(&marker, &site.plan.name).unwrap();
    let binary = site.home.path().join("battery/binary");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    site.who.own(&binary);
    site.plan.files = vec![
        ShownFile { outside: marker, inside: MARKER.into() },
        ShownFile { outside: binary, inside: BINARY.into() },
    ];
    let neuron = site.start();
    let name = "neuron::battery::battery_from_inside";
    neuron.run(&format!("{BINARY} --exact {name} --nocapture --test-threads 1; echo code $?"))
}

#[test]
fn nothing_is_open() {
    assert!(!is_inside(), "a neuron does not start neurons");
    assert!(!Path::new(MARKER).exists(), "the marker is no file of the machine");
    for who in everybody() {
        let said = run(Site::new(who));
        assert!(said.contains("1 passed") && said.ends_with("code 0"), "{who:?}: {said}");
    }
}

#[test]
fn no_layer_stands_in_for_all_others() {
    for who in everybody() {
        for layer in [Layer::Seccomp, Layer::Landlock, Layer::ProcReadOnly, Layer::Descriptors] {
            let mut site = Site::new(who);
            site.plan.layers = Layers::ALL.without(layer);
            if layer == Layer::ProcReadOnly {
                // Written through `/proc` it would be denied by landlock alone.
                assert!(site.plan.layers.has(Layer::Landlock));
            }
            let said = run(site);
            let is_good = said.contains("1 passed") && said.ends_with("code 0");
            assert!(is_good, "{who:?} without {layer:?}: {said}");
        }
    }
}
