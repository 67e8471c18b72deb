//! `narthex doctor`: what works here, and what mends the rest.

use serde_json::json;
use terminal::{Exit, Failure, Paint, escape};

use crate::args::Globals;
use crate::door::{Room, print};
use crate::machine::{Check, CheckStatus, Machine};

/// Runs every check; fails when one does.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    is_json: bool,
) -> Result<Exit, Failure> {
    let checks = room.machine.checks(globals);
    let checks = room.desk.stops.guard(async { Ok::<_, Failure>(checks.await) }).await?;
    let worst = checks.iter().map(|check| check.status).max().unwrap_or(CheckStatus::Ok);
    let console = &mut room.desk.console;
    let text = if is_json {
        let report = json!({
            "ok": worst != CheckStatus::Fail,
            "version": env!("CARGO_PKG_VERSION"),
            "checks": checks,
        });
        format!("{report}\n")
    } else {
        table(&checks, console.data_paint())
    };
    print(console, &text)?;
    Ok(if worst == CheckStatus::Fail { Exit::Failed } else { Exit::Done })
}

fn table(checks: &[Check], paint: Paint) -> String {
    let mut text = String::new();
    let mut group = "";
    for check in checks {
        if check.group != group {
            let gap = if group.is_empty() { "" } else { "\n" };
            group = &check.group;
            text.push_str(&format!("{gap}{}\n", paint.bold(group)));
        }
        let status = match check.status {
            CheckStatus::Ok => paint.good("ok  "),
            CheckStatus::Warn => paint.care("warn"),
            CheckStatus::Fail => paint.bad("fail"),
        };
        let message = escape::line(&check.message, 400);
        text.push_str(&format!("  {status}  {:<16} {message}\n", check.name));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("        {}\n", paint.dim(&format!("fix: {fix}"))));
        }
    }
    text
}
