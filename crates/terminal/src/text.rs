//! `text`: the answer for standard output, everything else for people.
//!
//! On a terminal the answer appears as it comes. Into a pipe it goes whole and once, at the end,
//! so that an answer that broke off and was asked for again never leaves its half there.

mod tools;

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use protocol::event::{AssistantMessage, NoticeLevel, PermissionRequest, Retry, TurnResult};
use protocol::{Block, Event, EventBody, StopReason, ToolCallId, TurnEnd};

use self::tools::Look;
use crate::Console;
use crate::escape;
use crate::number::{dollars, grouped, short};

/// How many characters of a message of others one line for people shows.
const WORDS_MAX: usize = 2000;

/// What the form remembers of the turn.
#[derive(Debug, Default)]
pub struct TextForm {
    /// Signs and diffs even where standard error is no terminal.
    is_pictured: bool,
    started: Option<Instant>,
    step: u32,
    tokens: u64,
    calls: HashMap<ToolCallId, (String, String)>,
    has_streamed: bool,
    denied: Vec<String>,
    /// The prompt is a slash command: no model answers, and what the command says is the answer.
    is_command: bool,
}

impl TextForm {
    /// Shows every step as on a terminal, wherever it goes.
    pub fn pictured() -> Self {
        Self { is_pictured: true, ..Self::default() }
    }

    /// Learns of a call that was made before anybody watched.
    pub fn knows(&mut self, request: &PermissionRequest) {
        let (name, summary) = (&request.tool_name, &request.target.summary);
        self.calls.insert(request.tool_call_id.clone(), (name.clone(), summary.clone()));
    }

    pub fn begin(&mut self, console: &mut Console) {
        *self = Self {
            is_pictured: self.is_pictured,
            started: Some(Instant::now()),
            ..Self::default()
        };
        self.wait("waiting for the model", console);
    }

    pub fn stopping(&mut self, console: &mut Console) {
        if console.facts().err_is_terminal {
            let paint = console.paint();
            console.say(&paint.dim("stopping… (Ctrl-C again leaves at once)"));
        }
    }

    fn look(&self, console: &Console) -> Look {
        let is_rich = self.is_pictured || console.facts().err_is_terminal;
        Look { signs: is_rich, diffs: is_rich }
    }

    fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |start| start.elapsed())
    }

    /// Shows the spinner with the step and the tokens so far.
    fn wait(&self, doing: &str, console: &mut Console) {
        let mut words = doing.to_owned();
        if self.step > 0 {
            words = format!("step {} · {words}", self.step);
        }
        if self.tokens > 0 {
            words = format!("{words} · {} tokens", grouped(self.tokens));
        }
        console.busy(&words, self.elapsed());
    }

    #[deny(clippy::wildcard_enum_match_arm)]
    pub fn event(&mut self, event: &Event, console: &mut Console) -> io::Result<()> {
        match &event.body {
            EventBody::TurnStart(start) => {
                self.step = start.turn;
                self.has_streamed = false;
                self.wait("waiting for the model", console);
            }
            EventBody::TextDelta(delta) => return self.text(&delta.text, console),
            EventBody::ThinkingDelta(_) => self.wait("thinking", console),
            EventBody::AssistantMessage(message) => return self.message(message, console),
            EventBody::ToolCall(call) => {
                let summary = call.target.summary.clone();
                self.wait(&format!("{} {summary}", call.tool_name), console);
                self.calls.insert(call.tool_call_id.clone(), (call.tool_name.clone(), summary));
            }
            EventBody::ToolProgress(progress) => self.progress(progress, console),
            EventBody::ToolResult(result) => {
                let summary = self.calls.remove(&result.tool_call_id).unwrap_or_default().1;
                tools::result(result, &summary, self.look(console), console);
                self.wait("working", console);
            }
            EventBody::ToolDenied(denied) => {
                let summary = self.calls.remove(&denied.tool_call_id).unwrap_or_default().1;
                tools::denied(denied, &summary, self.look(console), console);
                self.denied.push(denied.tool_name.clone());
                self.wait("working", console);
            }
            EventBody::Retry(retry) => return self.retry(retry, console),
            EventBody::Compacted(compacted) => {
                let (before, after) = (short(compacted.before), short(compacted.after));
                let how = if compacted.mechanical { ", without a model" } else { "" };
                let words = format!("summarised{how}: {before} → {after} tokens");
                console.say(&console.paint().dim(&words));
            }
            EventBody::Usage(used) => {
                let usage = &used.usage;
                self.tokens = self.tokens.saturating_add(usage.prompt_tokens());
                self.tokens = self.tokens.saturating_add(usage.output_tokens);
            }
            EventBody::Notice(notice) => say_notice(notice.level, &notice.message, console),
            EventBody::ModeChanged(changed) => {
                let words = format!("mode is now {}", changed.mode);
                console.say(&console.paint().dim(&words));
            }
            EventBody::ModelChanged(changed) => {
                let words = format!("model is now {}", escape::line(&changed.model, 128));
                console.say(&console.paint().dim(&words));
            }
            EventBody::Done(done) => return self.done(event, &done.result, console),
            EventBody::PromptStarted(started) => self.is_command = started.command.is_some(),
            // The driver of the turn draws the card of a request and takes the answer.
            EventBody::PermissionRequest(_)
            | EventBody::QuestionRequest(_)
            | EventBody::PlanRequest(_)
            | EventBody::RequestResolved(_) => {}
            // Of the session, its queue and its captured files people at a terminal need to be
            // told nothing; who goes back or takes a summary back is told by their command.
            EventBody::SessionStart(_)
            | EventBody::ContextSet(_)
            | EventBody::ContextAdded(_)
            | EventBody::CompactionUndone(_)
            | EventBody::CheckpointMade(_)
            | EventBody::ChangesRecorded(_)
            | EventBody::Rewound(_)
            | EventBody::ToolStarted(_)
            | EventBody::PromptQueued(_)
            | EventBody::PromptFinished(_)
            | EventBody::SessionUpdated(_)
            | EventBody::SessionClosed(_) => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str, console: &mut Console) -> io::Result<()> {
        if !console.facts().out_is_terminal {
            self.wait("answering", console);
            return Ok(());
        }
        self.has_streamed = true;
        console.foreign(text)
    }

    fn progress(&self, progress: &protocol::event::ToolProgress, console: &mut Console) {
        let Some((name, _)) = self.calls.get(&progress.tool_call_id) else { return };
        if let Some(line) = progress.text.lines().rev().find(|line| !line.trim().is_empty()) {
            self.wait(&format!("{name}: {line}"), console);
        }
    }

    fn message(&mut self, message: &AssistantMessage, console: &mut Console) -> io::Result<()> {
        let text: Vec<&str> = message
            .content
            .iter()
            .filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let text = text.concat();
        if console.facts().out_is_terminal {
            if !self.has_streamed {
                console.foreign(&text)?;
            }
            console.end_line()?;
        } else if message.stop_reason == StopReason::ToolUse && !text.trim().is_empty() {
            // Into a pipe goes the last answer alone; what is said on the way is for people.
            console.say(&console.paint().dim(escape::text(&text).trim_end()));
        }
        self.has_streamed = false;
        self.wait("working", console);
        Ok(())
    }

    fn retry(&mut self, retry: &Retry, console: &mut Console) -> io::Result<()> {
        let paint = console.paint();
        if self.has_streamed {
            console.end_line()?;
            let mark = console.data_paint().dim("— this answer broke off; it starts anew —");
            console.data(&format!("{mark}\n"))?;
            self.has_streamed = false;
        }
        let reason = escape::line(&retry.reason, WORDS_MAX);
        let delay = stdx::duration(Duration::from_millis(retry.delay_ms));
        let words = format!("asking again in {delay} (attempt {}): {reason}", retry.attempt + 1);
        console.say(&paint.care(&words));
        self.wait("waiting to ask again", console);
        Ok(())
    }

    fn done(
        &mut self,
        event: &Event,
        result: &TurnResult,
        console: &mut Console,
    ) -> io::Result<()> {
        let is_answer = match result.reason {
            TurnEnd::Completed
            | TurnEnd::MaxTurns
            | TurnEnd::Budget
            | TurnEnd::Time
            | TurnEnd::Repetition => true,
            TurnEnd::Interrupted | TurnEnd::Error | TurnEnd::Denied => false,
        };
        let is_shown = console.facts().out_is_terminal && !self.is_command;
        let written = if is_shown {
            console.end_line()
        } else if is_answer && !result.text.is_empty() {
            let end = if result.text.ends_with('\n') { "" } else { "\n" };
            console.foreign(&result.text).and_then(|()| console.data(end))
        } else {
            Ok(())
        };
        console.rest();
        if let Some(words) = complaint(result) {
            console.say(&words);
        }
        if result.unanswered > 0 {
            console.say(&self.unanswered(result.unanswered));
        }
        if self.is_command && result.turns == 0 && self.look(console).signs {
            return written;
        }
        let session = escape::line(event.session_id.as_str(), 80);
        let facts = closing(result);
        if self.look(console).signs {
            let words = format!("{facts} · go on with: narthex resume {session}");
            console.say(&console.paint().dim(&words));
        } else {
            console.say(&format!("- {facts} · session {session}"));
        }
        written
    }

    fn unanswered(&self, count: u32) -> String {
        let calls = stdx::plural(u64::from(count), "call");
        let mut names = self.denied.clone();
        names.sort();
        names.dedup();
        format!(
            "{calls} needed an answer and nobody could be asked ({}): allow with --allow 'RULE' or \
             --mode, or run where you can answer",
            escape::line(&names.join(", "), 200)
        )
    }
}

/// Says in one or two lines why a turn did not end well, and what one can do; none where it did.
pub fn complaint(result: &TurnResult) -> Option<String> {
    let (what, advice) = match result.reason {
        TurnEnd::Completed => return None,
        TurnEnd::Interrupted => ("interrupted", ""),
        TurnEnd::MaxTurns => ("stopped at the limit of steps", "--max-turns N allows more"),
        TurnEnd::Budget => (
            "stopped at the budget",
            "--max-budget-usd X allows more, narthex usage shows what it went to",
        ),
        TurnEnd::Time => ("stopped at the time limit", "the settings hold it: narthex config show"),
        TurnEnd::Repetition => (
            "stopped, for the model went round in circles",
            "go on with other words, or another model",
        ),
        TurnEnd::Error => ("error", ""),
        TurnEnd::Denied => ("refused by policy", ""),
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

/// Says a notice.
pub fn say_notice(level: NoticeLevel, message: &str, console: &mut Console) {
    let paint = console.paint();
    let words = escape::line(message, WORDS_MAX);
    console.say(&match level {
        NoticeLevel::Info => paint.dim(&format!("note: {words}")),
        NoticeLevel::Warn => paint.care(&format!("warning: {words}")),
        NoticeLevel::Error => paint.bad(&format!("error: {words}")),
    });
}

fn closing(result: &TurnResult) -> String {
    let steps = stdx::plural(u64::from(result.turns), "step");
    let tokens = result.usage.prompt_tokens().saturating_add(result.usage.output_tokens);
    let cost = result.cost_usd.map_or_else(|| "cost —".to_owned(), dollars);
    let took = stdx::duration(Duration::from_millis(result.duration_ms));
    format!("{steps} · {} tokens · {cost} · {took}", grouped(tokens))
}
