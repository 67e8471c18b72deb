//! Choosing one of the folder's sessions at a terminal.

use terminal::{Ask, Failure, Heard};

use crate::door::Room;
use crate::machine::House;
use crate::session;
use crate::sessions::line_of;

/// How many sessions are offered: what fits on a screen.
const OFFERED: usize = 15;

/// Asks which session; none when nobody wants one.
pub(super) async fn pick<M: crate::machine::Machine>(
    room: &mut Room<'_, M>,
    house: &House,
) -> Result<Option<String>, Failure> {
    let mut found = session::begun(room, house).await?;
    found.truncate(OFFERED);
    if found.is_empty() {
        let folder = &house.cwd;
        let text = format!("no session in {folder} to go on with; start one with: narthex");
        return Err(Failure::usage(text));
    }
    if let [only] = found.as_slice() {
        return Ok(Some(only.id.to_string()));
    }
    let now = (room.now)();
    for (place, info) in found.iter().enumerate() {
        room.desk.console.say(&format!("{:>3}  {}", place + 1, line_of(info, now)));
    }
    loop {
        let desk = &mut room.desk;
        let heard = tokio::select! {
            biased;
            _ = desk.stops.next() => return Err(Failure::stopped()),
            heard = desk.input.next(Ask::Answer("which (1, the newest)? ".to_owned())) => heard,
        };
        let line = match heard {
            Heard::Line(line) => line,
            Heard::Stale => continue,
            _ => return Ok(None),
        };
        let place = match line.trim() {
            "" => Some(1),
            digits => digits.parse::<usize>().ok(),
        };
        let chosen = place.and_then(|place| found.get(place.checked_sub(1)?));
        if let Some(info) = chosen {
            return Ok(Some(info.id.to_string()));
        }
        desk.console.say(&format!("a number from 1 to {}, please", found.len()));
    }
}
