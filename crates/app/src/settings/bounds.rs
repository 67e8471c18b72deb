//! What bounds a turn: money, tokens, time, patience, and the size of its conversation.

use std::num::NonZeroU64;

use door_cli::{Globals, Setting};
use runtime_api::{AgentSettings, Allowance, Budget, CompactionSettings, Limits};

use super::document::{BudgetTable, Document};
use super::{Origin, Settings, Sourced};

/// The bounds, each with where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bounds {
    turn_usd: Sourced<Option<f64>>,
    turn_tokens: Sourced<Option<u64>>,
    turn_ms: Sourced<Option<u64>>,
    session_usd: Sourced<Option<f64>>,
    session_tokens: Sourced<Option<u64>>,
    day_usd: Sourced<Option<f64>>,
    day_tokens: Sourced<Option<u64>>,
    compaction: Sourced<bool>,
    compaction_at: Sourced<u8>,
    permission_timeout_ms: Sourced<Option<u64>>,
    is_checkpointing: Sourced<bool>,
}

impl Default for Bounds {
    fn default() -> Self {
        let compaction = CompactionSettings::default();
        Self {
            turn_usd: Sourced::built_in(None),
            turn_tokens: Sourced::built_in(None),
            turn_ms: Sourced::built_in(None),
            session_usd: Sourced::built_in(None),
            session_tokens: Sourced::built_in(None),
            day_usd: Sourced::built_in(None),
            day_tokens: Sourced::built_in(None),
            compaction: Sourced::built_in(compaction.is_automatic),
            compaction_at: Sourced::built_in(compaction.at_percent),
            permission_timeout_ms: Sourced::built_in(None),
            is_checkpointing: Sourced::built_in(true),
        }
    }
}

impl Bounds {
    /// Takes what a file says.
    pub(super) fn take_document(&mut self, document: &Document, origin: &Origin) {
        let BudgetTable {
            turn_usd,
            turn_tokens,
            turn_ms,
            session_usd,
            session_tokens,
            day_usd,
            day_tokens,
        } = document.budget;
        self.turn_usd.take_some(turn_usd.as_ref(), origin);
        self.turn_tokens.take_some(turn_tokens.as_ref(), origin);
        self.turn_ms.take_some(turn_ms.map(NonZeroU64::get).as_ref(), origin);
        self.session_usd.take_some(session_usd.as_ref(), origin);
        self.session_tokens.take_some(session_tokens.as_ref(), origin);
        self.day_usd.take_some(day_usd.as_ref(), origin);
        self.day_tokens.take_some(day_tokens.as_ref(), origin);
        self.compaction.take(document.compaction.auto, origin);
        self.compaction_at.take(document.compaction.at_percent, origin);
        self.permission_timeout_ms.take_some(document.permission_timeout_ms.as_ref(), origin);
        self.is_checkpointing.take(document.checkpoints.enabled, origin);
    }

    /// Takes from a project what is tighter than what holds: a project can never loosen.
    pub(super) fn take_project(&mut self, document: &Document, origin: &Origin) {
        let budget = &document.budget;
        lower(&mut self.turn_usd, budget.turn_usd, origin);
        lower(&mut self.turn_tokens, budget.turn_tokens, origin);
        lower(&mut self.turn_ms, budget.turn_ms.map(NonZeroU64::get), origin);
        lower(&mut self.session_usd, budget.session_usd, origin);
        lower(&mut self.session_tokens, budget.session_tokens, origin);
        lower(&mut self.day_usd, budget.day_usd, origin);
        lower(&mut self.day_tokens, budget.day_tokens, origin);
        self.compaction.take(document.compaction.auto, origin);
        self.compaction_at.take(document.compaction.at_percent, origin);
    }

    /// Takes what flags say.
    pub(super) fn take_flags(&mut self, globals: &Globals) {
        let flag = |name: &str| Origin::Flag(name.to_owned());
        let usd = globals.max_budget_usd.as_ref();
        self.turn_usd.take_some(usd, &flag("--max-budget-usd"));
        let timeout = globals.permission_timeout.as_ref();
        self.permission_timeout_ms.take_some(timeout, &flag("--permission-timeout"));
    }

    /// Sets how long an unanswered request waits, in milliseconds, where nobody has said it.
    pub(crate) fn wait_for_answers(&mut self, timeout_ms: u64) {
        if self.permission_timeout_ms.value.is_none() {
            self.permission_timeout_ms = Sourced::built_in(Some(timeout_ms));
        }
    }

    /// Tells whether files are captured before they change.
    pub(crate) fn is_checkpointing(&self) -> bool {
        self.is_checkpointing.value
    }

    /// Lists the bounds.
    pub(super) fn list(&self) -> Vec<Setting> {
        let text = |key: &str, value: Option<String>, origin: &Origin| Setting {
            key: key.to_owned(),
            value: value.unwrap_or_default(),
            origin: origin.to_string(),
        };
        let usd = |key: &str, it: &Sourced<Option<f64>>| {
            text(key, it.value.map(|value| value.to_string()), &it.origin)
        };
        let count = |key: &str, it: &Sourced<Option<u64>>| {
            text(key, it.value.map(|value| value.to_string()), &it.origin)
        };
        vec![
            usd("budget.turn_usd", &self.turn_usd),
            count("budget.turn_tokens", &self.turn_tokens),
            count("budget.turn_ms", &self.turn_ms),
            usd("budget.session_usd", &self.session_usd),
            count("budget.session_tokens", &self.session_tokens),
            usd("budget.day_usd", &self.day_usd),
            count("budget.day_tokens", &self.day_tokens),
            text(
                "compaction.auto",
                Some(self.compaction.value.to_string()),
                &self.compaction.origin,
            ),
            text(
                "compaction.at_percent",
                Some(self.compaction_at.value.to_string()),
                &self.compaction_at.origin,
            ),
            count("permission_timeout_ms", &self.permission_timeout_ms),
            text(
                "checkpoints.enabled",
                Some(self.is_checkpointing.value.to_string()),
                &self.is_checkpointing.origin,
            ),
        ]
    }
}

fn lower<T: PartialOrd>(held: &mut Sourced<Option<T>>, wanted: Option<T>, origin: &Origin) {
    let is_lower = match (&held.value, &wanted) {
        (Some(held), Some(wanted)) => wanted < held,
        (None, Some(_)) => true,
        (_, None) => false,
    };
    if is_lower {
        *held = Sourced { value: wanted, origin: origin.clone() };
    }
}

/// Makes the agent's settings of everything that was read, but for the folders.
pub(crate) fn agent(settings: &Settings, globals: &Globals) -> AgentSettings {
    let bounds = &settings.bounds;
    let allowance = |usd: &Sourced<Option<f64>>, tokens: &Sourced<Option<u64>>| Allowance {
        usd: usd.value,
        tokens: tokens.value,
    };
    AgentSettings {
        append_system_prompt: settings.append_system_prompt.value.clone(),
        allow: globals.allow.clone(),
        deny: globals.deny.clone(),
        roots: Vec::new(),
        limits: Limits {
            max_turns: settings.max_turns.value,
            retry_budget_ms: settings.retry_budget_ms.value,
            turn_ms: bounds.turn_ms.value.unwrap_or(0),
            budget: Budget {
                turn: allowance(&bounds.turn_usd, &bounds.turn_tokens),
                session: allowance(&bounds.session_usd, &bounds.session_tokens),
                day: allowance(&bounds.day_usd, &bounds.day_tokens),
            },
        },
        is_attended: false,
        interaction_timeout_ms: bounds.permission_timeout_ms.value.unwrap_or(0),
        carries_on: false,
        compaction: CompactionSettings {
            is_automatic: bounds.compaction.value,
            at_percent: bounds.compaction_at.value,
        },
        ..AgentSettings::default()
    }
}
