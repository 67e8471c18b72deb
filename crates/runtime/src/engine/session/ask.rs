//! Asking the model for the step that is owed.

use std::sync::Arc;
use std::time::Duration;

use driver_api::{Model, ModelError, ModelErrorKind, ModelResponse, StoreError};
use futures_util::FutureExt;
use protocol::event::{Notice, NoticeLevel};
use protocol::{Block, EventBody, MessageId, Seq, StopReason, ToolCallId};
use tokio::sync::mpsc;

use super::{Asked, LIVE, Outcome, Session};
use crate::engine::asking::{Next, hopeless, overflow, request};
use crate::engine::context;
use crate::kernel::{Command, Ending, ModelAnswer, TOO_LONG, id_hash};

/// The longest id of a call that is kept as the provider gave it.
const CALL_ID_MAX: usize = 64;

impl Session {
    /// Begins a model call. Its step may still be on its way to the log.
    pub(super) async fn ask_model(&mut self) -> Result<(), StoreError> {
        let resolved = self.services.options.models.resolve(self.state.model_now());
        // A policy may have come since the session chose its model.
        let allowed = resolved.and_then(|model| {
            self.policy.check_model(&model.info().id)?;
            Ok(model)
        });
        let model = match allowed {
            Ok(model) => model,
            Err(refusal) => {
                let ending = Ending::error(refusal.code.as_str(), refusal.message);
                self.apply_sure(Command::End(ending));
                self.turn_is_over();
                return Ok(());
            }
        };
        self.renew_offer();
        self.load_transcript().await?;
        self.set_context().await?;
        let format = self.format().await?;
        if self.state.turn.as_ref().is_some_and(|turn| turn.step == 1) {
            // Once a model has heard a prompt, no crash may forget it.
            self.flush().await?;
        }
        let Some(transcript) = &self.live.transcript else { return Ok(()) };
        let system = transcript.system().unwrap_or_else(|| "".into());
        let tools = Arc::clone(&self.live.offer.specs);
        let mut request = request(transcript, system, tools, self.id.as_str());
        request.output = format.map(|format| format.asked.clone());
        if let Some(message) = hopeless(&self.state, &request, model.info()) {
            self.is_too_long(message);
            return Ok(());
        }
        if self.compact_first(&model, &request).await? {
            return Ok(());
        }
        if let Some(message) = overflow(&self.state, &request, model.info()) {
            self.is_too_long(message);
            return Ok(());
        }
        if !self.reserve(&*model, &mut request).await? {
            return Ok(());
        }
        self.live.model = Some(Arc::clone(&model));
        let (sender, receiver) = mpsc::channel(LIVE);
        self.live.deltas = Some(receiver);
        self.live.partial.clear();
        let asking = self.live.effects.spawn(async move {
            let asked = std::panic::AssertUnwindSafe(model.ask(&request, sender));
            let answer = asked.catch_unwind().await;
            Outcome::Answered(answer.unwrap_or_else(|_| {
                let text = "the model driver broke inside";
                Err(ModelError::new(ModelErrorKind::Rejected, text))
            }))
        });
        self.live.asking = Some(asking);
        self.live.is_prepare_due = true;
        Ok(())
    }

    /// Ends the turn whose request does not fit.
    pub(super) fn is_too_long(&mut self, message: String) {
        self.apply_sure(Command::End(Ending::error(TOO_LONG, message)));
        self.turn_is_over();
    }

    /// Builds and records what the model is told before the transcript, once per session.
    async fn set_context(&mut self) -> Result<(), StoreError> {
        let is_set = self.live.transcript.as_ref().is_some_and(|t| t.system().is_some());
        if is_set {
            return Ok(());
        }
        let now = self.services.options.clock.now();
        let own = self.own_words().await?;
        let appended = [own.as_deref(), self.agent.append_system_prompt.as_deref()];
        let system = context::build(&*self.workspace, now, &appended).await;
        self.apply_sure(Command::SetContext { system });
        Ok(())
    }

    /// Returns the session's own text for the system prompt, which its first event holds.
    async fn own_words(&mut self) -> Result<Option<String>, StoreError> {
        if !self.state.has_own_words {
            return Ok(None);
        }
        self.flush().await?;
        let first = self.services.options.store.read(&self.id, Seq(1), 1).await?.pop();
        let body = first.and_then(|row| EventBody::decode(row.kind, &row.body).ok());
        Ok(match body {
            Some(EventBody::SessionStart(start)) => start.append_system_prompt,
            _ => None,
        })
    }

    /// Takes an answer.
    pub(super) fn answered(&mut self, model: &dyn Model, response: ModelResponse) {
        let ModelResponse { content, stop, usage } = response;
        self.live.attempts = crate::engine::asking::Attempts::default();
        self.live.compacting.answered();
        self.live.partial.clear();
        let content = self.take_calls(content);
        let has_calls = content.iter().any(|block| matches!(block, Block::ToolUse { .. }));
        let cost_usd = model.info().price.map(|price| price.of(&usage));
        let message_id = MessageId::new(self.services.fresh_id());
        self.settle_spending(&usage, cost_usd);
        let model = model.info().id.clone();
        let answer = ModelAnswer { message_id, content, stop, usage, cost_usd, model };
        self.apply_sure(Command::Answered(answer));
        let told = match stop {
            StopReason::MaxTokens if !has_calls => "the answer was cut at the model's output limit",
            StopReason::Refusal => "the model or its provider declined to answer",
            _ => return,
        };
        let code = Some(if stop == StopReason::Refusal { "refusal" } else { "max_tokens" }.into());
        let (level, message) = (NoticeLevel::Warn, told.to_owned());
        self.apply_sure(Command::Notify(Notice { level, code, message }));
    }

    /// Gives every call an id that is unique in the session and that any provider accepts, and
    /// keeps what the calls ask for at hand.
    fn take_calls(&mut self, mut content: Vec<Block>) -> Vec<Block> {
        let mut fresh = std::collections::BTreeSet::new();
        let mut renamed = 0;
        self.live.asked.clear();
        for block in &mut content {
            let Block::ToolUse { id, input, malformed, .. } = block else { continue };
            let is_new = |hash: &u64| !self.state.call_ids.contains(hash) && !fresh.contains(hash);
            if !is_sound(id.as_str()) || !is_new(&id_hash(id.as_str())) {
                *id = ToolCallId::new(format!("call_{}", self.services.fresh_id()));
                renamed += 1;
            }
            fresh.insert(id_hash(id.as_str()));
            let asked = Asked {
                input: input.clone(),
                malformed: malformed.clone(),
                paths: Vec::new(),
                judged: None,
            };
            self.live.asked.insert(id.clone(), asked);
        }
        if renamed > 0 {
            let message = format!(
                "the model gave {} an id that was empty, repeated or not well formed; a fresh one \
                 took its place",
                stdx::plural(renamed, "call")
            );
            let (level, code) = (NoticeLevel::Info, Some("repaired".to_owned()));
            self.apply_sure(Command::Notify(Notice { level, code, message }));
        }
        content
    }

    /// Decides what follows a failed call.
    pub(super) fn model_failed(&mut self, error: ModelError) {
        self.live.reservation = None;
        let now = self.services.options.clock.elapsed();
        let budget = Duration::from_millis(self.agent.limits.retry_budget_ms);
        let random = self.services.options.ids.random();
        let partial = std::mem::take(&mut self.live.partial);
        let told = error.partial_text.clone();
        let partial = if told.is_empty() { partial } else { told };
        match self.live.attempts.after(&error, now, budget, random) {
            Next::Retry(pause) => {
                let delay_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                let attempt = self.live.attempts.failed;
                let (reason, partial_text) = (error.message, partial);
                self.apply_sure(Command::Retry { attempt, delay_ms, reason, partial_text });
                let clock = Arc::clone(&self.services.options.clock);
                let pausing = self.live.effects.spawn(async move {
                    clock.sleep(pause).await;
                    Outcome::PauseOver
                });
                self.live.asking = Some(pausing);
            }
            Next::GiveUp => {
                let message = match error.retry_after {
                    Some(asked) => format!(
                        "{}; the provider asks to wait {}",
                        error.message,
                        stdx::duration(asked)
                    ),
                    None => error.message,
                };
                let mut ending = Ending::error(error.kind.code(), message);
                ending.partial = Some((MessageId::new(self.services.fresh_id()), partial));
                self.apply_sure(Command::End(ending));
                self.turn_is_over();
            }
        }
    }
}

fn is_sound(id: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !id.is_empty() && id.len() <= CALL_ID_MAX && id.bytes().all(is_letter)
}
