//! One replacement in a text, whatever its line ends.

use std::borrow::Cow;
use std::ops::Range;

use super::{Edit, nearest};

/// How many places an error names.
const PLACES_MAX: usize = 10;

/// Why an edit does not fit; the text tells the model what would be right.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Miss {
    pub(super) text: String,
}

/// Replaces `old` by `new`. Line ends count as equal, and what is put in gets those of the place.
pub(super) fn replace(text: &str, edit: Edit<'_>) -> Result<String, Miss> {
    let (old, new) = (plain(edit.old), plain(edit.new));
    if old == new {
        let ends = if edit.old == edit.new { "" } else { " but for line ends, which are kept" };
        return Err(Miss { text: format!("`old` and `new` are the same{ends}") });
    }
    let lines = Lines::new(text);
    if old.is_empty() {
        return if text.is_empty() {
            Ok(new.into_owned())
        } else {
            Err(Miss {
                text: "`old` is empty and the file is not; to insert text, give the lines beside \
                       the place as `old` and again in `new`"
                    .to_owned(),
            })
        };
    }
    let all = edit.all == Some(true);
    let places = find(&lines.plain, &old, all);
    match places.as_slice() {
        [] => Err(Miss { text: nearest::explain(&lines.plain, &old) }),
        [_] => Ok(lines.put(&places, &new)),
        _ if all => Ok(lines.put(&places, &new)),
        _ => Err(ambiguous(&lines.plain, &places)),
    }
}

fn plain(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// Finds where `old` stands. Places that overlap make an edit ambiguous, but cannot all be
/// replaced.
fn find(text: &str, old: &str, apart: bool) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(rest) = text.get(from..)
        && let Some(at) = rest.find(old)
    {
        let start = from + at;
        places.push(start..start + old.len());
        let step = if apart { old.len() } else { old.chars().next().map_or(1, char::len_utf8) };
        from = start + step;
    }
    places
}

fn ambiguous(text: &str, places: &[Range<usize>]) -> Miss {
    let mut numbers: Vec<String> = Vec::new();
    let (mut line, mut from) = (1, 0);
    for place in places.iter().take(PLACES_MAX) {
        let between = text.get(from..place.start).unwrap_or_default();
        line += between.matches('\n').count();
        from = place.start;
        numbers.push(line.to_string());
    }
    let more = if places.len() > PLACES_MAX { ", …" } else { "" };
    Miss {
        text: format!(
            "`old` occurs {} times, at lines {}{more}; add lines around it so that it occurs once, \
             or set `all`",
            places.len(),
            numbers.join(", ")
        ),
    }
}

/// A text with its carriage returns before newlines taken out, and where they were.
#[derive(Debug)]
struct Lines<'a> {
    text: &'a str,
    plain: Cow<'a, str>,
    /// For each `\r\n` of the text, where its `\n` stands in `plain`; ascending.
    returns: Vec<usize>,
    /// Whether new lines get `\r\n` where the place itself has no line end.
    is_crlf: bool,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let at: Vec<_> = text.match_indices("\r\n").map(|(at, _)| at).collect();
        let returns: Vec<_> = at.iter().enumerate().map(|(nth, at)| at - nth).collect();
        let newlines = if returns.is_empty() { 0 } else { text.matches('\n').count() };
        let is_crlf = returns.len() * 2 > newlines;
        Self { text, plain: plain(text), returns, is_crlf }
    }

    /// Turns an offset in `plain` into one in the text; before a newline that is before its
    /// carriage return.
    fn offset(&self, plain: usize) -> usize {
        plain + self.returns.partition_point(|at| *at < plain)
    }

    /// Replaces places that do not overlap.
    fn put(&self, places: &[Range<usize>], new: &str) -> String {
        let crlf = if new.contains('\n') { new.replace('\n', "\r\n") } else { new.to_owned() };
        let mut result = String::with_capacity(self.text.len() + new.len());
        let mut from = 0;
        for place in places {
            let (start, end) = (self.offset(place.start), self.offset(place.end));
            result.push_str(self.text.get(from..start).unwrap_or_default());
            let replaced = self.text.get(start..end).unwrap_or_default();
            let is_crlf = match replaced.contains('\n') {
                true => replaced.contains("\r\n"),
                false => self.is_crlf,
            };
            result.push_str(if is_crlf { &crlf } else { new });
            from = end;
        }
        result.push_str(self.text.get(from..).unwrap_or_default());
        result
    }
}
