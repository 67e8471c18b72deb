//! The end of a turn for people: why it did not end well, what was left unanswered, what it took.

use std::time::Duration;

use protocol::TurnEnd;
use protocol::event::{DeniedBy, ToolDenied, TurnResult};

use super::WORDS_MAX;
use crate::escape;
use crate::number::{dollars, grouped};

/// How many characters of the names of tools are shown.
const NAMES_CHARS: usize = 200;

/// Which tools' calls needed an answer that nobody gave.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    nobody: Vec<String>,
    late: Vec<String>,
}

impl Unanswered {
    /// Takes note of a call that was denied.
    pub(super) fn denied(&mut self, denied: &ToolDenied) {
        match denied.by {
            DeniedBy::Nobody => self.nobody.push(denied.tool_name.clone()),
            DeniedBy::Timeout => self.late(&denied.tool_name),
            _ => {}
        }
    }

    /// Takes note of a call whose question or plan nobody answered in time.
    pub(super) fn late(&mut self, tool: &str) {
        self.late.push(tool.to_owned());
    }

    /// Says what was left unanswered, of `count` in all, and what helps; one line each.
    pub(super) fn lines(&self, count: u32) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.nobody.is_empty() {
            lines.push(format!(
                "{} needed an answer and nobody could be asked ({}): allow with --allow 'RULE' or \
                 --mode, or run where you can answer",
                calls(self.nobody.len()),
                names(&self.nobody)
            ));
        }
        if !self.late.is_empty() {
            lines.push(format!(
                "{} needed an answer and nobody answered in time ({}): allow with --allow 'RULE' \
                 or --mode, or wait longer with --permission-timeout MS",
                calls(self.late.len()),
                names(&self.late)
            ));
        }
        let told = self.nobody.len() + self.late.len();
        let rest = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(told);
        if rest > 0 {
            let more = if told > 0 { " more" } else { "" };
            let questions = stdx::plural(rest as u64, "question");
            lines.push(format!("{questions}{more} had no answer: nobody answered in time"));
        }
        lines
    }
}

fn calls(count: usize) -> String {
    stdx::plural(count as u64, "call")
}

fn names(tools: &[String]) -> String {
    let mut names = tools.to_vec();
    names.sort();
    names.dedup();
    escape::line(&names.join(", "), NAMES_CHARS)
}

/// Says in one or two lines why a turn did not end well, and what one can do; none where it did.
pub fn complaint(result: &TurnResult) -> Option<String> {
    let (what, advice) = match result.reason {
        TurnEnd::Completed => return None,
        TurnEnd::Interrupted => ("interrupted", String::new()),
        TurnEnd::MaxTurns => {
            ("stopped at the limit of steps", "--max-turns N allows more".to_owned())
        }
        TurnEnd::Budget => {
            ("stopped at the budget", budget_advice(result.message.as_deref().unwrap_or_default()))
        }
        TurnEnd::Time => {
            ("stopped at the time limit", "the settings hold it: narthex config show".to_owned())
        }
        TurnEnd::Repetition => (
            "stopped, for the model went round in circles",
            "go on with other words, or another model".to_owned(),
        ),
        TurnEnd::Error => ("error", String::new()),
        TurnEnd::Denied => ("refused by policy", String::new()),
    };
    let mut words = format!("narthex: {what}");
    if let Some(message) = &result.message {
        let message = escape::cut(escape::text(message).trim(), WORDS_MAX);
        words.push_str(&format!(": {message}"));
    }
    if !advice.is_empty() {
        words.push_str(&format!("; {advice}"));
    }
    Some(words)
}

/// Names the setting whose budget was reached, as far as the runtime's words tell which it was:
/// "this turn has used 9100 of 10000 tokens", "$4.98 of $5.00 are used up by this session".
fn budget_advice(message: &str) -> String {
    let of = ["turn", "session", "day"].into_iter().find(|of| {
        message
            .split(|letter: char| !letter.is_alphabetic())
            .collect::<Vec<_>>()
            .windows(2)
            .any(|words| matches!(words, [this, whose] if *this == "this" && whose == of))
    });
    let unit = if message.contains('$') {
        Some("usd")
    } else {
        message.contains("tokens").then_some("tokens")
    };
    let allows = match (of, unit) {
        (Some("turn"), Some("usd")) => {
            "--max-budget-usd X, or budget.turn_usd in the settings, allows more".to_owned()
        }
        (Some(of), Some(unit)) => format!("budget.{of}_{unit} in the settings allows more"),
        _ => "the settings hold it: narthex config show".to_owned(),
    };
    format!("{allows}, narthex usage shows what it went to")
}

/// Says what a turn took.
pub(super) fn closing(result: &TurnResult) -> String {
    let steps = stdx::plural(u64::from(result.turns), "step");
    let tokens = result.usage.prompt_tokens().saturating_add(result.usage.output_tokens);
    let cost = result.cost_usd.map_or_else(|| "cost —".to_owned(), dollars);
    let took = stdx::duration(Duration::from_millis(result.duration_ms));
    format!("{steps} · {} tokens · {cost} · {took}", grouped(tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_the_budget_that_was_reached() {
        let table = [
            ("the budget is reached: this turn has used $4.98 of $5.00, and", "--max-budget-usd X"),
            ("this turn has used 9100 of 10000 tokens", "; budget.turn_tokens in"),
            ("9100 of 10000 tokens are used up by this session", "; budget.session_tokens in"),
            ("this day has used $4.98 of $5.00", "; budget.day_usd in"),
            ("nothing is left", "; the settings hold it"),
        ];
        for (message, part) in table {
            let words = format!("; {}", budget_advice(message));
            assert!(words.contains(part), "{message}: {words}");
            assert_eq!(words.contains("--max-budget-usd"), part.contains("--max"), "{words}");
        }
    }
}
