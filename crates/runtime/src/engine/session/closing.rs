//! The end of a session's task: a turn is stopped, or left waiting for a person.

use std::sync::Arc;
use std::time::Duration;

use driver_api::StoreError;
use protocol::Effect;
use protocol::event::SessionEnd;

use super::Session;
use crate::engine::own;
use crate::kernel::{CallStage, Command, OUTCOME_UNKNOWN, said};

/// How long stopped calls get when the program ends: a third of what they get otherwise, since
/// whoever stops a service kills it soon. With the wait for captures it is less than what doors
/// give their viewers for their farewell, so that they hear how it ended.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// How long the program's end waits until it is captured what the last turn left of the files.
const SHUTDOWN_RECORDING_GRACE: Duration = Duration::from_secs(3);

impl Session {
    /// Stops the turn, waits for its end, and says in the log that the session was closed. A
    /// program that ends leaves a turn that waits for a person as it is.
    pub(crate) async fn close(&mut self, reason: SessionEnd) -> Result<(), StoreError> {
        self.live.is_closing = true;
        let is_shutdown = reason == SessionEnd::Shutdown;
        let until = self.services.options.clock.elapsed() + SHUTDOWN_GRACE;
        if is_shutdown && self.may_wait_on() {
            self.leave_waiting(until).await?;
            self.flush().await?;
            self.snapshot(1).await?;
            self.show_closed(reason).await;
            self.put_sandbox_away().await;
            return self.services.options.store.release(&self.lease).await;
        }
        if !is_shutdown {
            self.apply_sure(Command::ClearQueue);
        }
        if self.state.turn.is_some() {
            self.stop();
        }
        while self.state.turn.is_some() {
            self.drive().await?;
            if self.state.turn.is_none() {
                break;
            }
            let left = until.saturating_sub(self.services.options.clock.elapsed());
            let grace = self.stop_grace().unwrap_or_default();
            let grace = if is_shutdown { grace.min(left) } else { grace };
            if !self.outcome_within(grace).await? {
                self.abandon().await?;
            }
        }
        // A program that ends takes along what it runs.
        self.services.tenures.end(&self.id);
        match is_shutdown {
            true => self.finish_recording_within(SHUTDOWN_RECORDING_GRACE).await?,
            false => self.finish_recording().await?,
        }
        self.apply_sure(Command::Close(reason));
        self.flush().await?;
        self.snapshot(200).await?;
        self.put_sandbox_away().await;
        self.services.options.store.release(&self.lease).await
    }

    /// Puts the session's own sandbox away, before anybody else may open the session.
    async fn put_sandbox_away(&self) {
        if let (Some(neuron), Some(sandbox)) = (&self.state.neuron, self.state.sandbox) {
            own::put_away(&self.services.options, neuron, sandbox.writes).await;
        }
    }

    /// Tells whether the turn can go on waiting for a person without this process.
    fn may_wait_on(&self) -> bool {
        let live = &self.live;
        let is_left = self.state.may_wait_without_us();
        is_left && live.asking.is_none() && live.stopping_since.is_none()
    }

    /// Leaves what waits for a person to whoever opens the session next, who asks again: the
    /// request is in the log. What runs beside it is stopped.
    async fn leave_waiting(&mut self, until: Duration) -> Result<(), StoreError> {
        let clock = Arc::clone(&self.services.options.clock);
        self.live.stopping_since = Some(clock.elapsed());
        self.live.cancel.cancel();
        // What hooks and checks looked at is looked at again.
        self.live.hooks.abort();
        while !self.live.running.is_empty() {
            let left = until.saturating_sub(clock.elapsed());
            if !self.outcome_within(left).await? {
                self.give_up_running().await?;
            }
        }
        Ok(())
    }

    /// Drops what would not stop in time. What may have had an effect is answered so; whoever
    /// opens the session next runs the rest again.
    async fn give_up_running(&mut self) -> Result<(), StoreError> {
        tracing::warn!(session = %self.id, "calls did not stop in time");
        self.live.effects.shutdown().await;
        while let Some((call, piece)) = self.live.progress.take() {
            self.progress(call, piece).await?;
        }
        for id in std::mem::take(&mut self.live.running) {
            let Some(call) = self.state.call(&id).cloned() else { continue };
            match call.stage {
                CallStage::Started(effect) | CallStage::Asking(_, effect)
                    if effect > Effect::Interact =>
                {
                    self.apply_sure(Command::Finish(said(id, call.tool, OUTCOME_UNKNOWN, true)));
                }
                CallStage::Asking(wait, _) => self.dismiss(wait.request),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes what comes next of what is under way; false when nothing came in time.
    async fn outcome_within(&mut self, grace: Duration) -> Result<bool, StoreError> {
        let clock = Arc::clone(&self.services.options.clock);
        tokio::select! {
            Some(outcome) = self.live.effects.join_next() => match outcome {
                Ok(outcome) => self.settle(outcome).await?,
                Err(error) => self.broken(&error).await?,
            },
            (call, piece) = self.live.progress.next() => {
                self.progress(call, piece).await?;
            }
            () = clock.sleep(grace) => return Ok(false),
        }
        Ok(true)
    }
}
