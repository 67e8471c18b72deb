//! Carrying a turn on that a crash cut: its calls are read from the log again.

use driver_api::StoreError;
use protocol::event::ToolCall;
use protocol::{Block, EventBody, ToolCallId};

use super::{Asked, Session};
use crate::engine::gate::{Examined, examine};
use crate::engine::stored::Reading;
use crate::kernel::{CallStage, Command, OUTCOME_UNKNOWN, said};

/// What the model reads when a call that a person allowed means something else by now.
const CHANGED: &str = "not run: what this call touches has changed since it was allowed. Look \
     again, and ask anew if it is still right.";

/// What the model reads about a call that was allowed and had not begun.
const NOT_BEGUN: &str = "not run: the program ended before this call began. Ask again if it is \
     still right.";

/// What viewers read when a model call begins anew that the program had not seen to its end.
const RESTARTED: &str = "the program was started again in the middle of the answer";

impl Session {
    /// Reads what the calls of the running step ask for, looks up what they are about, and
    /// answers those that may have had an effect when the program died.
    pub(crate) async fn resume(&mut self) -> Result<(), StoreError> {
        let Some(turn) = &self.state.turn else { return Ok(()) };
        if turn.step > 0 && !turn.is_answered {
            // The model is asked again: viewers must not take its new pieces for more of the old.
            let (attempt, delay_ms) = (1, 0);
            let (reason, partial_text) = (RESTARTED.to_owned(), String::new());
            self.apply_sure(Command::Retry { attempt, delay_ms, reason, partial_text });
        }
        let Some(turn) = &self.state.turn else { return Ok(()) };
        if turn.calls.is_empty() {
            return Ok(());
        }
        let mut recorded: Vec<ToolCall> = Vec::new();
        let mut reading = Reading::new(turn.step_seq, self.state.seq);
        while let Some(page) = reading.page(&*self.services.options.store, &self.id).await? {
            for row in page {
                match EventBody::decode(row.kind, &row.body) {
                    Ok(EventBody::AssistantMessage(message)) => self.take_asked(&message.content),
                    Ok(EventBody::ToolCall(call)) => {
                        recorded.push(call);
                    }
                    _ => {}
                }
            }
        }
        let calls = self.state.turn.as_ref().map(|turn| turn.calls.clone()).unwrap_or_default();
        for call in calls {
            match call.stage {
                CallStage::Started(effect) if effect > protocol::Effect::Interact => {
                    let result = said(call.id, call.tool, OUTCOME_UNKNOWN, true);
                    self.apply_sure(Command::Finish(result));
                }
                // Its question died with the process: nobody waits for the answer.
                CallStage::Asking(_, effect) if effect > protocol::Effect::Interact => {
                    let result = said(call.id, call.tool, OUTCOME_UNKNOWN, true);
                    self.apply_sure(Command::Finish(result));
                }
                CallStage::Asking(wait, _) => {
                    self.dismiss(wait.request);
                    let shown = recorded.iter().find(|shown| shown.tool_call_id == call.id);
                    self.look_up(&call.id, &call.tool, shown).await;
                }
                CallStage::Requested | CallStage::Over => {}
                // It had not begun, and what let it run then need not let it run now.
                CallStage::Described(_) => {
                    self.apply_sure(Command::Finish(said(call.id, call.tool, NOT_BEGUN, true)));
                }
                CallStage::Waiting(..) | CallStage::Allowed(_) | CallStage::Started(_) => {
                    let shown = recorded.iter().find(|shown| shown.tool_call_id == call.id);
                    self.look_up(&call.id, &call.tool, shown).await;
                }
            }
        }
        Ok(())
    }

    fn take_asked(&mut self, content: &[Block]) {
        for block in content {
            if let Block::ToolUse { id, input, malformed, .. } = block {
                let asked = Asked {
                    input: input.clone(),
                    malformed: malformed.clone(),
                    paths: Vec::new(),
                    judged: None,
                };
                self.live.asked.insert(id.clone(), asked);
            }
        }
    }

    /// Looks up again what a call is about. One that touches something else than what was shown
    /// to the person who allowed it is not run.
    async fn look_up(&mut self, id: &ToolCallId, name: &str, shown: Option<&ToolCall>) {
        let tool = self.tool(name);
        if let (Some(tool), Some(shown)) = (tool, shown) {
            if let Some(asked) = self.live.asked.get_mut(id) {
                // Hooks may have changed what the model asked for; the log has what was shown.
                asked.input.clone_from(&shown.input);
                asked.paths.clone_from(&shown.target.paths);
            }
            let schema = self.services.toolbox.schema(&*tool);
            let examined = examine(&*tool, &schema, id, &shown.input, &*self.workspace).await;
            if let Examined::Described(described) = examined
                && described.0.target == shown.target
            {
                self.live.facts.insert(id.clone(), described.1);
                // What hooks said of it is not known any more.
                self.live.held.insert(id.clone());
                return;
            }
        }
        if let Some(request) = self.waiting_request(id) {
            return self.withdraw(request);
        }
        self.apply_sure(Command::Finish(said(id.clone(), name.to_owned(), CHANGED, true)));
    }

    fn waiting_request(&self, id: &ToolCallId) -> Option<protocol::RequestId> {
        match &self.state.call(id)?.stage {
            CallStage::Waiting(wait, _) => Some(wait.request.clone()),
            _ => None,
        }
    }

    /// Decides a request that nobody need answer any more.
    fn withdraw(&mut self, request: protocol::RequestId) {
        use protocol::event::{Answer, DecidedBy};
        let Some(kind) = self.state.wait(&request).map(|wait| wait.kind) else { return };
        let answer = match kind {
            protocol::event::InteractionKind::Permission => Answer::Deny { feedback: None },
            protocol::event::InteractionKind::Question => Answer::Dismissed,
            protocol::event::InteractionKind::Plan => Answer::Rejected { feedback: None },
        };
        let (by, rule) = (DecidedBy::Policy, None);
        let told = CHANGED.to_owned();
        let decided = crate::kernel::Decided { request, answer, by, rule, told, is_host: false };
        self.apply_sure(Command::Resolve(decided));
    }
}
