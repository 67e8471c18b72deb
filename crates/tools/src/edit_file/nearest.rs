//! Where a text that is not there might have been meant.

use std::ops::Range;
use std::time::Duration;

use similar::TextDiff;

/// The most lines of `old` that are compared: the cost is lines of the file times lines of `old`.
const OLD_LINES_MAX: usize = 100;

/// The most lines of a file that are compared one by one.
const FILE_LINES_MAX: usize = 20_000;

/// The most characters of a line that are compared.
const LINE_CHARS_MAX: usize = 300;

/// How alike two lines must be (bigrams, Sørensen-Dice) to name the place at all.
const LIKENESS_MIN: f64 = 0.5;

/// Lines of the small diff.
const DIFF_LINES_MAX: usize = 40;

/// How long the search for a small diff may take.
const DIFF_TIME_MAX: Duration = Duration::from_millis(100);

/// Says that `old` was not found, and shows the nearest place.
pub(super) fn explain(text: &str, old: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let wanted: Vec<_> = old.lines().collect();
    if let Some(place) = same_but_for_spaces(&lines, &wanted) {
        let shown = show(&lines, &wanted, place);
        return format!("`old` was not found; but for whitespace it is {shown}");
    }
    match nearest(&lines, &wanted) {
        Some(place) => {
            let shown = show(&lines, &wanted, place);
            format!("`old` was not found; the nearest place is {shown}")
        }
        None => "`old` was not found, nor anything like it; read the file again".to_owned(),
    }
}

fn show(lines: &[&str], wanted: &[&str], place: Range<usize>) -> String {
    let (first, last) = (place.start + 1, place.end);
    let numbers =
        if first == last { format!("line {first}") } else { format!("lines {first}-{last}") };
    let diff = small_diff(wanted, lines.get(place).unwrap_or_default());
    format!("{numbers} (- is `old`, + is the file):\n{diff}")
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect()
}

fn same_but_for_spaces(lines: &[&str], wanted: &[&str]) -> Option<Range<usize>> {
    let wanted: Vec<_> = wanted.iter().map(|line| squeezed(line)).collect();
    if wanted.iter().all(String::is_empty) || wanted.len() > lines.len() {
        return None;
    }
    let lines: Vec<_> = lines.iter().take(FILE_LINES_MAX).map(|line| squeezed(line)).collect();
    let at = lines.windows(wanted.len()).position(|window| window == wanted)?;
    Some(at..at + wanted.len())
}

/// Finds the window of lines that is most like `wanted`: the one with most equal lines, else the
/// one around the line that is most like its longest line.
fn nearest(lines: &[&str], wanted: &[&str]) -> Option<Range<usize>> {
    let lines = lines.get(..lines.len().min(FILE_LINES_MAX))?;
    let wanted = wanted.get(..wanted.len().min(OLD_LINES_MAX))?;
    let window = |at: usize| at..(at + wanted.len()).min(lines.len());
    let trimmed: Vec<_> = lines.iter().map(|line| line.trim()).collect();
    let equal = |at: usize| {
        let pairs = trimmed.iter().skip(at).zip(wanted);
        pairs.filter(|(line, wanted)| !line.is_empty() && **line == wanted.trim()).count()
    };
    let best = (0..lines.len()).map(|at| (equal(at), std::cmp::Reverse(at))).max()?;
    if best.0 > 0 {
        return Some(window(best.1.0));
    }
    let (place, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let longest: String = longest.trim().chars().take(LINE_CHARS_MAX).collect();
    let likeness = |line: &str| {
        let line: String = line.chars().take(LINE_CHARS_MAX).collect();
        strsim::sorensen_dice(&line, &longest)
    };
    let scored = trimmed.iter().enumerate().map(|(at, line)| (likeness(line), at));
    let (score, at) = scored.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
    (score >= LIKENESS_MIN).then(|| window(at.saturating_sub(place)))
}

fn small_diff(wanted: &[&str], found: &[&str]) -> String {
    let (old, new) = (wanted.join("\n") + "\n", found.join("\n") + "\n");
    let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(&old, &new);
    let mut rows = Vec::new();
    for change in diff.iter_all_changes() {
        if rows.len() == DIFF_LINES_MAX {
            rows.push("…".to_owned());
            break;
        }
        let line: String =
            change.value().trim_end_matches('\n').chars().take(LINE_CHARS_MAX).collect();
        rows.push(format!("{}{line}", change.tag()));
    }
    rows.join("\n")
}
