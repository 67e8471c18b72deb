//! The machine that the figures belong to.

use std::path::Path;

/// Describes the machine in one line: date, kernel, processors, memory, file system.
pub(crate) fn describe(folder: &Path) -> String {
    let kernel = read("/proc/sys/kernel/osrelease");
    let info = read("/proc/cpuinfo");
    let processor = field(&info, "model name").unwrap_or_else(|| "unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
        .map_or_else(|| "unknown memory".into(), |kib| format!("{} GiB", kib.div_ceil(1 << 20)));
    let load = read("/proc/loadavg").split(' ').next().unwrap_or("?").to_owned();
    format!(
        "{}, Linux {kernel}, {cores} cores ({processor}), {memory}, {} at {}, load {load} at \
         the start.",
        now(),
        file_system(folder),
        folder.display(),
    )
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Returns the value of the first `name: value` line.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[allow(clippy::disallowed_methods, reason = "the date stands above the table")]
fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let ms = since.map_or(0, |since| since.as_millis());
    protocol::Timestamp(i64::try_from(ms).unwrap_or(0)).to_string()
}

/// Returns the kind of file system of a folder, as the kernel names it.
fn file_system(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mounts = read("/proc/self/mounts");
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(place), Some(kind)) = (words.next(), words.next()) else { continue };
        let is_longer = best.is_none_or(|(length, _)| place.len() >= length);
        if folder.starts_with(place) && is_longer {
            best = Some((place.len(), kind));
        }
    }
    best.map_or_else(|| "unknown file system".into(), |(_, kind)| kind.to_owned())
}
