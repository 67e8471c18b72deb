//! What standard output and standard error carry while a turn runs: one module per form.

mod json;
mod stream;

use std::io;

use crate::card::Request;
use crate::{Console, TextForm};
use protocol::Event;
use protocol::event::TurnResult;
use runtime_api::SessionInfo;

/// Says where a key came from that the provider did not take, and what to do about it.
pub fn say_key_hint(
    result: &TurnResult,
    info: &SessionInfo,
    hints: &[(String, String)],
    console: &mut Console,
) {
    if result.code.as_deref() != Some("unauthorized") {
        return;
    }
    let provider = info.model.split('/').next().unwrap_or_default();
    if let Some((_, hint)) = hints.iter().find(|(name, _)| name == provider) {
        console.say(&format!("narthex: {}", crate::escape::text(hint)));
    }
}

/// What standard output carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// The answer's text.
    #[default]
    Text,
    /// One JSON object at the end.
    Json,
    /// One JSON event a line.
    StreamJson,
}

/// The form of the output.
#[derive(Debug)]
pub enum Form {
    Text(TextForm),
    Json(json::JsonForm),
    Stream,
}

impl Form {
    pub fn new(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Text => Form::Text(TextForm::default()),
            OutputFormat::Json => Form::Json(json::JsonForm::default()),
            OutputFormat::StreamJson => Form::Stream,
        }
    }

    /// Tells whether the first event must be seen even where the session began long ago.
    pub fn needs_start(&self) -> bool {
        matches!(self, Form::Stream)
    }

    /// Gets ready for a turn.
    pub fn begin(&mut self, console: &mut Console) {
        match self {
            Form::Text(form) => form.begin(console),
            Form::Json(form) => form.begin(),
            Form::Stream => {}
        }
    }

    /// Learns of a request that was made before anybody watched.
    pub fn knows(&mut self, request: &Request) {
        if let Form::Text(form) = self {
            form.knows(request);
        }
    }

    /// Shows an event. An error is the reader's of standard output: mostly that it has gone.
    pub fn event(&mut self, event: &Event, console: &mut Console) -> io::Result<()> {
        match self {
            Form::Text(form) => form.event(event, console),
            Form::Json(form) => form.event(event, console),
            Form::Stream => stream::event(event, console),
        }
    }

    /// Tells people why a turn did not end well, in every form: standard error is theirs.
    pub fn end(&mut self, result: &TurnResult, console: &mut Console) {
        match self {
            Form::Text(_) => {}
            Form::Json(_) | Form::Stream => {
                if let Some(words) = crate::complaint(result) {
                    console.say(&words);
                }
            }
        }
    }

    /// Tells that the turn is being stopped.
    pub fn stopping(&mut self, console: &mut Console) {
        if let Form::Text(form) = self {
            form.stopping(console);
        }
    }
}
