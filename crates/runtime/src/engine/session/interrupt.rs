//! Stopping: the turn that runs, or prompts that wait.

use runtime_api::Interrupt;

use super::Session;
use crate::kernel::{Command, Ending};

impl Session {
    /// Stops what was named; true when something of it ran, or waited where one prompt was named.
    pub(super) fn interrupt(&mut self, which: &Interrupt) -> bool {
        let running = self.state.turn.as_ref().map(|turn| turn.prompt.clone());
        match which {
            Interrupt::Running => {}
            Interrupt::All => self.apply_sure(Command::ClearQueue),
            Interrupt::Prompt(prompt) if running.as_ref() == Some(prompt) => {}
            Interrupt::Prompt(prompt) => {
                let is_waiting = self.state.queue.iter().any(|(id, _)| id == prompt);
                self.apply_sure(Command::Unqueue(prompt.clone()));
                return is_waiting;
            }
        }
        if running.is_some() {
            self.stop();
        }
        running.is_some()
    }

    /// Tells everything that runs to stop; the turn ends in that way when it has.
    pub(super) fn stop_with(&mut self, ending: Ending) {
        if self.live.stopping_since.is_none() {
            self.live.stop_as = Some(ending);
            self.stop();
        }
    }

    /// Tells everything that runs to stop; the turn ends when it has.
    pub(super) fn stop(&mut self) {
        if self.live.stopping_since.is_some() {
            return;
        }
        self.live.stopping_since = Some(self.services.options.clock.elapsed());
        self.live.cancel.cancel();
        if let Some(asking) = &self.live.asking {
            asking.abort();
        }
        self.live.hooks.abort();
    }
}
