//! Summarising a conversation that becomes too long, by itself or because a person wants it.
//!
//! The summary is written beside the session's task: a stop hangs it up as it does any model
//! call, and nothing else is asked of the model meanwhile. Whatever goes wrong, the conversation
//! is shorter afterwards or as it was, and the session goes on.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use driver_api::{
    Happening, HookAnswer, HookPlace, HookVote, Model, ModelError, ModelErrorKind, ModelInfo,
    ModelRequest, ModelResponse, Moment, StoreError, Workspace,
};
use futures_util::FutureExt;
use protocol::event::{Compacted, Notice, NoticeLevel};
use protocol::{Block, EventBody, Message, MessageId, Mode, Role, SessionId, StopReason, Usage};
use tokio::sync::mpsc;

use super::{Outcome, Session};
use crate::engine::asking::{Attempts, Next};
use crate::engine::compaction::{
    Frame, Parts, Plan, Record, compose, instruction, plan, put_together, shorten,
};
use crate::engine::options::Services;
use crate::engine::{stored, weight};
use crate::kernel::{Command, Ending, text_of};

/// How long a failing provider is asked again for a summary. Short: one can be put together
/// without it.
const RETRY_BUDGET: Duration = Duration::from_secs(30);

/// How long a summary may take altogether.
const SUMMARY_TIME_MAX: Duration = Duration::from_secs(180);

/// How often a turn summarises because the provider said that its request is too long.
const OVERFLOWS_MAX: u32 = 2;

/// How often in a row, without an answer in between, a turn summarises by itself.
const IN_A_ROW_MAX: u32 = 2;

/// After how many summaries in a row that free next to nothing a turn ends.
const VAIN_MAX: u32 = 2;

/// How many files a summary names.
const FILES_MAX: usize = 100;

/// The code of a turn that cannot be made to fit.
const STUCK: &str = "compaction_stuck";

/// What a turn has done about its length so far.
#[derive(Debug, Default)]
pub(super) struct Compacting {
    /// How often the provider said that the request is too long.
    overflows: u32,
    /// What it said last, until that was seen to.
    overflow: Option<String>,
    /// How many summaries were made since the last answer.
    in_a_row: u32,
}

impl Compacting {
    /// The model has answered.
    pub(super) fn answered(&mut self) {
        self.in_a_row = 0;
    }
}

/// What came of a summary.
#[derive(Debug)]
pub(super) struct Summarised {
    plan: Plan,
    frame: Frame,
    parts: Parts,
    model: ModelInfo,
    hooks: Option<HookAnswer>,
    usage: Option<Usage>,
    written: Written,
}

/// What was written.
#[derive(Debug)]
enum Written {
    /// A summary.
    Summary(String),
    /// None, for this reason.
    Failed(String),
    /// None, because a hook said no.
    Forbidden(String),
}

/// Writing a summary: what it needs of the session, as it was when it began.
struct Work {
    services: Arc<Services>,
    session: SessionId,
    workspace: Arc<dyn Workspace>,
    mode: Mode,
    model: Arc<dyn Model>,
    request: ModelRequest,
    focus: Option<String>,
    is_automatic: bool,
}

impl Session {
    /// Summarises before a model call where that is due. True when the call has to wait for it,
    /// or the turn is over or waits for a person.
    pub(super) async fn compact_first(
        &mut self,
        model: &Arc<dyn Model>,
        request: &ModelRequest,
    ) -> Result<bool, StoreError> {
        let settings = self.agent.compaction;
        let overflow = self.live.compacting.overflow.take();
        let size = self.size_of(request);
        let known = model.info().context_window;
        let is_near = known.is_some_and(|window| {
            u128::from(size) * 100 >= u128::from(window) * u128::from(settings.at_percent.min(100))
        });
        if !settings.is_automatic || (overflow.is_none() && !is_near) {
            return Ok(false);
        }
        if self.state.turn.as_ref().is_some_and(|turn| turn.vain_compactions >= VAIN_MAX) {
            let message = format!(
                "the conversation was summarised {VAIN_MAX} times and is as long as before, about \
                 {size} tokens: start a new session, or use a model with a larger window"
            );
            self.apply_sure(Command::End(Ending::error(STUCK, message)));
            self.turn_is_over();
            return Ok(true);
        }
        if overflow.is_none() && self.live.compacting.in_a_row >= IN_A_ROW_MAX {
            return Ok(false);
        }
        // What was refused as too long shows how much the model really reads.
        let window = known.map_or(size, |window| match overflow.is_some() {
            true => window.min(size),
            false => window,
        });
        let fixed = weight::fixed(request);
        let frame = Frame { last: self.state.seq, size, fixed, window, is_automatic: true };
        match (self.plan(&frame).await?, overflow) {
            (Some(plan), _) => {
                self.live.compacting.in_a_row += 1;
                self.begin_summary(Arc::clone(model), plan, frame, None).await?;
                Ok(true)
            }
            (None, Some(message)) => {
                self.is_too_long(message);
                Ok(true)
            }
            (None, None) => Ok(false),
        }
    }

    /// Tells whether a call that failed is made again after a summary.
    pub(super) fn compacts_after(&mut self, error: &ModelError) -> bool {
        let is_too_long = error.kind == ModelErrorKind::ContextOverflow;
        let compacting = &mut self.live.compacting;
        if !is_too_long
            || !self.agent.compaction.is_automatic
            || compacting.overflows >= OVERFLOWS_MAX
        {
            return false;
        }
        compacting.overflows += 1;
        compacting.overflow = Some(error.message.clone());
        self.live.reservation = None;
        self.live.partial.clear();
        true
    }

    /// Summarises because a person wants it. Returns what to say when there is nothing to wait
    /// for.
    pub(super) async fn compact_by_hand(
        &mut self,
        model: Arc<dyn Model>,
        focus: Option<String>,
    ) -> Result<Option<String>, StoreError> {
        let (size, fixed) = self.size().await?;
        let window = model.info().context_window.unwrap_or(size);
        let frame = Frame { last: self.state.seq, size, fixed, window, is_automatic: false };
        match self.plan(&frame).await? {
            Some(plan) => {
                self.begin_summary(model, plan, frame, focus).await?;
                Ok(None)
            }
            None => {
                Ok(Some("There is nothing to summarise: the conversation is short yet.".to_owned()))
            }
        }
    }

    /// Returns the size of a request in tokens, as counted or estimated.
    fn size_of(&self, request: &ModelRequest) -> u64 {
        match self.state.context_tokens {
            0 => weight::tokens(weight::request(request)),
            _ => self.state.tokens(),
        }
    }

    /// Returns the size of the next request in tokens, and the bytes of instructions and tools.
    pub(super) async fn size(&mut self) -> Result<(u64, u64), StoreError> {
        self.load_transcript().await?;
        let Some(transcript) = &self.live.transcript else { return Ok((0, 0)) };
        let system = transcript.system().map_or(0, |system| system.len() as u64);
        let fixed = system + weight::tools(&self.live.offer.specs);
        let size = match self.state.context_tokens {
            0 => weight::tokens(fixed + weight::messages(&transcript.so_far())),
            _ => self.state.tokens(),
        };
        Ok((size, fixed))
    }

    async fn plan(&mut self, frame: &Frame) -> Result<Option<Plan>, StoreError> {
        self.flush().await?;
        let store = &*self.services.options.store;
        Ok(plan(stored::shown(store, &self.id, &self.state).await?, frame))
    }

    /// Begins to write a summary, unless the budget has nothing left for it: then the turn waits
    /// for a person, or is over.
    async fn begin_summary(
        &mut self,
        model: Arc<dyn Model>,
        plan: Plan,
        frame: Frame,
        focus: Option<String>,
    ) -> Result<(), StoreError> {
        let record = Record::new(plan.earlier.as_deref(), &plan.older).within(frame.record_bytes());
        let parts = self.parts(&plan, &frame).await?;
        let now = self.services.options.clock.now();
        let (id, content) = (MessageId::new("record"), vec![Block::text(record)]);
        let message = Message { id, role: Role::User, content, created_at: now };
        let mut request = ModelRequest {
            system: instruction(focus.as_deref(), &[]).into(),
            tools: Arc::from([]),
            messages: vec![Arc::new(message)],
            max_output: Some(frame.summary_tokens()),
            effort: None,
            output: None,
            cache_key: format!("{}-summary", self.id),
        };
        let tokens = weight::tokens_most(weight::request(&request));
        if !self.reserve_for(&*model, &mut request, tokens).await? {
            return Ok(());
        }
        let info = model.info().clone();
        let work = Work {
            services: Arc::clone(&self.services),
            session: self.id.clone(),
            workspace: Arc::clone(&self.workspace),
            mode: self.state.mode,
            model,
            request,
            focus,
            is_automatic: frame.is_automatic,
        };
        let summarising = self.live.effects.spawn(async move {
            let worked = AssertUnwindSafe(work.run()).catch_unwind().await;
            let (hooks, usage, written) = worked.unwrap_or_else(|_| {
                (None, None, Written::Failed("the model driver broke inside".to_owned()))
            });
            let summarised = Summarised { plan, frame, parts, model: info, hooks, usage, written };
            Outcome::Summarised(Box::new(summarised))
        });
        self.live.asking = Some(summarising);
        Ok(())
    }

    /// Gathers what a summary is joined by: what the user said before, and the files.
    async fn parts(&self, plan: &Plan, frame: &Frame) -> Result<Parts, StoreError> {
        let mut left = usize::try_from(frame.prompt_bytes()).unwrap_or(usize::MAX);
        let mut parts = Parts::default();
        let is_summed = |seq| seq <= plan.through && Some(seq) != plan.kept;
        let points = self.state.points.iter().rev();
        for point in points.filter(|point| !point.is_cut && is_summed(point.seq)) {
            let row = self.services.options.store.read(&self.id, point.seq, 1).await?.pop();
            let body = row.and_then(|row| EventBody::decode(row.kind, &row.body).ok());
            let Some(EventBody::PromptStarted(started)) = body else { continue };
            let text = text_of(&started.content);
            if text.trim().is_empty() {
                continue;
            }
            if text.len() > left {
                parts.prompts_left_out += 1;
            } else {
                left -= text.len();
                parts.prompts.push(text);
            }
        }
        parts.prompts.reverse();
        self.name_files(&mut parts, usize::try_from(frame.file_bytes()).unwrap_or(usize::MAX));
        Ok(parts)
    }

    /// Names the files that the session saw or changed, the newest first.
    fn name_files(&self, parts: &mut Parts, bytes_max: usize) {
        let mut files: Vec<_> = self.state.files.iter().collect();
        files.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.seq));
        let mut left = bytes_max;
        let fits = files.iter().take_while(|(path, _)| {
            left = left.saturating_sub(path.len());
            left > 0
        });
        let count = fits.count().min(FILES_MAX);
        parts.files_left_out = files.len() - count;
        let named = files.into_iter().take(count);
        parts.files = named.map(|(path, seen)| (path.clone(), seen.hash.is_none())).collect();
    }

    /// Takes what came of a summary.
    pub(super) fn summarised(&mut self, summarised: Summarised) {
        let Summarised { plan, frame, mut parts, model, hooks, usage, written } = summarised;
        self.live.asking = None;
        if let Some(usage) = usage {
            let cost_usd = model.price.map(|price| price.of(&usage));
            self.settle_spending(&usage, cost_usd);
            let (model, purpose) = (model.id, "compaction".to_owned());
            self.apply_sure(Command::Spent { usage, cost_usd, model, purpose });
        }
        self.live.reservation = None;
        if let Some(answer) = hooks {
            self.hear(&[(Moment::PreCompact, answer)]);
        }
        // A stop that came first wins: the conversation stays as it was.
        if self.is_stopping() || self.state.turn.is_none() {
            return;
        }
        let failure = match written {
            Written::Summary(text) => {
                // A provider need not heed the limit that it was given.
                let most = usize::try_from(frame.summary_tokens() * 8).unwrap_or(usize::MAX);
                parts.summary = shorten(&text, most);
                None
            }
            Written::Failed(why) => {
                let most = weight::bytes_within(frame.summary_tokens());
                parts.summary = put_together(&plan, most);
                parts.is_mechanical = true;
                Some(why)
            }
            Written::Forbidden(reason) => return self.not_summarised(&reason),
        };
        let mut summary = compose(&parts);
        if plan.after(&summary) >= plan.before {
            // It must be shorter than what it stands for, whatever that costs.
            let half = usize::try_from(plan.removed() / 2).unwrap_or(usize::MAX);
            parts.summary = shorten(&parts.summary, half);
            parts.prompts_left_out += std::mem::take(&mut parts.prompts).len();
            parts.files.clear();
            summary = compose(&parts);
        }
        let (before, after) = (plan.before, plan.after(&summary));
        self.apply_sure(Command::Compact(Compacted {
            before,
            after,
            automatic: frame.is_automatic,
            through: plan.through,
            kept: plan.kept,
            summary,
            mechanical: parts.is_mechanical,
        }));
        if let Some(why) = &failure {
            let message = format!(
                "no model could write a summary ({why}), so one was put together from the record; \
                 /uncompact brings the original back"
            );
            let (level, code) = (NoticeLevel::Warn, Some("summary_mechanical".to_owned()));
            self.apply_sure(Command::Notify(Notice { level, code, message }));
        }
        if self.is_command() {
            let how = if failure.is_some() { ", without a model" } else { "" };
            self.answer_command(format!(
                "The conversation was summarised{how}: about {before} tokens before, about {after} \
                 now. /uncompact brings the original back."
            ));
        }
    }

    /// Goes on although a hook forbade to summarise.
    fn not_summarised(&mut self, reason: &str) {
        if self.is_command() {
            return self.answer_command(format!("Nothing was summarised: {reason}"));
        }
        self.live.compacting.in_a_row = IN_A_ROW_MAX;
        let (level, code) = (NoticeLevel::Warn, Some("compaction_forbidden".to_owned()));
        let message = format!("the conversation was not summarised: {reason}");
        self.apply_sure(Command::Notify(Notice { level, code, message }));
    }

    fn is_command(&self) -> bool {
        self.state.turn.as_ref().is_some_and(|turn| turn.command.is_some())
    }
}

impl Work {
    async fn run(mut self) -> (Option<HookAnswer>, Option<Usage>, Written) {
        let hooks = self.may_compact().await;
        if let Some(answer) = &hooks
            && answer.vote == Some(HookVote::Deny)
        {
            let reason = answer.reason.clone().unwrap_or_else(|| "a hook says no".to_owned());
            return (hooks, None, Written::Forbidden(reason));
        }
        let services = Arc::clone(&self.services);
        let (usage, written) = tokio::select! {
            written = self.write() => written,
            () = services.options.clock.sleep(SUMMARY_TIME_MAX) => {
                let limit = stdx::duration(SUMMARY_TIME_MAX);
                (None, Written::Failed(format!("it took longer than {limit}")))
            }
        };
        (hooks, usage, written)
    }

    /// Tells PreCompact hooks, before anything else happens. What they add is for whoever writes
    /// the summary.
    async fn may_compact(&mut self) -> Option<HookAnswer> {
        let hooks = &self.services.options.hooks;
        if !hooks.wants(Moment::PreCompact, "") {
            return None;
        }
        let (automatic, focus) = (self.is_automatic, self.focus.clone());
        let happening = Happening::PreCompact { automatic, focus };
        let (session, mode) = (&self.session, self.mode);
        let place = HookPlace { session, mode, workspace: &*self.workspace };
        let mut answer = hooks.tell(&happening, place).await;
        let added = std::mem::take(&mut answer.context);
        if !added.is_empty() {
            self.request.system = instruction(self.focus.as_deref(), &added).into();
        }
        Some(answer)
    }

    async fn write(&self) -> (Option<Usage>, Written) {
        let clock = &self.services.options.clock;
        let mut attempts = Attempts::default();
        loop {
            // Nobody watches a summary being written.
            let (deltas, _) = mpsc::channel(1);
            let error = match self.model.ask(&self.request, deltas).await {
                Ok(response) => return read(&response),
                Err(error) => error,
            };
            let random = self.services.options.ids.random();
            match attempts.after(&error, clock.elapsed(), RETRY_BUDGET, random) {
                Next::Retry(pause) => clock.sleep(pause).await,
                Next::GiveUp => return (None, Written::Failed(error.message)),
            }
        }
    }
}

fn read(response: &ModelResponse) -> (Option<Usage>, Written) {
    let text = text_of(&response.content);
    let written = match response.stop {
        StopReason::Refusal => Written::Failed("the model or its provider declined".to_owned()),
        _ if text.trim().is_empty() => Written::Failed("the model wrote nothing".to_owned()),
        StopReason::MaxTokens => {
            Written::Summary(format!("{}\n(cut here at the limit of a summary)", text.trim()))
        }
        _ => Written::Summary(text),
    };
    (Some(response.usage), written)
}
