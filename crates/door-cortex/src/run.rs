//! A run: one prompt of this door, from its request to its end. It belongs to the connection that
//! began it.

use http_kit::RequestId;
use protocol::event::{Answer, PauseKind};
use protocol::{PromptId, SessionId, TurnEnd};
use runtime_api::{Handle, Interrupt, Prompt};
use tokio_util::task::TaskTracker;

use crate::busy::Busy;
use crate::door::{Shared, is_active};
use crate::error::{Code, FailedRun, Refused, refused};
use crate::follower::Follower;
use crate::frame::{run_id, session_id};
use crate::projection::{Became, Finished, Question, StopReason};

/// The option that lets a turn go on which pauses.
const GO_ON: &str = "go_on";

/// A run that goes on. Dropping it stops it, and only it: whoever began it has gone.
#[derive(Debug)]
pub(crate) struct Run {
    handle: Handle,
    tasks: TaskTracker,
    session: SessionId,
    prompt: PromptId,
    request: RequestId,
    follower: Follower,
    is_over: bool,
    #[expect(dead_code, reason = "held until the run is over")]
    busy: Busy,
}

impl Run {
    /// Begins a run, to its end also when the client that asked has gone meanwhile: then it is
    /// stopped.
    ///
    /// # Errors
    /// 404, 409 `NOT_RUNNING`, `OWNED_ELSEWHERE`, `SESSION_BUSY`, 400 for the model.
    pub(crate) async fn begin(
        door: &Shared,
        session: SessionId,
        prompt: Prompt,
        request: RequestId,
    ) -> Result<Self, Refused> {
        let asked = Shared::clone(door);
        door.to_its_end(async move { Self::begun(&asked, session, prompt, request).await }).await
    }

    async fn begun(
        door: &Shared,
        session: SessionId,
        prompt: Prompt,
        request: RequestId,
    ) -> Result<Self, Refused> {
        let info = door.session(&session).await?;
        let Some(neuron) = &info.neuron else { return Err(Code::NotFound.into()) };
        door.running(neuron).await?;
        let model = prompt.options.model.as_deref();
        door.handle.check_settings(None, model).map_err(refused)?;
        let busy = Busy::take(door, &session)?;
        let info = door.awake(info).await?;
        if is_active(&info) || info.queued > 0 {
            return Err(Code::SessionBusy.into());
        }
        let follower = Follower::begin(&door.handle, &door.records, &session).await;
        let follower = follower.map_err(refused)?;
        let prompt = door.handle.prompt(&session, prompt).await.map_err(refused)?;
        let run = Self {
            handle: door.handle.clone(),
            tasks: door.tasks.clone(),
            session,
            prompt: prompt.prompt_id,
            request,
            follower,
            is_over: false,
            busy,
        };
        if prompt.position > 0 {
            // Another door was faster. The run is dropped, which takes the prompt back.
            return Err(Code::SessionBusy.into());
        }
        Ok(run)
    }

    /// Waits for what comes next; none once nothing comes any more.
    pub(crate) async fn next(&mut self) -> Option<Became> {
        if self.is_over {
            return None;
        }
        match self.follower.next().await {
            Ok(Some(became)) => {
                if let Some(question) = &became.question {
                    self.answer(question);
                }
                if let Some(finished) = became.finished.as_ref().filter(|it| self.is_mine(it)) {
                    self.is_over = true;
                    self.log(finished);
                }
                Some(became)
            }
            Ok(None) => None,
            Err(error) => {
                tracing::error!(request = %self.request, %error, "a run cannot be followed");
                None
            }
        }
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// 502 when there is none to be seen: the program stops, or the session is lost.
    pub(crate) async fn finished(mut self) -> Result<Finished, Refused> {
        while let Some(became) = self.next().await {
            if let Some(finished) = became.finished.filter(|it| self.is_mine(it)) {
                return match StopReason::of(finished.result.reason) {
                    StopReason::EndTurn | StopReason::MaxTurns => Ok(finished),
                    StopReason::Aborted | StopReason::Error => Err(self.failed(&finished.said)),
                };
            }
        }
        Err(self.failed(""))
    }

    fn is_mine(&self, finished: &Finished) -> bool {
        finished.prompt == self.prompt
    }

    fn failed(&self, said: &str) -> Refused {
        Refused::failed(FailedRun {
            session_id: session_id(&self.session),
            run_id: run_id(&self.prompt),
            partial_response: (!said.is_empty()).then(|| said.to_owned()),
        })
    }

    /// Answers a question for callers who have no way to: whoever asks for a run has set its
    /// ceiling, so a model that repeats itself goes on to there; anything else stays without an
    /// answer, which ends a run whose budget is used up.
    fn answer(&self, question: &Question) {
        let answer = match question.about {
            Some(PauseKind::Repetition) => {
                Answer::Chosen { answers: vec![GO_ON.to_owned()], other: None }
            }
            Some(PauseKind::Budget) | None => Answer::Dismissed,
        };
        let (handle, session) = (self.handle.clone(), self.session.clone());
        let request = question.request.clone();
        // Beside: the session may be waiting for this run's reader.
        self.tasks.spawn(async move {
            if let Err(error) = handle.answer(&session, &request, answer).await {
                tracing::debug!(%session, %error, "a question was not answered");
            }
        });
    }

    /// Tells the log what no client is told. The line has the request's id itself: a stream goes
    /// on outside of its request's span.
    fn log(&self, finished: &Finished) {
        let result = &finished.result;
        if StopReason::of(result.reason) != StopReason::Error {
            return;
        }
        tracing::error!(
            request = %self.request,
            session = %self.session,
            run = %self.prompt,
            reason = TurnEnd::as_str(result.reason),
            code = result.code.as_deref().unwrap_or("-"),
            detail = result.message.as_deref().unwrap_or("-"),
            "a run failed"
        );
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Outside of a runtime the program has ended, and with it the run.
        if self.is_over || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (handle, session) = (self.handle.clone(), self.session.clone());
        let which = Interrupt::Prompt(self.prompt.clone());
        self.tasks.spawn(async move {
            // One that is over, or whose session is gone, need not be stopped.
            if let Err(error) = handle.interrupt(&session, which).await {
                tracing::debug!(%session, %error, "a run whose client left was not stopped");
            }
        });
    }
}
