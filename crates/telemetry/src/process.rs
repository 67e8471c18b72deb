//! What the system says about this process.

use std::fs;

/// Facts for `/metrics`, under the names that Prometheus clients use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    /// Resident memory, in bytes.
    pub(crate) resident_bytes: u64,
    /// Time on a processor, user and system together, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Open files and sockets.
    pub(crate) open_fds: u64,
    /// Threads.
    pub(crate) threads: u64,
}

/// Reads the facts; none where there is no `/proc`.
pub(crate) fn read() -> Option<Process> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let open_fds = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(Process { open_fds: u64::try_from(open_fds).unwrap_or(u64::MAX), ..parse(&status, &stat) })
}

/// Ticks a second in `/proc/self/stat`: fixed at 100 for every architecture that Linux has today.
const TICKS: f64 = 100.0;

fn parse(status: &str, stat: &str) -> Process {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    // The name of the program stands in brackets and may hold anything, brackets too.
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let numbers: Vec<&str> = after.split_whitespace().collect();
    let ticks = |index: usize| numbers.get(index).and_then(|it| it.parse::<f64>().ok());
    let cpu = ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0);
    Process {
        resident_bytes: field("VmRSS").unwrap_or(0) * 1024,
        cpu_seconds: cpu / TICKS,
        open_fds: 0,
        threads: field("Threads").unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_system_are_understood() {
        let status = "Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t7\n";
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        let read = parse(status, stat);
        assert_eq!((read.resident_bytes, read.threads), (2 << 20, 7));
        assert!((read.cpu_seconds - 2.0).abs() < 1e-9, "{read:?}");
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let read = read().unwrap();
        assert!(read.resident_bytes > 0 && read.open_fds > 0 && read.threads > 0, "{read:?}");
    }
}
