//! Telling hooks of moments: the session opens, a prompt comes, a call has run, a turn is about to
//! end, a person is wanted.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use driver_api::{Happening, HookAnswer, HookPlace, HookVote, HookedCall, Moment, StoreError};
use futures_util::FutureExt;
use protocol::event::{ContextAdded, Notice, NoticeLevel};
use protocol::{PromptId, ToolCallId, TurnEnd};
use tokio::task::AbortHandle;

use super::{Outcome, Session};
use crate::kernel::{BLOCKED, Command, Ending, text_of, would_finish};

/// How often hooks may make a turn go on that was about to end: a hook that always says no would
/// otherwise never let it.
const STOP_GOES_MAX: u32 = 8;

/// What the model is told at the beginning of each turn in plan mode.
const PLAN_MODE: &str = "The mode is plan: look around and think, but change nothing; edits and \
     commands are refused. When you know what to do, call exit_plan with the plan; once the user \
     approves it, you can carry it out.";

/// What the turn's hooks were told.
#[derive(Debug, Default)]
pub(super) struct Telling {
    /// Hooks under way that the turn waits for.
    waiting: usize,
    /// Whether they were told of the prompt.
    is_prompt_told: bool,
    /// The step at whose end they were told that the turn is about to end.
    stop_told_at: Option<u32>,
    /// Everything that a stop hangs up.
    tasks: Vec<AbortHandle>,
}

impl Telling {
    /// Remembers a task that a stop hangs up.
    pub(super) fn keep(&mut self, task: AbortHandle) {
        self.tasks.retain(|task| !task.is_finished());
        self.tasks.push(task);
    }

    /// Hangs everything up.
    pub(super) fn abort(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
        }
        self.waiting = 0;
    }
}

impl Session {
    /// Tells hooks what they want to hear before the turn goes on; true while it has to wait.
    pub(super) async fn waits_for_hooks(&mut self) -> Result<bool, StoreError> {
        if self.live.hooks.waiting > 0 {
            return Ok(true);
        }
        let Some(turn) = self.state.turn.as_ref().filter(|turn| !turn.is_done) else {
            return Ok(false);
        };
        let (step, ends, is_repeated) = (turn.step, would_finish(turn), turn.hook_goes > 0);
        if step == 0 && !self.live.hooks.is_prompt_told {
            self.live.hooks.is_prompt_told = true;
            if self.state.mode == protocol::Mode::Plan {
                self.add_context("narthex", PLAN_MODE.to_owned(), false);
            }
            let hooks = &self.services.options.hooks;
            let is_start = !self.live.is_start_told && hooks.wants(Moment::SessionStart, "");
            let is_prompt = hooks.wants(Moment::UserPromptSubmit, "");
            self.live.is_start_told = true;
            if is_start || is_prompt {
                self.tell_prompt(is_start, is_prompt).await?;
                return Ok(true);
            }
        }
        let is_ending = ends && self.live.hooks.stop_told_at != Some(step);
        if is_ending && self.services.options.hooks.wants(Moment::Stop, "") {
            self.live.hooks.stop_told_at = Some(step);
            let text = self.state.turn.as_ref().map(|turn| turn.text.clone()).unwrap_or_default();
            self.tell(vec![Happening::Stop { is_repeated, text, is_child: false }], true);
            return Ok(true);
        }
        Ok(false)
    }

    async fn tell_prompt(&mut self, is_start: bool, is_prompt: bool) -> Result<(), StoreError> {
        let mut happenings = Vec::new();
        if is_start {
            let source = if self.state.prompts > 1 { "resume" } else { "startup" };
            happenings.push(Happening::SessionStart { source });
        }
        if is_prompt {
            let seq = self.state.newest_point().map(|point| point.seq).unwrap_or_default();
            let prompt = text_of(&self.prompt_at(seq).await?);
            happenings.push(Happening::UserPromptSubmit { prompt });
        }
        self.tell(happenings, true);
        Ok(())
    }

    /// Tells hooks that a call has run.
    pub(super) fn tell_result(&mut self, id: &ToolCallId, response: String, is_error: bool) {
        let Some(call) = self.state.call(id) else { return };
        // Hooks know a tool by its native name.
        let tool = policy::canonical(&call.tool).to_owned();
        if self.is_stopping() || !self.services.options.hooks.wants(Moment::PostToolUse, &tool) {
            return;
        }
        let asked = self.live.asked.get(id);
        let input = asked.map(|asked| asked.input.clone()).unwrap_or_default();
        let paths = asked.map(|asked| asked.paths.clone()).unwrap_or_default();
        let call = HookedCall { id: id.clone(), tool, input, paths };
        self.tell(vec![Happening::PostToolUse { call, response, is_error }], true);
    }

    /// Tells hooks that a person is wanted. Nothing waits for them.
    pub(super) fn notify_hooks(&mut self, message: String, kind: &'static str) {
        if self.services.options.hooks.wants(Moment::Notification, "") {
            self.tell(vec![Happening::Notification { message, kind }], false);
        }
    }

    /// Tells hooks of happenings, one after the other, beside the session's task.
    fn tell(&mut self, happenings: Vec<Happening>, is_waited_for: bool) {
        let services = Arc::clone(&self.services);
        let (session, mode) = (self.id.clone(), self.state.mode);
        let workspace = Arc::clone(&self.workspace);
        let prompt = self.prompt_id();
        self.live.hooks.waiting += usize::from(is_waited_for);
        let task = self.live.effects.spawn(async move {
            let mut answers = Vec::new();
            for happening in happenings {
                let place = HookPlace { session: &session, mode, workspace: &*workspace };
                let telling = AssertUnwindSafe(services.options.hooks.tell(&happening, place));
                let answer = telling.catch_unwind().await.unwrap_or_else(|_| HookAnswer {
                    failures: vec!["the hooks broke inside".to_owned()],
                    ..HookAnswer::default()
                });
                let is_no = answer.vote == Some(HookVote::Deny);
                answers.push((happening.moment(), answer));
                if is_no {
                    break;
                }
            }
            Outcome::Told(prompt, answers)
        });
        self.live.hooks.keep(task);
    }

    /// Takes what hooks said.
    pub(super) fn told(&mut self, prompt: &PromptId, answers: Vec<(Moment, HookAnswer)>) {
        if self.prompt_id() != *prompt {
            // The turn that told them is over.
            return;
        }
        let is_waited_for = answers.iter().any(|(moment, _)| *moment != Moment::Notification);
        if is_waited_for {
            self.live.hooks.waiting = self.live.hooks.waiting.saturating_sub(1);
        }
        if self.state.turn.as_ref().is_none_or(|turn| turn.is_done) || self.is_stopping() {
            return;
        }
        self.hear(&answers);
        for (moment, answer) in answers {
            let is_no = answer.vote == Some(HookVote::Deny);
            let reason = answer.reason.unwrap_or_else(|| "a hook says no".to_owned());
            match moment {
                Moment::UserPromptSubmit if is_no => {
                    let message = format!("a hook blocked the prompt: {reason}");
                    let (code, message) = (Some(BLOCKED.to_owned()), Some(message));
                    let ending = Ending { code, message, ..Ending::of(TurnEnd::Denied) };
                    self.apply_sure(Command::End(ending));
                    return self.turn_is_over();
                }
                Moment::PostToolUse if is_no => self.add_context("hook PostToolUse", reason, false),
                Moment::Stop | Moment::SubagentStop if is_no => self.go_on(reason),
                _ => {}
            }
        }
    }

    /// Returns the prompt of the running turn.
    fn prompt_id(&self) -> PromptId {
        let turn = self.state.turn.as_ref();
        turn.map_or_else(|| PromptId::new(""), |turn| turn.prompt.clone())
    }

    /// Says that hooks know already that the session is open.
    pub(crate) fn was_only_asleep(&mut self) {
        self.live.is_start_told = true;
    }

    /// Lets a turn go on that was about to end.
    fn go_on(&mut self, reason: String) {
        let goes = self.state.turn.as_ref().map_or(0, |turn| turn.hook_goes);
        if goes < STOP_GOES_MAX {
            return self.add_context("hook Stop", reason, true);
        }
        let message = format!(
            "a hook wanted the turn to go on for the {STOP_GOES_MAX}th time and more; it ends"
        );
        self.warn("hook_goes_on", message);
    }

    /// Shows and records what comes with any answer: words for people, words for the model,
    /// failures, and the wish that the turn end here.
    pub(super) fn hear(&mut self, answers: &[(Moment, HookAnswer)]) {
        for (moment, answer) in answers {
            for notice in &answer.notices {
                let (level, code) = (NoticeLevel::Info, Some("hook".to_owned()));
                let message = notice.clone();
                self.apply_sure(Command::Notify(Notice { level, code, message }));
            }
            for failure in &answer.failures {
                self.warn("hook_failed", failure.clone());
            }
            for text in &answer.context {
                self.add_context(&format!("hook {}", moment.as_str()), text.clone(), false);
            }
            if let Some(reason) = &answer.stop
                && *moment != Moment::Stop
            {
                let message = Some(format!("a hook ended the turn: {reason}"));
                let code = Some("hook_stopped".to_owned());
                self.stop_with(Ending { code, message, ..Ending::of(TurnEnd::Denied) });
            }
        }
    }

    fn warn(&mut self, code: &str, message: String) {
        let (level, code) = (NoticeLevel::Warn, Some(code.to_owned()));
        self.apply_sure(Command::Notify(Notice { level, code, message }));
    }

    fn add_context(&mut self, source: &str, text: String, goes_on: bool) {
        let source = source.to_owned();
        self.apply_sure(Command::AddContext(ContextAdded { source, text, goes_on }));
    }
}
