//! Answering the mailbox.

use std::sync::Arc;

use driver_api::StoreError;
use policy::{Policy, Rule};
use protocol::event::PromptOptions;
use protocol::{Block, MessageId, Mode, Refusal, RefusalCode, RequestId};
use runtime_api::{AgentSettings, Error, Prompt, PromptAccepted, PromptPart, SessionInfo};

use super::Session;
use crate::engine::attachments::{self, ATTACHMENTS_MAX, Files, PROMPT_BYTES_MAX};
use crate::engine::gate::KnownHomes;
use crate::engine::mailbox::{Arrival, Message};
use crate::engine::output::Format;
use crate::engine::place;
use crate::engine::rules::{STEPS_MAX, session_policy};
use crate::engine::stored::{self, LogView};
use crate::kernel::{Command, NewPrompt};

/// Characters of the id of a request: what doors take of their callers.
const REQUEST_ID_CHARS_MAX: usize = 128;

impl Session {
    /// Answers one message. An asker that has gone is no reason to undo anything.
    pub(super) async fn handle(&mut self, message: Message) -> Result<(), StoreError> {
        match message {
            Message::Prompt(arrival, reply) => {
                let accepted = self.accept(*arrival);
                if accepted.is_ok()
                    && let Err(error) = self.drive_durably().await
                {
                    let _gone = reply.send(Err(stored::told(&error)));
                    return Err(error);
                }
                let _gone = reply.send(accepted);
            }
            Message::Interrupt(which, reply) => {
                let is_stopped = self.interrupt(&which);
                self.flush().await?;
                let _gone = reply.send(Ok(is_stopped));
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
            Message::Subscribe(..) | Message::View(_) | Message::Usage(_) | Message::Files(_) => {
                self.tell_facts(message).await?
            }
            Message::Close(..) => debug_assert!(false, "closing is handled by the loop"),
        }
        Ok(())
    }

    /// Answers a question that changes nothing. What is told is durable.
    async fn tell_facts(&mut self, message: Message) -> Result<(), StoreError> {
        self.flush().await?;
        match message {
            Message::Subscribe(position, overflow, reply) => {
                let subscription = self.subscribe(position, overflow).await?;
                let _gone = reply.send(Ok(subscription));
            }
            Message::View(reply) => {
                let log = LogView { view: self.state.view.clone(), last: self.state.seq };
                let _gone = reply.send(Ok(log));
            }
            Message::Usage(reply) => {
                let _gone = reply.send(Ok(stored::usage_of(&self.state)));
            }
            Message::Files(reply) => {
                let _gone = reply.send(Ok(self.files()));
            }
            _ => debug_assert!(false, "commands are handled by the caller"),
        }
        Ok(())
    }

    async fn drive_durably(&mut self) -> Result<(), StoreError> {
        self.drive().await?;
        self.flush().await
    }

    fn accept(&mut self, arrival: Arrival) -> Result<PromptAccepted, Error> {
        let Arrival { mut prompt, workspace } = arrival;
        if let Some(workspace) = workspace
            && self.state.turn.is_none()
        {
            self.workspace = workspace;
        }
        self.renew_policy()?;
        let (max_turns, options) = (prompt.max_turns, std::mem::take(&mut prompt.options));
        let options = self.checked_options(max_turns, options)?;
        let content = content_of(prompt)?;
        let prompt_id = self.fresh_prompt_id();
        let message_id = MessageId::new(self.services.fresh_id());
        let steps_max = self.steps_max(max_turns);
        let id = prompt_id.clone();
        let command = self.command_of(&content);
        let new =
            NewPrompt { prompt_id, message_id, content, steps_max, command, max_turns, options };
        self.apply(Command::Prompt(new))?;
        let position = self.state.queue.iter().position(|(queued, _)| *queued == id);
        let position = position.map_or(0, |index| u32::try_from(index + 1).unwrap_or(u32::MAX));
        Ok(PromptAccepted { prompt_id: id, position })
    }

    /// Returns how many steps a prompt may take: as many as it says, else as many as its session
    /// was created with, else as many as the agent's settings say.
    pub(super) fn steps_max(&self, wanted: Option<u32>) -> u32 {
        wanted.or(self.state.max_turns).unwrap_or(self.agent.limits.max_turns)
    }

    /// Checks what a prompt asks for besides what it says.
    fn checked_options(
        &self,
        max_turns: Option<u32>,
        options: PromptOptions,
    ) -> Result<PromptOptions, Refusal> {
        let PromptOptions { model, output, request_id } = options;
        let invalid = |message: String| Err(Refusal::new(RefusalCode::Invalid, message));
        let model = model.map(|name| self.allowed_model(&name)).transpose()?;
        if max_turns.is_some_and(|steps| !(1..=STEPS_MAX).contains(&steps)) {
            return invalid(format!("max_turns: expected 1 to {STEPS_MAX}"));
        }
        let output = output.map(Format::new).transpose()?.map(|format| format.asked);
        let length = request_id.as_ref().map(|id| id.chars().count());
        if length.is_some_and(|length| !(1..=REQUEST_ID_CHARS_MAX).contains(&length)) {
            return invalid(format!("request_id: expected 1 to {REQUEST_ID_CHARS_MAX} characters"));
        }
        Ok(PromptOptions { model, output, request_id })
    }

    /// Finds the full name of a model that the policy allows.
    fn allowed_model(&self, name: &str) -> Result<String, Refusal> {
        let id = self.services.options.models.resolve(name)?.info().id.clone();
        self.policy.check_model(&id)?;
        Ok(id)
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
            // The policy knows a tool by all of its names.
            let covers = |facts: &driver_api::CallFacts| {
                let covers = |_: &Policy, _, call: &policy::Call<'_>| Policy::covers(&rule, call);
                self.judging(&spill).with(&call.tool, facts, covers)
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
        self.renew_policy()?;
        self.policy.check_mode(mode)?;
        self.apply(Command::SetMode(mode))?;
        self.settle_covered();
        Ok(())
    }

    pub(super) fn set_model(&mut self, name: &str) -> Result<(), Error> {
        self.renew_policy()?;
        let id = self.allowed_model(name)?;
        self.apply(Command::SetModel(id))?;
        Ok(())
    }

    /// Takes the layers above that were put in place of the old ones. Not while a turn runs: what
    /// it may do does not change under its hands.
    pub(super) fn renew_policy(&mut self) -> Result<(), Error> {
        let above = self.services.options.policies.above(self.agent.policy.as_ref());
        if self.state.turn.is_some() || Arc::ptr_eq(&above, &self.above) {
            return Ok(());
        }
        let policy = session_policy(&above, &self.agent, &self.state)?;
        (self.above, self.policy) = (above, Arc::new(policy));
        Ok(())
    }

    /// Takes new flags: they count from the next step on.
    pub(super) async fn configure(&mut self, agent: AgentSettings) -> Result<(), Error> {
        let options = &self.services.options;
        let above = options.policies.above(agent.policy.as_ref());
        let policy = session_policy(&above, &agent, &self.state)?;
        let is_elsewhere = agent.roots != self.agent.roots || agent.lender != self.agent.lender;
        if is_elsewhere && self.state.neuron.is_none() {
            let opened = options.workspaces.open(&self.state.cwd, &agent.roots).await;
            let own = opened.map_err(place::unfit)?;
            self.workspace = place::with_client(options, &agent, &self.id, own);
        }
        (self.above, self.policy) = (above, Arc::new(policy));
        self.face.configure(&agent);
        self.agent = agent;
        Ok(())
    }

    /// Returns the files that a prompt may attach.
    fn files(&self) -> Files {
        Files {
            workspace: Arc::clone(&self.workspace),
            policy: Arc::clone(&self.policy),
            mode: self.state.mode,
            homes: KnownHomes::of(&*self.workspace, self.services.options.user_home.as_deref()),
        }
    }

    /// Returns what one sees from outside.
    pub(crate) fn info(&self) -> SessionInfo {
        let head = crate::engine::outbox::head_of(&self.state);
        let (model, window) = &self.live.window;
        SessionInfo {
            context_tokens: self.state.tokens(),
            context_window: window.filter(|_| *model == self.state.model),
            usage: self.state.usage,
            last_seq: self.state.seq.0,
            updated_at: self.live.updated_at,
            is_open: true,
            neuron: self.state.neuron.clone(),
            sandbox: self.state.sandbox,
            steps: self.state.steps,
            queued: stored::count(self.state.queue.len()),
            pending: stored::count(self.state.waits().count()),
            last_frame: self.last_frame(),
            ..stored::info(&self.id, &self.state.cwd, head, self.created_at)
        }
    }
}

fn content_of(prompt: Prompt) -> Result<Vec<Block>, Error> {
    let invalid = |message: String| Err(Refusal::new(RefusalCode::Invalid, message).into());
    let mut bytes = 0;
    let mut attached = 0;
    let mut content = Vec::with_capacity(prompt.parts.len());
    for part in prompt.parts {
        match part {
            PromptPart::Text(text) => {
                bytes += text.len();
                content.push(Block::text(text));
            }
            PromptPart::Image(image) => {
                bytes += image.data.len();
                content.push(Block::Image(attachments::named_truly(attached, image)?));
                attached += 1;
            }
            PromptPart::File(path) => {
                let message = format!("attachments: {path} was not read before the prompt came");
                return Err(driver_api::Fault::new(message).into());
            }
        }
    }
    if bytes > PROMPT_BYTES_MAX {
        return Err(attachments::too_large(bytes).into());
    }
    if attached > ATTACHMENTS_MAX {
        return Err(attachments::too_many(attached).into());
    }
    content.retain(|block| !block.is_blank());
    if content.is_empty() {
        return invalid("text: the prompt is empty".to_owned());
    }
    Ok(content)
}
