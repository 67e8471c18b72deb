//! The points that one can go back to: listed, numbered, found.

use protocol::{Refusal, RefusalCode, Timestamp};
use runtime_api::{Error, PointInfo};
use serde_json::{Value, json};
use terminal::{Console, Exit, Failure, Paint, escape};

use crate::door::{print, print_json};

/// How many digits a number in the list has at most. Ids are longer.
const NUMBER_DIGITS: usize = 6;

/// Returns the points newest first, with their numbers. One that was rewound already has none:
/// only its files can be brought back, by its id.
pub(super) fn numbered(points: &[PointInfo]) -> Vec<(Option<usize>, &PointInfo)> {
    let mut last = 0;
    let number = |point: &PointInfo| {
        last += usize::from(!point.is_cut);
        (!point.is_cut).then_some(last)
    };
    let mut number = number;
    points.iter().rev().map(|point| (number(point), point)).collect()
}

/// Finds a point by its id, its number in the list, or the end or the beginning of its id where
/// only one ends or begins so.
pub(super) fn named<'a>(points: &'a [PointInfo], given: &str) -> Result<&'a PointInfo, Failure> {
    let none = || {
        let shown = escape::line(given, 80);
        let text = format!("no point {shown}; see: narthex rewind --list");
        Err(Error::Refusal(Refusal::new(RefusalCode::CheckpointNotFound, text)).into())
    };
    if given.is_empty() {
        return none();
    }
    if let Some(point) = points.iter().find(|point| point.id.as_str() == given) {
        return Ok(point);
    }
    let is_number = given.len() <= NUMBER_DIGITS && !given.starts_with('0');
    if let Some(number) = given.parse::<usize>().ok().filter(|_| is_number) {
        let found = numbered(points).into_iter().find(|(own, _)| *own == Some(number));
        if let Some((_, point)) = found {
            return Ok(point);
        }
    }
    let fits = |point: &&PointInfo| {
        point.id.as_str().ends_with(given) || point.id.as_str().starts_with(given)
    };
    let mut like = points.iter().filter(fits);
    match (like.next(), like.next()) {
        (Some(point), None) => Ok(point),
        (Some(_), Some(_)) => {
            let shown = escape::line(given, 80);
            Err(Failure::usage(format!("more than one point ends or begins with '{shown}'")))
        }
        (None, _) => none(),
    }
}

/// Lists the points, newest first.
pub(super) fn list(
    points: &[PointInfo],
    is_json: bool,
    now: Timestamp,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let points = numbered(points);
    if is_json {
        let points: Vec<Value> =
            points.iter().map(|(number, point)| point_to_json(*number, point)).collect();
        let text = json!({ "points": points }).to_string();
        return print_json(console, &text);
    }
    if points.is_empty() {
        console.say("there is no point to go back to yet");
        return Ok(Exit::Done);
    }
    let paint = console.data_paint();
    let text: String = points
        .iter()
        .map(|(number, point)| {
            let number = number.map_or_else(|| "–".to_owned(), |number| number.to_string());
            let id = escape::line(point.id.as_str(), 80);
            format!("{number:>3}  {id}  {}\n", line_of(point, now, paint))
        })
        .collect();
    print(console, &text)
}

/// Tells a point in one line: its age, what its turn did, its prompt.
pub(super) fn line_of(point: &PointInfo, now: Timestamp, paint: Paint) -> String {
    let age = terminal::age(point.created_at, now);
    let files = match (point.has_files, point.files) {
        (false, _) => "–".to_owned(),
        (true, count) => stdx::plural(count, "file"),
    };
    let state = match (point.is_cut, point.is_undone) {
        (true, _) => paint.dim(" (rewound)"),
        (false, true) => paint.dim(" (undone)"),
        (false, false) => String::new(),
    };
    format!("{age:>8}  {files:>8}  {}{state}", escape::line(&point.label, 80))
}

fn point_to_json(number: Option<usize>, point: &PointInfo) -> Value {
    json!({
        "number": number,
        "id": point.id,
        "seq": point.seq,
        "createdAt": point.created_at,
        "messageId": point.message_id,
        "label": point.label,
        "files": point.files,
        "hasFiles": point.has_files,
        "isUndone": point.is_undone,
        "isCut": point.is_cut,
    })
}
