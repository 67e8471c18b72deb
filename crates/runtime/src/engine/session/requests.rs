//! Answering the mailbox.

use std::collections::VecDeque;
use std::sync::Arc;

use driver_api::StoreError;
use policy::{Layer, LayerName, Policy, Rule};
use protocol::event::SessionEnd;
use protocol::{Block, Event, EventBody, MessageId, Mode, Refusal, RefusalCode, RequestId, Seq};
use runtime_api::{
    AgentSettings, Delivery, Error, Overflow, Position, Prompt, PromptAccepted, PromptPart,
    SessionInfo, Subscription,
};

use super::Session;
use crate::engine::mailbox::Message;
use crate::engine::stored;
use crate::kernel::{Command, Ending, NewPrompt};

/// Bytes of text in a prompt.
const PROMPT_BYTES_MAX: usize = 25 * 1024 * 1024;

/// Attachments of a prompt.
const ATTACHMENTS_MAX: usize = 20;

/// How many recorded events a new viewer is given at most.
const REPLAY_MAX: u64 = 1_000;

impl Session {
    /// Answers one message. An asker that has gone is no reason to undo anything.
    pub(super) async fn handle(&mut self, message: Message) -> Result<(), StoreError> {
        match message {
            Message::Prompt(prompt, reply) => {
                let accepted = self.accept(prompt);
                if accepted.is_ok()
                    && let Err(error) = self.drive_durably().await
                {
                    let _gone = reply.send(Err(stored::told(&error)));
                    return Err(error);
                }
                let _gone = reply.send(accepted);
            }
            Message::Interrupt { clear_queue, reply } => {
                let is_running = self.state.turn.is_some();
                if clear_queue {
                    self.apply_sure(Command::ClearQueue);
                }
                if is_running {
                    self.stop();
                }
                self.flush().await?;
                let _gone = reply.send(Ok(is_running));
            }
            Message::Answer(request, answer, reply) => {
                let answered = self.answer(&request, answer).await;
                self.flush().await?;
                let _gone = reply.send(answered);
            }
            Message::Undo(how, reply) => {
                let went_back = self.undo(how).await;
                let _gone = reply.send(went_back);
            }
            Message::Rewind(point, scope, how, reply) => {
                let went_back = self.rewind(&point, scope, how).await;
                let _gone = reply.send(went_back);
            }
            Message::SetMode(mode, reply) => {
                let changed = self.set_mode(mode);
                self.flush().await?;
                let _gone = reply.send(changed);
            }
            Message::SetModel(name, reply) => {
                let changed = self.set_model(&name);
                self.flush().await?;
                let _gone = reply.send(changed);
            }
            Message::Configure(agent, reply) => {
                self.flush().await?;
                let configured = self.configure(*agent).await.map(|()| self.info());
                let _gone = reply.send(configured);
            }
            Message::Subscribe(position, overflow, reply) => {
                let subscription = self.subscribe(position, overflow).await?;
                let _gone = reply.send(Ok(subscription));
            }
            Message::Info(reply) => {
                self.flush().await?;
                let _gone = reply.send(Ok(self.info()));
            }
            Message::Close(..) => debug_assert!(false, "closing is handled by the loop"),
        }
        Ok(())
    }

    async fn drive_durably(&mut self) -> Result<(), StoreError> {
        self.drive().await?;
        self.flush().await
    }

    fn accept(&mut self, prompt: Prompt) -> Result<PromptAccepted, Error> {
        let content = content_of(prompt)?;
        let prompt_id = self.fresh_prompt_id();
        let message_id = MessageId::new(self.services.fresh_id());
        let steps_max = self.agent.limits.max_turns;
        let id = prompt_id.clone();
        let command = self.command_of(&content);
        let new = NewPrompt { prompt_id, message_id, content, steps_max, command };
        self.apply(Command::Prompt(new))?;
        let position = self.state.queue.iter().position(|(queued, _)| *queued == id);
        let position = position.map_or(0, |index| u32::try_from(index + 1).unwrap_or(u32::MAX));
        Ok(PromptAccepted { prompt_id: id, position })
    }

    /// Tells everything that runs to stop; the turn ends in that way when it has.
    pub(super) fn stop_with(&mut self, ending: Ending) {
        if self.live.stopping_since.is_none() {
            self.live.stop_as = Some(ending);
            self.stop();
        }
    }

    /// Tells everything that runs to stop; the turn ends when it has.
    fn stop(&mut self) {
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

    /// Returns the rule of an "always": the given one if it parses, else the narrowest that was
    /// suggested.
    pub(super) fn rule_for(
        &self,
        request: &RequestId,
        given: Option<String>,
    ) -> Result<String, Error> {
        let call = self.state.waiting_call(request).ok_or_else(|| {
            Refusal::new(RefusalCode::RequestNotFound, format!("no request {request} waits"))
        })?;
        let facts = self.live.facts.get(&call.id);
        if let Some(text) = given {
            let rule = text
                .parse::<Rule>()
                .map_err(|error| Refusal::new(RefusalCode::Invalid, format!("rule: {error}")))?;
            let spill = self.spill_dir();
            let name = self.services.tool(&call.tool).map(|tool| tool.spec().name.clone());
            let name = name.unwrap_or_else(|| call.tool.clone());
            let covers = |facts: &driver_api::CallFacts| {
                self.judging(&spill).with(&name, facts, |_, _, call| Policy::covers(&rule, call))
            };
            if !facts.is_none_or(covers) {
                let message = format!("rule: {rule} does not cover this call");
                return Err(Refusal::new(RefusalCode::Invalid, message).into());
            }
            return Ok(text);
        }
        let suggested = facts.map(|facts| self.suggest(&call.tool, facts)).unwrap_or_default();
        suggested.into_iter().next().ok_or_else(|| {
            let message = "rule: name one, none can be suggested for this call";
            Refusal::new(RefusalCode::Invalid, message).into()
        })
    }

    fn suggest(&self, tool: &str, facts: &driver_api::CallFacts) -> Vec<String> {
        let spill = self.spill_dir();
        self.judging(&spill).with(tool, facts, |policy, _, call| policy.suggest(call))
    }

    pub(super) fn set_mode(&mut self, mode: Mode) -> Result<(), Error> {
        self.policy.check_mode(mode)?;
        self.apply(Command::SetMode(mode))?;
        self.settle_covered();
        Ok(())
    }

    pub(super) fn set_model(&mut self, name: &str) -> Result<(), Error> {
        let model = self.services.options.models.resolve(name)?;
        let id = model.info().id.clone();
        self.policy.check_model(&id)?;
        self.apply(Command::SetModel(id))?;
        Ok(())
    }

    /// Takes new flags: they count from the next step on.
    pub(super) async fn configure(&mut self, agent: AgentSettings) -> Result<(), Error> {
        let options = &self.services.options;
        let policy = session_policy(&options.policy, &agent, &self.state.rules)?;
        if agent.roots != self.agent.roots {
            let opened = options.workspaces.open(&self.state.cwd, &agent.roots).await;
            self.workspace = opened.map_err(crate::engine::opening::unfit)?;
        }
        self.policy = Arc::new(policy);
        self.agent = agent;
        Ok(())
    }

    async fn subscribe(
        &mut self,
        position: Position,
        overflow: Overflow,
    ) -> Result<Subscription, StoreError> {
        self.flush().await?;
        let from = match position {
            Position::Live => self.state.seq.next(),
            Position::After(seq) => seq.next(),
            Position::From(seq) => seq,
            Position::AfterFrame(_) => Seq(1),
        };
        let oldest = Seq(self.state.seq.0.saturating_sub(REPLAY_MAX) + 1);
        let mut backlog = VecDeque::new();
        let start = from.max(oldest);
        let events = self.recorded(start).await?;
        let is_gap = match position {
            // The frames tell: whoever has seen the first of these has seen all before.
            Position::AfterFrame(seen) => events.first().is_some_and(|first| first.frame > seen),
            Position::Live | Position::After(_) | Position::From(_) => true,
        };
        if from < oldest && is_gap {
            backlog.push_back(Delivery::Gap { dropped: oldest.0 - from.0.max(1) });
        }
        for event in events {
            if !matches!(position, Position::AfterFrame(frame) if event.frame <= frame) {
                backlog.push_back(Delivery::Event(event));
            }
        }
        Ok(self.viewers.add(backlog, overflow))
    }

    /// Returns the recorded events from a position on, from memory where they are at hand.
    async fn recorded(&self, start: Seq) -> Result<Vec<Arc<Event>>, StoreError> {
        if start > self.state.seq {
            return Ok(Vec::new());
        }
        let recent = &self.live.recent;
        let is_at_hand = |(first, _): &(Arc<Event>, usize)| first.seq <= Some(start);
        if recent.front().is_some_and(is_at_hand) {
            let events = recent.iter().map(|(event, _)| Arc::clone(event));
            return Ok(events.filter(|event| event.seq >= Some(start)).collect());
        }
        let limit = usize::try_from(REPLAY_MAX).unwrap_or(usize::MAX);
        let rows = self.services.options.store.read(&self.id, start, limit).await?;
        let events = rows.into_iter().filter_map(|row| {
            let body = EventBody::decode(row.kind, &row.body).ok()?;
            let (session_id, seq) = (self.id.clone(), Some(row.seq));
            Some(Arc::new(Event { body, session_id, seq, frame: row.frame, ts: row.at }))
        });
        Ok(events.collect())
    }

    /// Returns what one sees from outside.
    pub(super) fn info(&self) -> SessionInfo {
        let head = crate::engine::outbox::head_of(&self.state);
        let model = self.services.options.models.resolve(&self.state.model).ok();
        SessionInfo {
            context_tokens: self.state.tokens(),
            context_window: model.and_then(|model| model.info().context_window),
            usage: self.state.usage,
            last_seq: self.state.seq.0,
            updated_at: self.live.updated_at,
            ..stored::info(&self.id, &self.state.cwd, head, self.created_at)
        }
    }

    /// Tells whether the turn does nothing but wait for a person.
    fn is_only_waiting(&self) -> bool {
        let live = &self.live;
        let is_quiet = live.running.is_empty() && live.asking.is_none() && live.vetting.is_empty();
        self.state.is_waiting() && is_quiet && live.stopping_since.is_none()
    }

    /// Stops the turn, waits for its end, and says in the log that the session was closed.
    pub(crate) async fn close(&mut self, reason: SessionEnd) -> Result<(), StoreError> {
        self.live.is_closing = true;
        if reason == SessionEnd::Shutdown && self.is_only_waiting() {
            // Whoever opens the session next asks again: the request is in the log.
            self.flush().await?;
            self.snapshot(1).await?;
            return self.services.options.store.release(&self.lease).await;
        }
        if reason != SessionEnd::Shutdown {
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
            let clock = Arc::clone(&self.services.options.clock);
            let grace = self.stop_grace();
            tokio::select! {
                Some(outcome) = self.live.effects.join_next() => match outcome {
                    Ok(outcome) => self.settle(outcome).await?,
                    Err(error) => self.broken(&error).await?,
                },
                Some((call, piece)) = self.live.progress.1.recv() => {
                    self.progress(call, piece).await?;
                }
                () = clock.sleep(grace.unwrap_or_default()), if grace.is_some() => {
                    self.abandon().await?;
                }
            }
        }
        self.finish_recording().await?;
        self.apply_sure(Command::Close(reason));
        self.flush().await?;
        self.snapshot(200).await?;
        self.services.options.store.release(&self.lease).await
    }
}

/// Combines the layers above with the session's own rules.
pub(crate) fn session_policy(
    base: &Policy,
    agent: &AgentSettings,
    always: &[String],
) -> Result<Policy, Error> {
    let parse = |name: &str, rules: &[String]| -> Result<Vec<Rule>, Error> {
        Rule::parse_all(rules)
            .map_err(|error| Refusal::new(RefusalCode::Invalid, format!("{name}: {error}")).into())
    };
    let mut flags = Layer::new(LayerName::Flags);
    flags.allow = parse("allow", &agent.allow)?;
    flags.deny = parse("deny", &agent.deny)?;
    let mut session = Layer::new(LayerName::Session);
    session.allow = parse("rule", always)?;
    Ok(base.clone().tighten(session).tighten(flags))
}

fn content_of(prompt: Prompt) -> Result<Vec<Block>, Error> {
    let invalid = |message: String| Err(Refusal::new(RefusalCode::Invalid, message).into());
    let mut bytes = 0;
    let mut attachments = 0;
    let mut content = Vec::with_capacity(prompt.parts.len());
    for part in prompt.parts {
        match part {
            PromptPart::Text(text) => {
                bytes += text.len();
                content.push(Block::text(text));
            }
            PromptPart::Image(image) => {
                attachments += 1;
                bytes += image.data.len();
                content.push(Block::Image(image));
            }
        }
    }
    if bytes > PROMPT_BYTES_MAX {
        let (is, max) = (stdx::bytes(bytes as u64), stdx::bytes(PROMPT_BYTES_MAX as u64));
        let message = format!("text: the prompt has {is}, the limit is {max}");
        return Err(Refusal::new(RefusalCode::TooLarge, message).into());
    }
    if attachments > ATTACHMENTS_MAX {
        return invalid(format!("attachments: {attachments} are more than {ATTACHMENTS_MAX}"));
    }
    content.retain(|block| !block.is_blank());
    if content.is_empty() {
        return invalid("text: the prompt is empty".to_owned());
    }
    Ok(content)
}
