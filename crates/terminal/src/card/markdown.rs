//! Markdown as it reads on a terminal: headings and strong words stand out, the rest stays as it
//! was written. It knows the few marks that plans are made of.

use crate::{Paint, escape};

/// How long a line may be; the rest is cut.
const LINE_CHARS: usize = 1_000;

/// Returns the lines, made harmless, without blank ones at both ends or two in a row.
pub(super) fn lines(raw: &str, paint: Paint) -> Vec<String> {
    let text = escape::text(raw);
    let mut lines: Vec<String> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        let line = escape::cut(line.trim_end(), LINE_CHARS);
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        if line.is_empty() && !is_code {
            let is_first = lines.last().is_none_or(String::is_empty);
            if !is_first {
                lines.push(line);
            }
            continue;
        }
        lines.push(match is_code {
            true => paint.mark(&format!("  {line}")),
            false => one(&line, paint),
        });
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn one(line: &str, paint: Paint) -> String {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&level)
        && let Some(title) = line.get(level..).and_then(|rest| rest.strip_prefix(' '))
    {
        return paint.bold(title.trim());
    }
    let indent = line.len() - line.trim_start().len();
    let (margin, rest) = line.split_at(indent);
    let (mark, words) = match rest.strip_prefix("- ").or_else(|| rest.strip_prefix("* ")) {
        Some(words) => ("• ", words),
        None => ("", rest),
    };
    format!("{margin}{mark}{}", inline(words, paint))
}

/// Colours what stands between pairs of `**` and of backticks; a mark without its pair stays.
fn inline(words: &str, paint: Paint) -> String {
    let mut shown = String::with_capacity(words.len());
    let mut rest = words;
    while let Some(place) = rest.find(['`', '*']) {
        let (before, from) = rest.split_at(place);
        shown.push_str(before);
        let mark = if from.starts_with("**") { "**" } else { from.get(..1).unwrap_or_default() };
        let inner = from.get(mark.len()..).unwrap_or_default();
        match inner.split_once(mark) {
            Some((inside, after)) if mark != "*" && !inside.is_empty() => {
                let coloured = if mark == "**" { paint.bold(inside) } else { paint.mark(inside) };
                shown.push_str(&coloured);
                rest = after;
            }
            _ => {
                shown.push_str(mark);
                rest = inner;
            }
        }
    }
    shown.push_str(rest);
    shown
}
