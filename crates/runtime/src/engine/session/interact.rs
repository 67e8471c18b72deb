//! Interactions: asking a person, checking the answer, and what happens when none comes.

use std::time::Duration;

use driver_api::{Asks, StoreError};
use protocol::event::{
    Answer, DecidedBy, PauseKind, Persist, PlanRequest, QuestionOption, QuestionRequest,
    WORDS_CHARS_MAX,
};
use protocol::{EventBody, Mode, Refusal, RefusalCode, RequestId, Timestamp, ToolCallId};
use runtime_api::Error;

use super::Session;
use crate::engine::letters;
use crate::engine::rules::session_policy;
use crate::kernel::{Command, Decided, GO_ON};

/// How often letters are looked for while something waits for a person. Nobody notices so short a
/// delay, and a look costs a row of an index.
const LETTERS_EVERY: Duration = Duration::from_millis(300);

/// What the model reads when its question was left without an answer.
const DISMISSED: &str = "The user dismissed the question without an answer: decide yourself what \
     is sensible, and say what you assumed.";

/// What the model reads when nobody answered its question in time.
const LATE: &str = "Nobody answered in time: decide yourself what is sensible, and say what you \
     assumed.";

impl Session {
    /// Returns when an interaction that begins now is decided by the clock.
    pub(super) fn expiry(&self) -> Option<Timestamp> {
        let timeout = i64::try_from(self.agent.interaction_timeout_ms).unwrap_or(i64::MAX);
        (timeout > 0).then(|| self.services.options.clock.now().plus_ms(timeout))
    }

    /// Makes the request of a call that asks a person by itself.
    pub(super) fn request_of(&self, call: ToolCallId, asks: Asks) -> EventBody {
        let request_id = RequestId::new(self.services.fresh_id());
        let expires_at = self.expiry();
        match asks {
            Asks::Question { question, options, multi_select, allow_other } => QuestionRequest {
                request_id,
                tool_call_id: Some(call),
                about: None,
                question,
                options,
                multi_select,
                allow_other,
                expires_at,
            }
            .into(),
            Asks::Plan { plan } => {
                PlanRequest { request_id, tool_call_id: call, plan, expires_at }.into()
            }
        }
    }

    /// Pauses the turn until a person says whether it goes on; where nobody is there it ends.
    pub(super) fn pause(&mut self, about: PauseKind, question: String) {
        let option = |id: &str, label: &str| QuestionOption {
            id: id.to_owned(),
            label: label.to_owned(),
            description: None,
        };
        let request = QuestionRequest {
            request_id: RequestId::new(self.services.fresh_id()),
            tool_call_id: None,
            about: Some(about),
            question,
            options: vec![option(GO_ON, "go on"), option("stop", "end the turn")],
            multi_select: false,
            allow_other: false,
            expires_at: self.expiry(),
        };
        let message = request.question.clone();
        self.apply_sure(Command::Pause(request));
        self.notify_hooks(message, "question");
    }

    /// Decides an interaction as a person or program at a door wants.
    pub(super) async fn answer(
        &mut self,
        request: &RequestId,
        answer: Answer,
    ) -> Result<(), Error> {
        let decided = self.checked(request, answer).await?;
        if let Answer::AllowAlways { persist, .. } = decided.answer
            && persist != Persist::Session
            && let Some(rule) = &decided.rule
        {
            self.keep_rule(persist, rule).await?;
        }
        let is_new_rule = decided.rule.is_some();
        self.apply(Command::Resolve(decided))?;
        if is_new_rule {
            let policy = session_policy(&self.above, &self.agent, &self.state)?;
            self.policy = std::sync::Arc::new(policy);
            self.settle_covered();
        }
        self.end_if_done();
        Ok(())
    }

    /// Keeps a rule beyond the session.
    async fn keep_rule(&self, level: Persist, rule: &str) -> Result<(), Error> {
        let locked = |message: &str| Refusal::new(RefusalCode::LockedByPolicy, message);
        if !self.policy.may_persist() {
            let message = "persist: the managed settings let rules count for the session alone";
            return Err(locked(message).into());
        }
        let Some(book) = &self.services.options.rule_book else {
            let message = "persist: rules are not kept beyond the session here";
            return Err(Refusal::new(RefusalCode::Invalid, message).into());
        };
        book.keep(level, self.workspace.cwd(), rule).await?;
        Ok(())
    }

    /// Checks an answer against what was asked, and says what the model is told.
    async fn checked(&mut self, request: &RequestId, answer: Answer) -> Result<Decided, Error> {
        let (by, is_host) = (DecidedBy::Client, self.agent.is_hosted);
        let (request_id, rule, told) = (request.clone(), None, String::new());
        let mut decided = Decided { request: request_id, answer, by, rule, told, is_host };
        let Some(wait) = self.state.wait(request) else { return Ok(decided) };
        if decided.answer.kind() != wait.kind {
            return Ok(decided);
        }
        let words = match &decided.answer {
            Answer::Chosen { other: words, .. }
            | Answer::Deny { feedback: words }
            | Answer::Rejected { feedback: words } => words.as_ref(),
            Answer::AllowSaying { feedback } => Some(feedback),
            _ => None,
        };
        if words.is_some_and(|words| words.chars().count() > WORDS_CHARS_MAX) {
            let message = format!("feedback: at most {WORDS_CHARS_MAX} characters are taken");
            return Err(Refusal::new(RefusalCode::Invalid, message).into());
        }
        match &decided.answer {
            Answer::AllowAlways { rule, .. } => {
                decided.rule = Some(self.rule_for(request, rule.clone())?);
            }
            Answer::Chosen { answers, other } => {
                let asked = self.question(request).await?;
                let (answers, told) = chosen(&asked, answers, other.as_deref())?;
                decided.told = told;
                decided.answer = Answer::Chosen { answers, other: other.clone() };
            }
            Answer::Dismissed => decided.told = DISMISSED.to_owned(),
            Answer::Approved { mode } => {
                let mode = mode.unwrap_or_default();
                if mode == Mode::Plan {
                    let message = "mode: an approved plan is carried out in ask, auto-edit or \
                                   full-auto";
                    return Err(Refusal::new(RefusalCode::Invalid, message).into());
                }
                self.policy.check_mode(mode)?;
                decided.told =
                    format!("The user approved the plan. The mode is {mode} now: carry it out.");
            }
            Answer::Rejected { feedback } => decided.told = rejected(feedback.as_deref()),
            Answer::AllowOnce | Answer::AllowSaying { .. } | Answer::Deny { .. } => {}
        }
        Ok(decided)
    }

    /// Reads a question that waits from the log.
    async fn question(&mut self, request: &RequestId) -> Result<QuestionRequest, Error> {
        self.flush().await.map_err(|error| crate::engine::stored::told(&error))?;
        let seq = self.state.wait(request).map(|wait| wait.seq);
        let store = &self.services.options.store;
        if let Some(seq) = seq {
            let rows =
                store.read(&self.id, seq, 1).await.map_err(crate::engine::stored::refused)?;
            let body = rows.first().and_then(|row| EventBody::decode(row.kind, &row.body).ok());
            if let Some(EventBody::QuestionRequest(question)) = body {
                return Ok(question);
            }
        }
        let message = format!("no question {request} waits");
        Err(Refusal::new(RefusalCode::RequestNotFound, message).into())
    }

    /// Returns how long it is until the clock decides something, or until letters are due.
    pub(super) fn attention_in(&self) -> Option<Duration> {
        if !self.state.is_waiting() {
            return None;
        }
        let elapsed = self.services.options.clock.elapsed();
        let due = self.live.attend_due.map_or(LETTERS_EVERY, |due| due.saturating_sub(elapsed));
        let now = self.services.options.clock.now();
        let nearest = self.state.waits().filter_map(|wait| wait.expires_at).min();
        let left = nearest.map(|at| {
            Duration::from_millis(u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0))
        });
        Some(left.map_or(due, |left| left.min(due)))
    }

    /// Lets the clock decide what nobody answered in time, then reads the letters.
    pub(super) async fn attend(&mut self) -> Result<(), StoreError> {
        self.live.attend_due = Some(self.services.options.clock.elapsed() + LETTERS_EVERY);
        let now = self.services.options.clock.now();
        let is_late = |at: Timestamp| at.0 <= now.0;
        let waits = self.state.waits().filter(|wait| wait.expires_at.is_some_and(is_late));
        let late: Vec<_> = waits.map(|wait| (wait.request.clone(), wait.kind)).collect();
        for (request, kind) in late {
            use protocol::event::InteractionKind::{Permission, Plan, Question};
            let answer = match kind {
                Permission => Answer::Deny { feedback: None },
                Question => Answer::Dismissed,
                Plan => Answer::Rejected { feedback: None },
            };
            let (by, rule) = (DecidedBy::Timeout, None);
            let told = match kind {
                Plan => "The plan was not approved: nobody answered in time.".to_owned(),
                Permission | Question => LATE.to_owned(),
            };
            self.apply_sure(Command::Resolve(Decided {
                request,
                answer,
                by,
                rule,
                told,
                is_host: false,
            }));
            self.end_if_done();
        }
        self.settle_orphans();
        if !self.state.is_waiting() {
            return self.flush().await;
        }
        for letter in self.services.options.store.letters(&self.lease).await? {
            if let Some((request, answer)) = letters::read(&letter.body, now) {
                // Whoever wrote it sees in the log what came of it.
                if let Err(error) = self.answer(&request, answer).await {
                    tracing::info!(session = %self.id, %error, "an answer by letter was refused");
                }
                self.flush().await?;
            }
            self.services.options.store.drop_letter(&self.lease, &letter.id).await?;
        }
        Ok(())
    }

    /// Forgets a turn that an answer ended.
    fn end_if_done(&mut self) {
        if self.state.turn.is_none() {
            self.turn_is_over();
        }
    }
}

fn rejected(feedback: Option<&str>) -> String {
    match feedback.map(str::trim).filter(|words| !words.is_empty()) {
        Some(words) => format!("The user did not approve the plan: {words}"),
        None => "The user did not approve the plan: ask what should be different, or revise it."
            .to_owned(),
    }
}

/// Checks chosen options; returns their ids and what the model reads.
fn chosen(
    asked: &QuestionRequest,
    answers: &[String],
    other: Option<&str>,
) -> Result<(Vec<String>, String), Refusal> {
    let invalid = |message: String| Err(Refusal::new(RefusalCode::Invalid, message));
    let other = other.map(str::trim).filter(|words| !words.is_empty());
    let mut picked: Vec<&QuestionOption> = Vec::new();
    for answer in answers {
        let fits = |option: &&QuestionOption| option.id == *answer || option.label == *answer;
        let Some(option) = asked.options.iter().find(fits) else {
            let ids: Vec<&str> = asked.options.iter().map(|option| option.id.as_str()).collect();
            let known = ids.join(", ");
            return invalid(format!("answers: '{answer}' is no option; the options are {known}"));
        };
        if !picked.iter().any(|known| known.id == option.id) {
            picked.push(option);
        }
    }
    if picked.len() > 1 && !asked.multi_select {
        return invalid("answers: one option may be chosen here".to_owned());
    }
    if other.is_some() && !asked.allow_other {
        return invalid("other: this question takes none but its options".to_owned());
    }
    if picked.is_empty() && other.is_none() {
        return invalid("answers: choose an option, or dismiss the question".to_owned());
    }
    let labels: Vec<&str> = picked.iter().map(|option| option.label.as_str()).collect();
    let mut told = Vec::new();
    if !labels.is_empty() {
        told.push(format!("The user chose: {}", labels.join("; ")));
    }
    if let Some(words) = other {
        told.push(format!("In their own words: {words}"));
    }
    let ids = picked.into_iter().map(|option| option.id.clone()).collect();
    Ok((ids, told.join("\n")))
}
