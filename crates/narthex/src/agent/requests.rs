//! Answers what a session asks with callbacks, as long as the session is open.

use std::sync::Arc;
use std::time::Duration;

use protocol::event::Answer;
use protocol::{EventBody, PromptId, Refusal, RefusalCode, RequestId};
use runtime_api::{Delivery, Interrupt, Subscription};

use super::Core;
use crate::callbacks::{Answering, Callbacks, Request, no_instead};

/// The waits before an answer that failed is given again: long enough for a busy store, and short
/// enough that the session's other callbacks may wait for it.
const TRY_AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(200), Duration::from_millis(800)];

/// Answers every request of the session until it is closed.
pub(super) async fn answer_all(core: Arc<Core>, mut events: Subscription, callbacks: Callbacks) {
    let mut answering = Answering::new(callbacks);
    catch_up(&core, &mut answering).await;
    let mut running = None;
    loop {
        tokio::select! {
            delivery = events.next() => match delivery {
                Some(Delivery::Event(event)) => {
                    if let Some(prompt) = begun(&event.body) {
                        running = Some(prompt.clone());
                    }
                    answering.see(&event.body);
                }
                Some(Delivery::Gap { .. }) => catch_up(&core, &mut answering).await,
                None => return,
            },
            (request, answer) = answering.next() => {
                match give(&core, &request, answer).await {
                    Given::Taken => {}
                    Given::Late => answering.settle(&request),
                    Given::Failed => {
                        answering.settle(&request);
                        stop(&core, running.clone()).await;
                    }
                }
            }
        }
    }
}

/// Takes what waits, for example from before the session was opened.
async fn catch_up(core: &Core, answering: &mut Answering) {
    match core.handle.pending(Some(&core.session)).await {
        Ok(waiting) => {
            let requests: Vec<Request> =
                waiting.iter().filter_map(|pending| Request::of(&pending.request)).collect();
            let ids: Vec<RequestId> = requests.iter().map(|request| request.id().clone()).collect();
            answering.keep_only(&ids);
            for request in requests {
                answering.ask(request);
            }
        }
        Err(error) => tracing::warn!(%error, "list what waits for an answer"),
    }
}

/// Returns the prompt whose turn an event begins.
fn begun(body: &EventBody) -> Option<&PromptId> {
    match body {
        EventBody::PromptStarted(started) => Some(&started.prompt_id),
        EventBody::TurnStart(step) => Some(&step.prompt_id),
        _ => None,
    }
}

/// Stops the prompt whose request cannot be answered: it would wait for ever.
async fn stop(core: &Core, running: Option<PromptId>) {
    // While it waits, no other prompt runs.
    let which = running.map_or(Interrupt::Running, Interrupt::Prompt);
    if let Err(error) = core.handle.interrupt(&core.session, which).await {
        tracing::error!(%error, "stop a prompt whose request could not be answered");
    }
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Taken,
    /// The request waits no more.
    Late,
    /// It could not be given at all.
    Failed,
}

/// Gives an answer. One that cannot be taken becomes a no that says why, so that the turn does not
/// wait for ever.
async fn give(core: &Core, request: &RequestId, answer: Answer) -> Given {
    let give =
        |answer: Answer| insist(move || core.handle.answer(&core.session, request, answer.clone()));
    let refusal = match give(answer.clone()).await {
        Ok(None) => return Given::Taken,
        Ok(Some(refusal)) => refusal,
        Err(Faulty) => return Given::Failed,
    };
    if !matches!(refusal.code, RefusalCode::Invalid | RefusalCode::LockedByPolicy) {
        return Given::Late;
    }
    let Refusal { message, .. } = refusal;
    tracing::warn!(%message, "the callback's answer cannot be taken");
    let no = no_instead(&answer, format!("the answer could not be taken: {message}"));
    match give(no).await {
        Ok(None) => Given::Taken,
        Ok(Some(_)) => Given::Late,
        Err(Faulty) => Given::Failed,
    }
}

/// Every attempt met a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Faulty;

/// Tries something again where it meets faults; returns the refusal if it is refused.
async fn insist<F>(mut attempt: impl FnMut() -> F) -> Result<Option<Refusal>, Faulty>
where
    F: Future<Output = Result<(), runtime_api::Error>>,
{
    let mut waits = TRY_AGAIN_AFTER.into_iter();
    loop {
        match attempt().await {
            Ok(()) => return Ok(None),
            Err(runtime_api::Error::Refusal(refusal)) => return Ok(Some(refusal)),
            Err(runtime_api::Error::Fault(error)) => {
                tracing::error!(%error, "answer a request");
                tokio::time::sleep(waits.next().ok_or(Faulty)?).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_meets_a_fault_is_given_again_but_not_for_ever() {
        for (faults, expected) in [(0, Ok(None)), (3, Ok(None)), (9, Err(Faulty))] {
            let mut count = 0;
            let given = insist(|| {
                count += 1;
                let is_fault = count <= faults;
                async move {
                    match is_fault {
                        true => Err(runtime_api::Fault::with("write", "disk full").into()),
                        false => Ok(()),
                    }
                }
            });
            assert_eq!(given.await, expected);
            assert_eq!(count, (faults + 1).min(4));
        }
    }
}
