//! Going back by command.

use protocol::event::RewindScope;
use protocol::{Refusal, RefusalCode};
use runtime_api::{Error, GoBack, WentBack};

use super::super::Session;
use crate::kernel::Point;

/// How many points are listed.
const POINTS_SHOWN: usize = 10;

/// How many paths an answer names.
const PATHS_SHOWN: usize = 20;

/// How many characters of a prompt a list shows.
const LABEL_CHARS: usize = 60;

impl Session {
    pub(super) async fn undo_by_command(&mut self, is_forced: bool) -> Result<String, Error> {
        let went = self.take_back(GoBack { is_forced, is_dry: false }).await?;
        if went.point.is_none() {
            return Ok("There is nothing to undo.".to_owned());
        }
        let mut text = told(&went);
        if !went.kept.is_empty() && !is_forced {
            text.push_str("\n/undo --force brings those back as well.");
        }
        Ok(text)
    }

    pub(super) async fn rewind_by_command(
        &mut self,
        point: &str,
        scope: RewindScope,
    ) -> Result<String, Error> {
        let id = self.point_like(point)?.id.clone();
        let went = self.go_back_to(&id, scope, GoBack::default()).await?;
        Ok(told(&went))
    }

    /// Finds the point whose id is given, or the only one whose id ends or begins so.
    fn point_like(&self, given: &str) -> Result<&Point, Refusal> {
        let fits = |point: &&Point| {
            let id = point.id.as_str();
            id == given || id.ends_with(given) || id.starts_with(given)
        };
        let points = &self.state.points;
        let exact = points.iter().find(|point| point.id.as_str() == given);
        let mut found = points.iter().filter(fits);
        match (exact, found.next(), found.next()) {
            (Some(point), ..) | (None, Some(point), None) => Ok(point),
            (None, None, _) => {
                let message = format!("there is no point '{given}'; /rewind lists them");
                Err(Refusal::new(RefusalCode::CheckpointNotFound, message))
            }
            (None, Some(_), Some(_)) => {
                let message = format!("'{given}' fits more than one point: write more of its id");
                Err(Refusal::new(RefusalCode::CheckpointNotFound, message))
            }
        }
    }

    pub(super) async fn list_points(&mut self) -> Result<String, Error> {
        if self.state.points.is_empty() {
            return Ok("There is no point to go back to yet.".to_owned());
        }
        let newest: Vec<Point> =
            self.state.points.iter().rev().take(POINTS_SHOWN).cloned().collect();
        let mut text = String::from("The newest points, each before its prompt:\n");
        for point in newest.iter().rev() {
            let label = self.label_of(point.seq).await.map_err(super::refused)?;
            let label: String = label.chars().take(LABEL_CHARS).collect();
            let mut notes = Vec::new();
            if let Some(changes) = &point.changes {
                notes.push(stdx::plural(changes.paths, "file"));
                notes.extend(changes.is_undone.then(|| "undone".to_owned()));
            }
            notes.extend(point.is_cut.then(|| "rewound".to_owned()));
            let notes = match notes.is_empty() {
                true => String::new(),
                false => format!("  ({})", notes.join(", ")),
            };
            let date: String = point.at.to_string().chars().take(16).collect();
            text.push_str(&format!("  {}  {}  {label}{notes}\n", point.id, date.replace('T', " ")));
        }
        text.push_str(
            "/rewind POINT brings conversation and files back; add files or conversation \
                       for one alone. The end of an id is enough.",
        );
        Ok(text)
    }
}

/// Says what went back.
fn told(went: &WentBack) -> String {
    let mut lines = Vec::new();
    if went.messages_removed > 0 {
        let count = stdx::plural(went.messages_removed, "message");
        lines.push(format!("The model reads {count} less."));
    }
    list(
        &mut lines,
        "Brought back",
        went.changed.iter().map(|(mark, path)| format!("{mark} {path}")),
    );
    list(&mut lines, "Left as it is", went.kept.iter().map(|(path, why)| format!("{path}: {why}")));
    list(&mut lines, "Cannot be brought back", went.beyond.iter().cloned());
    if lines.is_empty() {
        lines.push("Everything is as it was at that point already.".to_owned());
    }
    lines.join("\n")
}

fn list(lines: &mut Vec<String>, head: &str, items: impl ExactSizeIterator<Item = String>) {
    let count = items.len();
    if count == 0 {
        return;
    }
    lines.push(format!("{head}:"));
    lines.extend(items.take(PATHS_SHOWN).map(|item| format!("  {item}")));
    if count > PATHS_SHOWN {
        lines.push(format!("  and {} more", count - PATHS_SHOWN));
    }
}
