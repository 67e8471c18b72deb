//! Taking the outcomes of effects, and the live pieces between them.

use std::time::Duration;

use driver_api::{Delta, Progress, StoreError, ToolOutcome};
use protocol::event::{TextDelta, ThinkingDelta, ToolProgress, ToolResult};
use protocol::{MessageId, ToolCallId, TurnEnd};
use tokio::task::JoinError;

use super::{Outcome, Session};
use crate::engine::limits::cap;
use crate::kernel::{Command, Ending};

/// How much of a cut answer is kept, in bytes.
const PARTIAL_MAX: usize = 1024 * 1024;

impl Session {
    pub(super) async fn delta(&mut self, delta: Delta) -> Result<(), StoreError> {
        match delta {
            Delta::Text(text) => {
                if self.live.partial.len() + text.len() <= PARTIAL_MAX {
                    self.live.partial.push_str(&text);
                }
                self.show_live(TextDelta { text }.into()).await
            }
            Delta::Thinking(text) => self.show_live(ThinkingDelta { text }.into()).await,
        }
    }

    pub(super) async fn progress(
        &mut self,
        tool_call_id: ToolCallId,
        piece: Progress,
    ) -> Result<(), StoreError> {
        let Progress { text, stream } = piece;
        self.show_live(ToolProgress { tool_call_id, text, stream }.into()).await
    }

    /// Takes the outcome of an effect. Live pieces that came before it are shown first.
    pub(super) async fn settle(&mut self, outcome: Outcome) -> Result<(), StoreError> {
        match outcome {
            Outcome::Answered(answer) => {
                self.drain_deltas().await?;
                self.live.asking = None;
                let Some(model) = self.live.model.clone() else { return Ok(()) };
                match answer {
                    // A stop that came first wins; the text so far is kept by it, and what the
                    // answer cost is paid.
                    Ok(response) if self.live.stopping_since.is_some() => {
                        let usage = response.usage;
                        let cost_usd = model.info().price.map(|price| price.of(&usage));
                        self.settle_spending(&usage, cost_usd);
                        let model = model.info().id.clone();
                        let purpose = "interrupted".to_owned();
                        self.apply_sure(Command::Spent { usage, cost_usd, model, purpose });
                    }
                    Err(_) if self.live.stopping_since.is_some() => {}
                    Ok(response) => self.answered(&*model, response),
                    Err(error) if self.compacts_after(&error) => {}
                    Err(error) => self.model_failed(error),
                }
            }
            Outcome::PauseOver => self.live.asking = None,
            Outcome::Summarised(summarised) => self.summarised(*summarised),
            Outcome::Vetted(call, vetted) => self.vetted(&call, *vetted).await,
            Outcome::Told(prompt, answers) => self.told(&prompt, answers),
            Outcome::Captured(point, captured) => self.captured(&point, captured).await?,
            Outcome::Recorded(point, left) => self.take_changes(point, left),
            Outcome::Ran { call, outcome, took } => {
                while let Some((call, piece)) = self.live.progress.take() {
                    self.progress(call, piece).await?;
                }
                self.ran(call, outcome, took);
            }
        }
        Ok(())
    }

    async fn drain_deltas(&mut self) -> Result<(), StoreError> {
        let Some(mut deltas) = self.live.deltas.take() else { return Ok(()) };
        while let Ok(delta) = deltas.try_recv() {
            self.delta(delta).await?;
        }
        Ok(())
    }

    fn ran(&mut self, call: ToolCallId, mut outcome: ToolOutcome, took: Duration) {
        self.live.running.remove(&call);
        let Some(tool_name) = self.state.call(&call).map(|call| call.tool.clone()) else { return };
        let is_cut = cap(&mut outcome.content);
        for file in &outcome.files {
            self.live.seen.note(file.path.clone(), file.hash.clone());
        }
        let result = ToolResult {
            tool_call_id: call,
            tool_name,
            is_error: outcome.is_error,
            output: outcome.content,
            truncated: outcome.truncated || is_cut,
            spill: outcome.spill,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            display: outcome.display,
            files: outcome.files,
        };
        let response = crate::kernel::text_of(&result.output);
        let (id, is_error) = (result.tool_call_id.clone(), result.is_error);
        self.apply_sure(Command::Finish(result));
        if !outcome.activates.is_empty() {
            self.activate(outcome.activates);
        }
        self.tell_result(&id, response, is_error);
    }

    /// Takes the end of an effect that was aborted or broke: a model call or a pause that a stop
    /// hung up, or hooks. Everything else catches its own panics.
    pub(super) async fn broken(&mut self, error: &JoinError) -> Result<(), StoreError> {
        if !error.is_cancelled() {
            tracing::error!(session = %self.id, %error, "an effect broke");
        }
        if self.live.asking.as_ref().is_some_and(|asking| asking.id() == error.id()) {
            self.drain_deltas().await?;
            self.live.asking = None;
        }
        Ok(())
    }

    /// Drops what would not stop in time: the turn ends now.
    pub(super) async fn abandon(&mut self) -> Result<(), StoreError> {
        tracing::warn!(session = %self.id, "calls did not stop in time");
        self.live.effects.shutdown().await;
        self.drain_deltas().await?;
        while let Some((call, piece)) = self.live.progress.take() {
            self.progress(call, piece).await?;
        }
        self.live.asking = None;
        self.live.running.clear();
        if let Some(point) = self.live.recording.take() {
            self.take_changes(point, None);
        }
        let interrupted = || Ending::of(TurnEnd::Interrupted);
        let mut ending = self.live.stop_as.take().unwrap_or_else(interrupted);
        let partial = std::mem::take(&mut self.live.partial);
        ending.partial = Some((MessageId::new(self.services.fresh_id()), partial));
        self.apply_sure(Command::End(ending));
        self.turn_is_over();
        self.flush().await
    }
}
