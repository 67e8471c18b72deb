//! Callbacks: how a program answers what an agent asks.

mod answering;

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use protocol::event::{Answer, PermissionRequest, Persist, PlanRequest, QuestionRequest};
use protocol::{EventBody, Mode, RequestId};

pub(crate) use self::answering::Answering;

/// An answer to a [`PermissionRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// This call may run.
    AllowOnce,
    /// This call may run, and all that the rule matches.
    AllowAlways {
        /// The rule; the first of the request's `suggested_rules` where absent.
        rule: Option<String>,
        /// For how long.
        persist: Persist,
    },
    /// It may not.
    Deny {
        /// Words for the model, at most 10,000 bytes.
        feedback: Option<String>,
    },
}

impl Decision {
    /// Denies with words for the model.
    pub fn deny(feedback: impl Into<String>) -> Self {
        Decision::Deny { feedback: Some(feedback.into()) }
    }

    /// Allows what the first suggested rule matches, as long as the session lives.
    #[must_use]
    pub fn allow_for_session() -> Self {
        Decision::AllowAlways { rule: None, persist: Persist::Session }
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::AllowOnce => Answer::AllowOnce,
            Decision::AllowAlways { rule, persist } => Answer::AllowAlways { rule, persist },
            Decision::Deny { feedback } => Answer::Deny { feedback },
        }
    }
}

/// An answer to a [`QuestionRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// Options, by id or label, and words of one's own.
    Answers {
        /// Ids or labels of the chosen options.
        answers: Vec<String>,
        /// Words of one's own, at most 10,000 bytes.
        other: Option<String>,
    },
    /// The question stays without an answer.
    Dismissed,
}

impl Reply {
    /// Chooses one option, by its id or label.
    pub fn choose(option: impl Into<String>) -> Self {
        Reply::Answers { answers: vec![option.into()], other: None }
    }

    /// Answers with words of one's own.
    pub fn say(words: impl Into<String>) -> Self {
        Reply::Answers { answers: Vec::new(), other: Some(words.into()) }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Answers { answers, other } => Answer::Chosen { answers, other },
            Reply::Dismissed => Answer::Dismissed,
        }
    }
}

/// An answer to a [`PlanRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanDecision {
    /// The plan is carried out.
    Approve {
        /// The mode to go on in; `ask` where absent.
        mode: Option<Mode>,
    },
    /// It is not.
    Reject {
        /// Words for the model, at most 10,000 bytes.
        feedback: Option<String>,
    },
}

impl From<PlanDecision> for Answer {
    fn from(decision: PlanDecision) -> Self {
        match decision {
            PlanDecision::Approve { mode } => Answer::Approved { mode },
            PlanDecision::Reject { feedback } => Answer::Rejected { feedback },
        }
    }
}

type Callback<Q> = Arc<dyn Fn(Q) -> BoxFuture<'static, Answer> + Send + Sync>;

fn boxed<Q, A, F, Fut>(callback: F) -> Callback<Q>
where
    A: Into<Answer> + 'static,
    F: Fn(Q) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = A> + Send + 'static,
{
    Arc::new(move |request| callback(request).map(Into::into).boxed())
}

/// What a program answers. What has no callback is decided against: calls are denied, questions
/// dismissed, plans rejected.
///
/// A callback's future is dropped when its request was decided elsewhere or its prompt was
/// interrupted. One that panics decides against. Callbacks of one session share a task: they wait
/// beside each other, but one that blocks its thread holds up the others of its session.
#[derive(Clone, Default)]
pub struct Callbacks {
    permission: Option<Callback<PermissionRequest>>,
    question: Option<Callback<QuestionRequest>>,
    plan: Option<Callback<PlanRequest>>,
}

impl Callbacks {
    /// Makes callbacks that decide against everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what answers permission requests.
    #[must_use]
    pub fn on_permission<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(PermissionRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Decision> + Send + 'static,
    {
        self.permission = Some(boxed(callback));
        self
    }

    /// Sets what answers questions.
    #[must_use]
    pub fn on_question<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(QuestionRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Reply> + Send + 'static,
    {
        self.question = Some(boxed(callback));
        self
    }

    /// Sets what decides on plans.
    #[must_use]
    pub fn on_plan<F, Fut>(mut self, callback: F) -> Self
    where
        F: Fn(PlanRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = PlanDecision> + Send + 'static,
    {
        self.plan = Some(boxed(callback));
        self
    }

    /// Tells whether there is none at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.permission.is_none() && self.question.is_none() && self.plan.is_none()
    }

    /// Returns the answer to a request, as far as there is a callback for it.
    fn ask(&self, request: Request) -> Option<BoxFuture<'static, Answer>> {
        match request {
            Request::Permission(request) => self.permission.as_ref().map(|ask| ask(request)),
            Request::Question(request) => self.question.as_ref().map(|ask| ask(request)),
            Request::Plan(request) => self.plan.as_ref().map(|ask| ask(request)),
        }
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks")
            .field("permission", &self.permission.is_some())
            .field("question", &self.question.is_some())
            .field("plan", &self.plan.is_some())
            .finish()
    }
}

/// A request that waits for an answer.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Permission(PermissionRequest),
    Question(QuestionRequest),
    Plan(PlanRequest),
}

impl Request {
    /// Returns the request that an event makes, if it makes one.
    pub(crate) fn of(body: &EventBody) -> Option<Self> {
        match body {
            EventBody::PermissionRequest(request) => Some(Request::Permission(request.clone())),
            EventBody::QuestionRequest(request) => Some(Request::Question(request.clone())),
            EventBody::PlanRequest(request) => Some(Request::Plan(request.clone())),
            _ => None,
        }
    }

    pub(crate) fn id(&self) -> &RequestId {
        match self {
            Request::Permission(request) => &request.request_id,
            Request::Question(request) => &request.request_id,
            Request::Plan(request) => &request.request_id,
        }
    }

    /// Returns the answer that decides against it.
    fn no(&self, why: &str) -> Answer {
        let feedback = Some(why.to_owned());
        match self {
            Request::Permission(_) => Answer::Deny { feedback },
            Request::Question(_) => Answer::Dismissed,
            Request::Plan(_) => Answer::Rejected { feedback },
        }
    }
}

/// Returns the answer that decides against what another answer decided on.
pub(crate) fn no_instead(answer: &Answer, why: String) -> Answer {
    use protocol::event::InteractionKind::{Permission, Plan, Question};
    let feedback = Some(why);
    match answer.kind() {
        Permission => Answer::Deny { feedback },
        Question => Answer::Dismissed,
        Plan => Answer::Rejected { feedback },
    }
}
