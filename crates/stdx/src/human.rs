//! Numbers as people read them.

use std::time::Duration;

/// Formats a byte count with a binary unit: `512 B`, `1.5 KiB`, `64.0 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS.get(unit).copied().unwrap_or("TiB"))
}

/// Formats a duration for a person: `40ms`, `1.2s`, `3m 05s`, `2h 10m`.
pub fn duration(length: Duration) -> String {
    let ms = length.as_millis();
    let seconds = length.as_secs();
    match seconds {
        0 => format!("{ms}ms"),
        1..=59 => format!("{:.1}s", length.as_secs_f64()),
        60..=3599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Formats a count with its noun: `1 file`, `2 files`.
pub fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        let shown: Vec<_> = [0, 1023, 1536, 64 << 20, 3 << 40].map(bytes).into();
        assert_eq!(shown, ["0 B", "1023 B", "1.5 KiB", "64.0 MiB", "3.0 TiB"]);
    }

    #[test]
    fn durations_read_well() {
        let shown: Vec<_> =
            [40, 1_240, 185_000, 7_800_000].map(|ms| duration(Duration::from_millis(ms))).into();
        assert_eq!(shown, ["40ms", "1.2s", "3m 05s", "2h 10m"]);
    }
}
