//! Numbers as people read them.

use std::time::Duration;

use protocol::Timestamp;

/// Formats US dollars: two decimals, four below ten cents.
pub fn dollars(amount: f64) -> String {
    if amount < 0.1 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// Formats a count with a comma between thousands.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count in at most four letters, where the last digits say nothing: `950`, `21k`,
/// `1.3M`.
pub fn short(count: u64) -> String {
    match count {
        0..=999 => count.to_string(),
        1_000..=999_499 => format!("{}k", (count + 500) / 1_000),
        _ => {
            let tenths = count.saturating_add(50_000) / 100_000;
            format!("{}.{}M", tenths / 10, tenths % 10)
        }
    }
}

/// Tells how long ago an instant was.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let ms = u64::try_from(now.0.saturating_sub(then.0)).unwrap_or(0);
    let seconds = Duration::from_millis(ms).as_secs();
    match seconds {
        0..=59 => "just now".to_owned(),
        60..=3599 => format!("{} min", seconds / 60),
        3600..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Tells until when something waits: the time that is left, and the clock in UTC.
pub fn until(instant: Timestamp, now: Timestamp) -> String {
    let shown = instant.to_string();
    let clock = shown.get(11..16).unwrap_or("?");
    let left = u64::try_from(instant.0.saturating_sub(now.0)).unwrap_or(0) / 1_000;
    let left = match left {
        0..=119 => format!("{left} s"),
        120..=7_199 => format!("{} min", left / 60),
        _ => format!("{} h", left / 3_600),
    };
    format!("{clock} UTC, in {left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 0.0123, 1.5].map(dollars), ["$0.0000", "$0.0123", "$1.50"]);
        let counts = [0, 999, 1_000, 1_500, 21_400, 999_499, 999_500, 1_340_000];
        let shown = ["0", "999", "1k", "2k", "21k", "999k", "1.0M", "1.3M"];
        assert_eq!(counts.map(short), shown);
    }

    #[test]
    fn times_read_well() {
        let now = Timestamp(1_796_000_000_000);
        let before = |seconds: i64| now.plus_ms(seconds * -1_000);
        let ages = [5, 60, 3_600, 172_800].map(|seconds| age(before(seconds), now));
        assert_eq!(ages, ["just now", "1 min", "1 h", "2 days"]);
        let ends = [90, 300, 7_200].map(|seconds| until(now.plus_ms(seconds * 1_000), now));
        assert_eq!(ends, ["00:54 UTC, in 90 s", "00:58 UTC, in 5 min", "02:53 UTC, in 2 h"]);
        assert_eq!(until(before(5), now), "00:53 UTC, in 0 s");
    }
}
