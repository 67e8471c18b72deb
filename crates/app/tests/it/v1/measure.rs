//! What the system says of a process: memory, descriptors, time, children, sockets.

use std::fs;

/// What the system counts the time of processes in, whatever its own clock runs at.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the resident memory of a process, in bytes.
pub(super) fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    field(&status, "VmRSS:") * 1024
}

/// Returns the highest resident memory that a process has had, in bytes.
pub(super) fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    field(&status, "VmHWM:") * 1024
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns how many files a process has open.
pub(super) fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Returns the time that a process has computed, in milliseconds.
pub(super) fn computed_ms(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks * 1000 / TICKS_PER_SECOND
}

/// Returns the children of a process.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(child) = entry.file_name().to_string_lossy().parse() else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        if parent == Some(&pid.to_string()) {
            found.push(child);
        }
    }
    found.sort_unstable();
    found
}

/// Returns how many sockets of a local port wait for their owner to close them after the other
/// side did.
pub(super) fn close_waits(port: u16) -> usize {
    /// The number of that state.
    const CLOSE_WAIT: &str = "08";
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let waits = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.len() > 3 && fields[1].ends_with(&local) && fields[3] == CLOSE_WAIT
    };
    table.lines().filter(waits).count()
}
