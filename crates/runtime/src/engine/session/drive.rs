//! Doing what is owed.

use std::sync::Arc;

use driver_api::{StoreError, ToolContext};
use protocol::event::{Notice, NoticeLevel};
use protocol::{EventBody, MessageId, Refusal, RefusalCode, ToolCallId};
use runtime_api::Error;
use tokio::sync::mpsc;

use super::{Outcome, Session};
use crate::engine::calls::{Asker, Host, PARALLEL_MAX, Run};
use crate::engine::gate::KnownHomes;
use crate::engine::place::{self, Site};
use crate::kernel::{Command, Ending, NewPrompt, Owed, pending};

impl Session {
    /// Does everything that is owed and not under way: decides, makes it durable, begins effects.
    ///
    /// A prompt is durable before the model hears of it. A later model call may begin before the
    /// results that it carries are durable: nothing of its answer is taken until they are, and a
    /// crash in between costs a request that nobody saw. A tool call begins only when its start
    /// is durable.
    pub(super) async fn drive(&mut self) -> Result<(), StoreError> {
        if self.live.stopping_since.is_some() {
            self.stop_when_quiet();
        }
        loop {
            let mut runs = Vec::new();
            self.decide_owed(&mut runs).await?;
            if runs.is_empty() && self.live.asking.is_some() && !self.is_stopping() {
                self.flush_soon();
            } else {
                self.flush().await?;
            }
            let mut is_lost = false;
            for call in runs {
                is_lost |= !self.start(call);
            }
            if !is_lost {
                break;
            }
        }
        if std::mem::take(&mut self.live.is_prepare_due) && self.state.neuron.is_none() {
            // Beside the model call that has just begun: commands will not have to wait for it.
            self.services.options.workspaces.prepare();
        }
        Ok(())
    }

    /// Does what is owed until nothing changes any more; calls to begin are left in `runs`.
    async fn decide_owed(&mut self, runs: &mut Vec<ToolCallId>) -> Result<(), StoreError> {
        loop {
            let mut is_changed = false;
            for owed in pending(&self.state) {
                is_changed |= self.do_owed(owed, runs).await?;
            }
            if !is_changed {
                return Ok(());
            }
        }
    }

    /// Does one thing; returns whether the state changed.
    async fn do_owed(
        &mut self,
        owed: Owed,
        runs: &mut Vec<ToolCallId>,
    ) -> Result<bool, StoreError> {
        let before = self.state.seq;
        match owed {
            Owed::Advance => {
                // Hooks are told first; what they say counts before anything else happens.
                self.tell_repetition();
                if self.asks_for_fit().await?
                    || self.waits_for_hooks().await?
                    || self.is_going_in_circles()
                {
                    return Ok(self.state.seq != before);
                }
                let command = self.advance();
                self.apply_sure(command);
                if self.state.turn.is_none() {
                    self.turn_is_over();
                }
            }
            Owed::TakeNext if !self.live.is_closing => Box::pin(self.take_next()).await?,
            Owed::AskModel(_) if self.live.asking.is_none() && !self.is_stopping() => {
                Box::pin(self.ask_model()).await?;
            }
            Owed::Gate(call) if !self.is_stopping() && !self.live.vetting.contains(&call) => {
                Box::pin(self.gate(&call)).await;
            }
            Owed::RecordChanges(point) => self.record_changes(point),
            Owed::Obey if self.live.asking.is_none() && !self.is_stopping() => {
                Box::pin(self.obey()).await?
            }
            Owed::Run(call) if self.must_wait(&call) => {}
            Owed::Run(call) => {
                let busy = self.live.running.len() + runs.len();
                let is_free = !self.live.running.contains(&call) && !runs.contains(&call);
                let is_next = is_free && busy < PARALLEL_MAX && !self.is_stopping();
                if is_next && !self.is_denied_now(&call) {
                    self.apply_sure(Command::Start { call: call.clone() });
                    runs.push(call);
                }
            }
            Owed::AskModel(_) | Owed::Gate(_) | Owed::Await(_) | Owed::TakeNext | Owed::Obey => {}
        }
        Ok(self.state.seq != before)
    }

    /// Tells whether a call that may run has to wait until the files were captured.
    fn must_wait(&mut self, call: &ToolCallId) -> bool {
        use crate::kernel::CallStage::{Allowed, Described};
        let effect = self.state.call(call).and_then(|call| match call.stage {
            Described(effect) | Allowed(effect) => Some(effect),
            _ => None,
        });
        effect.is_some_and(|effect| self.waits_for_capture(effect))
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.live.stopping_since.is_some()
    }

    /// Ends a stopping turn once nothing of it is under way.
    fn stop_when_quiet(&mut self) {
        if self.state.turn.is_none() {
            self.turn_is_over();
            return;
        }
        if self.live.running.is_empty() && self.live.asking.is_none() {
            let partial = std::mem::take(&mut self.live.partial);
            let message_id = MessageId::new(self.services.fresh_id());
            let interrupted = || Ending::of(protocol::TurnEnd::Interrupted);
            let mut ending = self.live.stop_as.take().unwrap_or_else(interrupted);
            ending.partial = Some((message_id, partial));
            self.apply_sure(Command::End(ending));
            self.turn_is_over();
        }
    }

    /// Forgets what only the turn needed.
    pub(super) fn turn_is_over(&mut self) {
        self.live.stopping_since = None;
        self.live.stop_as = None;
        self.live.reservation = None;
        self.live.compacting = super::compact::Compacting::default();
        self.live.capture = super::capture::Capture::Due;
        self.live.attend_due = None;
        self.live.repetition_told = None;
        self.live.vetting.clear();
        self.live.held.clear();
        self.live.hooks.abort();
        self.live.hooks = Default::default();
        self.live.fitting = Default::default();
        self.live.inquiries.clear();
        self.live.cancel = tokio_util::sync::CancellationToken::new();
        self.live.asked.clear();
        self.live.facts.clear();
        self.live.partial.clear();
        self.live.attempts = crate::engine::asking::Attempts::default();
    }

    /// Begins the oldest waiting prompt; what it says is in the log.
    async fn take_next(&mut self) -> Result<(), StoreError> {
        self.flush().await?;
        let Some((_, seq)) = self.state.queue.front().cloned() else { return Ok(()) };
        let rows = self.services.options.store.read(&self.id, seq, 1).await?;
        let (content, max_turns, options) = rows
            .first()
            .and_then(|row| EventBody::decode(row.kind, &row.body).ok())
            .and_then(|body| match body {
                EventBody::PromptQueued(queued) => {
                    Some((queued.content, queued.max_turns, queued.options))
                }
                _ => None,
            })
            .unwrap_or_default();
        let refused = self.enter_neuron().await;
        if let Err(error) = self.renew_policy() {
            tracing::error!(session = %self.id, %error, "take the newest policy");
        }
        let message_id = MessageId::new(self.services.fresh_id());
        let steps_max = self.steps_max(max_turns);
        let command = self.command_of(&content);
        // The waiting prompt keeps its own id.
        let prompt_id = protocol::PromptId::new("");
        let new =
            NewPrompt { prompt_id, message_id, content, steps_max, command, max_turns, options };
        self.apply_sure(Command::TakeNext(new));
        if let Err(refusal) = refused {
            self.apply_sure(Command::End(Ending::error(refusal.code.as_str(), refusal.message)));
            self.turn_is_over();
        }
        Ok(())
    }

    /// Enters the neuron of the session anew for the turn that begins: it may have been made again
    /// since the last one, or be gone.
    async fn enter_neuron(&mut self) -> Result<(), Refusal> {
        if self.state.neuron.is_none() {
            return Ok(());
        }
        match place::reopen(&self.services.options, Site::of(&self.state), &[]).await {
            Ok(workspace) => {
                self.workspace = workspace;
                Ok(())
            }
            Err(Error::Refusal(refusal)) => Err(refusal),
            Err(Error::Fault(fault)) => {
                tracing::error!(session = %self.id, %fault, "enter the neuron of a session");
                let message = "the neuron cannot be entered; see the log of Narthex";
                Err(Refusal::new(RefusalCode::NeuronNotRunning, message))
            }
        }
    }

    /// Reads the transcript where it is not at hand.
    pub(super) async fn load_transcript(&mut self) -> Result<(), StoreError> {
        if self.live.transcript.is_some() {
            return Ok(());
        }
        self.flush().await?;
        let (transcript, lost) =
            crate::engine::stored::transcript(&*self.services.options.store, &self.id, &self.state)
                .await?;
        self.live.transcript = Some(transcript);
        if lost > 0 {
            let message = format!(
                "the log is damaged: {} cannot be read, and the model does not know of what they \
                 said",
                stdx::plural(lost, "event")
            );
            let (level, code) = (NoticeLevel::Error, Some("log_damaged".to_owned()));
            self.apply_sure(Command::Notify(Notice { level, code, message }));
        }
        Ok(())
    }

    /// Returns the services that calls may use.
    pub(super) fn host(&self) -> Host {
        Host {
            services: Arc::clone(&self.services),
            session: self.id.clone(),
            neuron: self.state.neuron.clone(),
            seen: Arc::clone(&self.live.seen),
            policy: Arc::clone(&self.policy),
            cwd: self.workspace.cwd().to_path_buf(),
            homes: KnownHomes::of(&*self.workspace, self.services.options.user_home.as_deref()),
            asker: None,
        }
    }

    /// Begins a call whose start is durable; false when it is not at hand.
    fn start(&mut self, id: ToolCallId) -> bool {
        let found = self.state.call(&id).and_then(|call| self.tool(&call.tool));
        let facts = self.live.facts.remove(&id);
        let asked = self.live.asked.get(&id).cloned();
        let (Some(tool), Some(facts), Some(asked)) = (found, facts, asked) else {
            tracing::error!(session = %self.id, call = %id, "a call to run is not at hand");
            let name = self.state.call(&id).map(|call| call.tool.clone()).unwrap_or_default();
            self.wrong(&id, &name, "the call was lost inside: ask again".to_owned());
            return false;
        };
        let cancel = self.live.cancel.child_token();
        let asker = Asker::new(id.clone(), self.live.inquiries.sender(), cancel.clone());
        let host = Host { asker: Some(asker), ..self.host() };
        let context = ToolContext {
            call: id.clone(),
            workspace: Arc::clone(&self.workspace),
            host: Arc::new(host),
            // Replaced by the call's own queue when it runs.
            progress: mpsc::channel(1).0,
            cancel,
            spill_dir: self.spill_dir(),
            images: self.live.model.as_ref().is_some_and(|model| model.info().images),
        };
        let run = Run { tool, input: asked.input, facts, context };
        let services = Arc::clone(&self.services);
        let progress = self.live.progress.sender();
        self.live.running.insert(id.clone());
        self.live.effects.spawn(async move {
            let clock = Arc::clone(&services.options.clock);
            let begun = clock.elapsed();
            let running = std::panic::AssertUnwindSafe(run.run(services, progress));
            let outcome = futures_util::FutureExt::catch_unwind(running).await;
            let outcome = outcome.unwrap_or_else(|_| {
                driver_api::ToolOutcome::error("the tool broke inside; its outcome is unknown")
            });
            let took = clock.elapsed().saturating_sub(begun);
            Outcome::Ran { call: id, outcome, took }
        });
        true
    }
}
