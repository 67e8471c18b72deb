//! `narthex usage`: what models used and cost.

use std::collections::{BTreeMap, HashMap};

use protocol::{SessionId, Timestamp, Usage};
use runtime_api::{SessionFilter, SessionInfo, Spent};
use serde_json::{Map, Value, json};
use terminal::{Exit, Failure, Paint, dollars, escape, grouped};

use crate::args::{Globals, UsageArgs, UsageBy};
use crate::door::{Room, print, print_json};
use crate::machine::{Machine, Need};
use crate::session::house;

/// A day in milliseconds.
const DAY_MS: i64 = 24 * 3_600_000;
/// The most days that can be asked for in one number: a hundred years.
const DAYS_MAX: i64 = 36_500;
/// How many sessions are known by folder and title; of older ones the id alone is shown.
const SESSIONS_KNOWN: usize = 10_000;
/// How many characters the name of a row has at most.
const NAME_CHARS: usize = 60;

/// Adds up what was used, and shows it.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: &UsageArgs,
) -> Result<Exit, Failure> {
    let now = (room.now)();
    let since = since(&args.since, now)?;
    let house = house(room, globals, Need::Archive).await?;
    let spent = room.desk.stops.guard(house.handle.spent(since)).await?;
    let sessions = match args.by {
        UsageBy::Session | UsageBy::Folder => {
            let filter = SessionFilter { cwd: None, before: None, limit: SESSIONS_KNOWN };
            room.desk.stops.guard(house.handle.list(filter)).await?
        }
        UsageBy::Day | UsageBy::Model => Vec::new(),
    };
    let known: HashMap<&SessionId, &SessionInfo> =
        sessions.iter().map(|info| (&info.id, info)).collect();
    let mut rows = BTreeMap::<String, Sum>::new();
    let mut total = Sum::default();
    for one in &spent {
        rows.entry(key(one, args.by, &known)).or_default().add(one);
        total.add(one);
    }
    let mut rows: Vec<(String, Sum)> = rows.into_iter().collect();
    if args.by != UsageBy::Day {
        // What cost most comes first; where that is not known, what was used most.
        rows.sort_by(|(_, a), (_, b)| b.weight().total_cmp(&a.weight()));
    }
    let console = &mut room.desk.console;
    if args.json {
        let rows: Vec<Value> = rows.iter().map(|(key, sum)| to_json(Some(key), sum)).collect();
        let by = match args.by {
            UsageBy::Day => "day",
            UsageBy::Model => "model",
            UsageBy::Session => "session",
            UsageBy::Folder => "folder",
        };
        let report =
            json!({ "since": since, "by": by, "rows": rows, "total": to_json(None, &total) });
        return print_json(console, &report.to_string());
    }
    let day = day_of(since);
    if rows.is_empty() {
        console.say(&format!("nothing was used since {day}"));
        return Ok(Exit::Done);
    }
    console.say(&console.paint().dim(&format!("since {day} (UTC)")));
    let named = rows.into_iter().map(|(key, sum)| (name(&key, args.by, &known), sum));
    let text = table(named.collect(), &total, args.by, console.data_paint());
    print(console, &text)
}

/// Sums of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    calls: u64,
    usage: Usage,
    cost_usd: f64,
    /// Calls whose price is not known.
    unpriced: u64,
}

impl Sum {
    fn add(&mut self, one: &Spent) {
        self.calls += 1;
        self.usage += one.usage;
        match one.cost_usd {
            Some(cost) => self.cost_usd += cost,
            None => self.unpriced += 1,
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    fn weight(&self) -> f64 {
        let tokens = self.usage.prompt_tokens().saturating_add(self.usage.output_tokens);
        // A token costs far less than a millionth of a million dollars: dollars decide.
        self.cost_usd + tokens as f64 / 1e12
    }

    /// Says the cost: `?` where nothing of it is known, a plus sign where some is not.
    fn cost(&self) -> String {
        match (self.unpriced, self.calls) {
            (0, _) => dollars(self.cost_usd),
            (unpriced, calls) if unpriced == calls => "?".to_owned(),
            _ => format!("{}+?", dollars(self.cost_usd)),
        }
    }
}

/// Reads from when on: `today`, `7d`, a date.
fn since(given: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let midnight = Timestamp(now.0 - now.0.rem_euclid(DAY_MS));
    if given == "today" {
        return Ok(midnight);
    }
    if let Some(days) = given.strip_suffix('d').and_then(|days| days.parse::<i64>().ok())
        && (1..=DAYS_MAX).contains(&days)
    {
        // Today counts as one of them.
        return Ok(midnight.plus_ms(-(days - 1) * DAY_MS));
    }
    let is_date = given.len() == 10 && given.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let day = is_date.then(|| format!("{given}T00:00:00Z").parse::<Timestamp>().ok()).flatten();
    day.ok_or_else(|| {
        Failure::usage(format!(
            "--since {given}: expected today, a number of days such as 7d, or a date such as \
             2027-01-31"
        ))
    })
}

fn day_of(at: Timestamp) -> String {
    at.to_string().get(..10).unwrap_or_default().to_owned()
}

fn key(one: &Spent, by: UsageBy, known: &HashMap<&SessionId, &SessionInfo>) -> String {
    match by {
        UsageBy::Day => day_of(one.at),
        UsageBy::Model => one.model.clone().unwrap_or_else(|| "(not recorded)".to_owned()),
        UsageBy::Session => one.session.to_string(),
        UsageBy::Folder => match known.get(&one.session) {
            Some(info) => info.cwd.clone(),
            None => "(erased sessions)".to_owned(),
        },
    }
}

fn name(key: &str, by: UsageBy, known: &HashMap<&SessionId, &SessionInfo>) -> String {
    let title = match by {
        UsageBy::Session => known.get(&SessionId::new(key)).and_then(|it| it.title.as_deref()),
        UsageBy::Day | UsageBy::Model | UsageBy::Folder => None,
    };
    match title {
        Some(title) => format!("{key}  {}", escape::line(title, NAME_CHARS / 2)),
        None => escape::line(key, NAME_CHARS),
    }
}

fn to_json(key: Option<&String>, sum: &Sum) -> Value {
    let cost = (sum.unpriced < sum.calls || sum.calls == 0).then_some(sum.cost_usd);
    let sums = json!({
        "calls": sum.calls,
        "inputTokens": sum.usage.input_tokens,
        "outputTokens": sum.usage.output_tokens,
        "cacheReadTokens": sum.usage.cache_read_tokens,
        "cacheWriteTokens": sum.usage.cache_write_tokens,
        "costUsd": cost,
        "unpricedCalls": sum.unpriced,
    });
    let mut value = Map::new();
    if let Some(key) = key {
        value.insert("key".to_owned(), json!(key));
    }
    if let Value::Object(fields) = sums {
        value.extend(fields);
    }
    Value::Object(value)
}

/// Writes the rows and their total, every column as wide as its widest.
fn table(rows: Vec<(String, Sum)>, total: &Sum, by: UsageBy, paint: Paint) -> String {
    let head = match by {
        UsageBy::Day => "day",
        UsageBy::Model => "model",
        UsageBy::Session => "session",
        UsageBy::Folder => "folder",
    };
    let head = [head, "calls", "in", "out", "cached", "cost"].map(str::to_owned);
    let columns = |name: String, sum: &Sum| {
        let usage = &sum.usage;
        let written = usage.input_tokens.saturating_add(usage.cache_write_tokens);
        [
            name,
            grouped(sum.calls),
            grouped(written),
            grouped(usage.output_tokens),
            grouped(usage.cache_read_tokens),
            sum.cost(),
        ]
    };
    let mut lines = vec![head];
    lines.extend(rows.into_iter().map(|(name, sum)| columns(name, &sum)));
    let mut last = columns("total".to_owned(), total);
    if total.unpriced > 0
        && let Some(cost) = last.last_mut()
    {
        *cost = format!("at least {}", dollars(total.cost_usd));
    }
    lines.push(last);
    let mut widths = [0; 6];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let end = lines.len() - 1;
    let mut text = String::new();
    for (place, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        let row = cells.join("  ");
        let row = match place {
            0 => paint.dim(&row),
            place if place == end => paint.bold(&row),
            _ => row,
        };
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_796_000_600_000);

    #[test]
    fn since_is_a_word_a_number_of_days_or_a_date() {
        let days = [("today", "2026-11-30"), ("1d", "2026-11-30"), ("7d", "2026-11-24")];
        for (given, day) in days {
            let at = since(given, NOW).unwrap();
            assert_eq!(at.to_string(), format!("{day}T00:00:00.000Z"), "{given}");
        }
        assert_eq!(day_of(since("2026-02-28", NOW).unwrap()), "2026-02-28");
        for wrong in ["", "0d", "-3d", "d", "yesterday", "2026-13-01", "2026-2-28", "999999999d"] {
            let failure = since(wrong, NOW).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.message.contains("expected today"), "{wrong}: {failure}");
        }
    }

    #[test]
    fn an_unknown_price_is_no_price() {
        let spent = |cost_usd| Spent {
            session: SessionId::new("s"),
            at: NOW,
            model: None,
            usage: Usage::default(),
            cost_usd,
        };
        let mut sum = Sum::default();
        sum.add(&spent(None));
        assert_eq!((sum.cost(), &to_json(None, &sum)["costUsd"]), ("?".to_owned(), &Value::Null));
        sum.add(&spent(Some(0.5)));
        assert_eq!(sum.cost(), "$0.50+?");
        assert_eq!(to_json(None, &sum)["costUsd"], 0.5);
    }
}
