//! Which process listens on a port, as far as the system tells.

use std::fmt;
use std::fs;
use std::path::Path;

/// How `/proc/net/tcp` writes the state of a socket that listens.
const LISTENS: &str = "0A";

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortOwner {
    pid: u32,
    program: String,
}

impl fmt::Display for PortOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, process {}", self.program, self.pid)
    }
}

/// Finds the process that listens on a port. None where the system does not tell, for example of
/// another user's process, or of any outside of Linux.
pub(crate) fn find(port: u16) -> Option<PortOwner> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| table.lines().filter_map(|line| socket(line, port)).collect::<Vec<_>>())
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())))
        .find(|(_, process)| has_any(process, &sockets))
        .map(|(pid, process)| {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            PortOwner { pid, program: name.trim().to_owned() }
        })
}

/// Reads the socket of a line that listens on the port, as a descriptor shows it.
fn socket(line: &str, port: u16) -> Option<String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, state, _, _, _, _, _, inode, ..] = fields.as_slice() else { return None };
    let (_, number) = local.rsplit_once(':')?;
    let is_it = *state == LISTENS && u16::from_str_radix(number, 16) == Ok(port);
    is_it.then(|| format!("socket:[{inode}]"))
}

fn has_any(process: &Path, sockets: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    descriptors
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| sockets.iter().any(|socket| target == Path::new(socket)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_process_that_listens_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(find(port).unwrap().pid, std::process::id());
        drop(listener);
        assert_eq!(find(port), None);
    }
}
