//! The end of a turn whose last answer has to fit a format.

use std::sync::Arc;

use driver_api::StoreError;
use protocol::event::ContextAdded;
use protocol::{EventBody, Seq, StopReason, TurnEnd};
use serde_json::Value;

use super::Session;
use crate::engine::output::{ASKS_MAX, Format, misfit};
use crate::kernel::{Command, Ending, OUTPUT_FORMAT, would_finish};

/// The code of a turn whose last answer had to fit and does not.
const OUTPUT_INVALID: &str = "output_invalid";

/// What the turn's last answer has to fit, and whether it does.
#[derive(Debug, Default)]
pub(super) struct Fitting {
    /// The format, with where it was recorded.
    format: Option<(Seq, Arc<Format>)>,
    /// What became of the answer of this step, where it is the last one.
    read: Option<(u32, Result<Value, String>)>,
}

impl Session {
    /// Returns the format that the turn's last answer has to fit; it is in the log.
    pub(super) async fn format(&mut self) -> Result<Option<Arc<Format>>, StoreError> {
        let Some(at) = self.state.turn.as_ref().and_then(|turn| turn.output) else {
            return Ok(None);
        };
        if let Some((known, format)) = &self.live.fitting.format
            && *known == at
        {
            return Ok(Some(Arc::clone(format)));
        }
        self.flush().await?;
        let row = self.services.options.store.read(&self.id, at, 1).await?.pop();
        let asked = match row.and_then(|row| EventBody::decode(row.kind, &row.body).ok()) {
            Some(EventBody::PromptStarted(started)) => started.options.output,
            _ => None,
        };
        let format = asked.and_then(|asked| Format::new(asked).ok()).map(Arc::new);
        self.live.fitting.format = format.clone().map(|format| (at, format));
        Ok(format)
    }

    /// Holds an answer that is to be the last one against the format. True when the model is told
    /// that it does not fit, and goes on.
    pub(super) async fn asks_for_fit(&mut self) -> Result<bool, StoreError> {
        let Some(turn) = self.state.turn.as_ref().filter(|turn| would_finish(turn)) else {
            return Ok(false);
        };
        let (step, text) = (turn.step, turn.text.clone());
        let is_read = self.live.fitting.read.as_ref().is_some_and(|(read, _)| *read == step);
        // Whoever declines to answer does so again.
        let may_go_on = turn.output_asks < ASKS_MAX
            && step < turn.steps_max
            && turn.stop != Some(StopReason::Refusal);
        if is_read {
            return Ok(false);
        }
        let Some(format) = self.format().await? else { return Ok(false) };
        let read = format.read(&text);
        if let Err(faults) = &read
            && may_go_on
        {
            let (source, text) = (OUTPUT_FORMAT.to_owned(), misfit(faults));
            self.apply_sure(Command::AddContext(ContextAdded { source, text, goes_on: true }));
            return Ok(true);
        }
        self.live.fitting.read = Some((step, read));
        Ok(false)
    }

    /// Goes on with the turn: the next step, or its end with what the last answer says.
    pub(super) fn advance(&mut self) -> Command {
        let read = self.live.fitting.read.take();
        let Some(turn) = self.state.turn.as_ref().filter(|turn| would_finish(turn)) else {
            return Command::Advance;
        };
        match read {
            Some((step, read)) if step == turn.step => Command::End(self.ending_with(read)),
            _ => Command::Advance,
        }
    }

    fn ending_with(&self, read: Result<Value, String>) -> Ending {
        let format = self.live.fitting.format.as_ref();
        let is_strict = format.is_some_and(|(_, format)| format.asked.strict);
        match read {
            Ok(value) => Ending { structured: Some(value), ..Ending::of(TurnEnd::Completed) },
            Err(faults) if is_strict => {
                let message = format!("the answer does not fit the output format: {faults}");
                Ending::error(OUTPUT_INVALID, message)
            }
            Err(_) => Ending::of(TurnEnd::Completed),
        }
    }
}
