//! `text`: the answer for standard output, everything else for people.
//!
//! On a terminal the answer appears as it comes. Into a pipe it goes whole and once, at the end,
//! so that an answer that broke off and was asked for again never leaves its half there.

mod end;
mod settled;
mod tools;

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use protocol::event::{AssistantMessage, NoticeLevel, Retry, ToolResult, TurnResult};
use protocol::{Block, Event, EventBody, StopReason, ToolCallId, TurnEnd};

use self::end::{Unanswered, closing};
use self::settled::Decisions;
use self::tools::Look;
use crate::Console;
use crate::card::Request;
use crate::escape;
use crate::number::{grouped, short};

pub use self::end::complaint;

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
    unanswered: Unanswered,
    decisions: Decisions,
    /// The prompt is a slash command: no model answers, and what the command says is the answer.
    is_command: bool,
}

impl TextForm {
    /// Shows every step as on a terminal, wherever it goes.
    pub fn pictured() -> Self {
        Self { is_pictured: true, ..Self::default() }
    }

    /// Learns of a request that was made before anybody watched.
    pub fn knows(&mut self, request: &Request) {
        let (call, name, summary) = match request {
            Request::Permission(request) => {
                let summary = request.target.summary.clone();
                (Some(&request.tool_call_id), request.tool_name.clone(), summary)
            }
            Request::Question(question) => {
                (question.tool_call_id.as_ref(), "a question".to_owned(), request.line())
            }
            Request::Plan(plan) => (Some(&plan.tool_call_id), "a plan".to_owned(), request.line()),
        };
        if let Some(call) = call {
            self.calls.insert(call.clone(), (name, summary));
        }
        self.decisions.ask(request.clone());
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
            EventBody::ToolResult(result) => self.result(result, console),
            EventBody::ToolDenied(denied) => {
                let summary = self.calls.remove(&denied.tool_call_id).unwrap_or_default().1;
                tools::denied(denied, &summary, self.look(console), console);
                self.unanswered.denied(denied);
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
            // A command says itself what it changed.
            EventBody::ModeChanged(_) | EventBody::ModelChanged(_) if self.is_command => {}
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
            EventBody::PermissionRequest(_) => {}
            EventBody::QuestionRequest(question) => {
                self.decisions.ask(Request::Question(question.clone()));
            }
            EventBody::PlanRequest(plan) => self.decisions.ask(Request::Plan(plan.clone())),
            EventBody::RequestResolved(resolved) => self.decisions.settle(resolved),
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
            | EventBody::ToolsActivated(_)
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

    fn result(&mut self, result: &ToolResult, console: &mut Console) {
        let summary = self.calls.remove(&result.tool_call_id).unwrap_or_default().1;
        let settled = self.decisions.take(&result.tool_call_id);
        if settled.as_ref().is_some_and(|settled| settled.is_late) {
            self.unanswered.late(&result.tool_name);
        }
        let facts = (summary.as_str(), settled.as_ref());
        tools::result(result, facts, self.look(console), console);
        self.wait("working", console);
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
            for line in self.unanswered.lines(result.unanswered) {
                console.say(&line);
            }
        }
        if std::mem::take(&mut self.is_command) && result.turns == 0 && self.look(console).signs {
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
