//! What of a session can be seen without asking its task: lists wait for no session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime_api::{AgentSettings, SessionInfo};

/// The outside of one life of a session's task. The task writes it, everybody reads it.
#[derive(Debug)]
pub(crate) struct Face {
    shown: Mutex<Shown>,
    /// Whether the task ended because nobody used the session.
    is_asleep: AtomicBool,
}

#[derive(Debug)]
struct Shown {
    /// What is durable of it; none before it was opened.
    info: Option<Arc<SessionInfo>>,
    /// What it wakes with.
    agent: AgentSettings,
}

impl Face {
    pub(crate) fn new(agent: AgentSettings) -> Self {
        let shown = Mutex::new(Shown { info: None, agent });
        Self { shown, is_asleep: AtomicBool::new(false) }
    }

    /// Shows what the session is; all of it is durable.
    pub(crate) fn show(&self, info: SessionInfo) {
        self.shown().info = Some(Arc::new(info));
    }

    /// Returns what the session was when it was last durable.
    pub(crate) fn info(&self) -> Option<Arc<SessionInfo>> {
        self.shown().info.clone()
    }

    /// Notes the flags that the session goes on with.
    pub(crate) fn configure(&self, agent: &AgentSettings) {
        self.shown().agent = agent.clone();
    }

    pub(crate) fn agent(&self) -> AgentSettings {
        self.shown().agent.clone()
    }

    /// Says that the task ends because nobody uses the session.
    pub(crate) fn fall_asleep(&self) {
        self.is_asleep.store(true, Ordering::Release);
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.is_asleep.load(Ordering::Acquire)
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
