//! Vetting: hooks and checks look at a call beside the session's task.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use driver_api::{
    Asks, CallFacts, Happening, HookAnswer, HookPlace, HookVote, HookedCall, Moment, PendingChange,
    Tool, Workspace,
};
use futures_util::FutureExt;
use policy::{Decision, Policy};
use protocol::event::{DeniedBy, ToolCall};
use protocol::{Effect, Finding, Mode, SessionId};
use serde_json::{Map, Value};

use super::gated::Understood;
use super::{Outcome, Session};
use crate::engine::gate::{Examined, Judge, Schema, examine, homes};
use crate::engine::options::Services;

/// A call that hooks and checks are to look at.
#[derive(Debug)]
pub(super) struct Vetting {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) schema: Arc<Schema>,
    pub(super) call: ToolCall,
    pub(super) facts: CallFacts,
    pub(super) asks: Option<Asks>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Vetted {
    /// The call as it is to be judged; a text for the model where hooks changed its arguments to
    /// wrong ones.
    pub(super) understood: Result<Box<Understood>, String>,
    /// Who refuses it, and why.
    pub(super) refused: Option<(DeniedBy, String)>,
    /// Arguments in place of the model's.
    pub(super) input: Option<Map<String, Value>>,
    /// Everything else that hooks said.
    pub(super) told: Vec<(Moment, HookAnswer)>,
}

/// What a look needs of the session, as it was when the look began.
struct Look {
    services: Arc<Services>,
    session: SessionId,
    workspace: Arc<dyn Workspace>,
    policy: Arc<Policy>,
    mode: Mode,
    spill: std::path::PathBuf,
    is_attended: bool,
}

impl Session {
    /// Lets hooks and checks look at a call; what they say comes back as an outcome.
    pub(super) fn vet(&mut self, vetting: Vetting) {
        let id = vetting.call.tool_call_id.clone();
        let look = Look {
            services: Arc::clone(&self.services),
            session: self.id.clone(),
            workspace: Arc::clone(&self.workspace),
            policy: Arc::clone(&self.policy),
            mode: self.state.mode,
            spill: self.spill_dir(),
            is_attended: self.agent.is_attended,
        };
        self.live.vetting.insert(id.clone());
        let task = self.live.effects.spawn(async move {
            let vetted = AssertUnwindSafe(look.at(vetting)).catch_unwind().await;
            let vetted = vetted.unwrap_or_else(|_| {
                let text = "the hooks or checks broke inside, so the call was not run".to_owned();
                Vetted { understood: Err(text), refused: None, input: None, told: Vec::new() }
            });
            Outcome::Vetted(id, Box::new(vetted))
        });
        self.live.hooks.keep(task);
    }
}

impl Look {
    /// PreToolUse hooks, then checks, then PermissionRequest hooks where the call is to be asked
    /// for. The first refusal ends the look.
    async fn at(self, vetting: Vetting) -> Vetted {
        let Vetting { tool, schema, mut call, mut facts, mut asks } = vetting;
        let name = policy::canonical(&tool.spec().name).to_owned();
        let mut told = Vec::new();
        let mut input = None;
        let mut vote = None;
        if self.services.options.hooks.wants(Moment::PreToolUse, &name) {
            let happening = Happening::PreToolUse(hooked(&call));
            let mut answer = self.tell(&happening).await;
            vote = answer.vote.take().map(|vote| (vote, reason(answer.reason.take(), vote)));
            input = answer.input.take();
            told.push((Moment::PreToolUse, answer));
        }
        if let Some(changed) = &input
            && !matches!(vote, Some((HookVote::Deny, _)))
        {
            let id = call.tool_call_id.clone();
            match examine(&*tool, &schema, &id, changed, &*self.workspace).await {
                Examined::Described(described) => {
                    (call, facts) = *described;
                    match tool.asks(changed) {
                        Ok(anew) => asks = anew,
                        Err(error) => {
                            let (understood, refused) = (Err(error.to_string()), None);
                            return Vetted { understood, refused, input: None, told };
                        }
                    }
                }
                Examined::Wrong(text) => {
                    let text = format!("a hook changed the arguments, and they are wrong: {text}");
                    return Vetted { understood: Err(text), refused: None, input: None, told };
                }
            }
        }
        let mut understood =
            Understood { call, facts, asks, vote: vote.clone(), findings: Vec::new(), diff: None };
        let mut refused = match vote {
            Some((HookVote::Deny, reason)) => Some((DeniedBy::Hook, by_hook(&reason))),
            _ => None,
        };
        if refused.is_none() {
            refused = self.check(&*tool, &mut understood).await;
        }
        if refused.is_none() {
            refused = self.before_asking(&name, &mut understood, &mut told).await;
        }
        Vetted { understood: Ok(Box::new(understood)), refused, input, told }
    }

    async fn tell(&self, happening: &Happening) -> HookAnswer {
        let (session, mode) = (&self.session, self.mode);
        let place = HookPlace { session, mode, workspace: &*self.workspace };
        self.services.options.hooks.tell(happening, place).await
    }

    /// Lets checks examine the change. A failure refuses the call: it was not examined.
    async fn check(
        &self,
        tool: &dyn Tool,
        understood: &mut Understood,
    ) -> Option<(DeniedBy, String)> {
        let is_asked = self.decision(understood) == Decision::Ask && self.is_attended;
        let checks = self.services.options.checks.as_ref();
        let checks = checks.filter(|_| understood.facts.effect > Effect::Interact);
        if checks.is_some() || is_asked {
            let call = &understood.call;
            understood.diff = tool.preview(&call.input, &understood.facts, &*self.workspace).await;
        }
        let change = PendingChange {
            tool: policy::canonical(&understood.call.tool_name).to_owned(),
            input: understood.call.input.clone(),
            paths: understood.call.target.paths.clone(),
            diff: understood.diff.clone(),
        };
        let examined = checks?.examine(&change, &*self.workspace).await;
        match examined {
            Err(fault) => {
                tracing::warn!(session = %self.session, %fault, "a check failed");
                let reason = format!("denied: the check of this change failed: {fault}");
                Some((DeniedBy::Checks, reason))
            }
            Ok(findings) => {
                let blocking: Vec<String> =
                    findings.iter().filter(|finding| finding.blocking).map(line).collect();
                understood.findings = findings;
                (!blocking.is_empty()).then(|| {
                    (DeniedBy::Checks, format!("denied by a check: {}", blocking.join("; ")))
                })
            }
        }
    }

    /// Lets hooks answer in a person's place, where the call is to be asked for.
    async fn before_asking(
        &self,
        name: &str,
        understood: &mut Understood,
        told: &mut Vec<(Moment, HookAnswer)>,
    ) -> Option<(DeniedBy, String)> {
        let wants = self.services.options.hooks.wants(Moment::PermissionRequest, name);
        if !wants || self.decision(understood) != Decision::Ask {
            return None;
        }
        let suggest = |policy: &Policy, _, call: &policy::Call<'_>| policy.suggest(call);
        let suggestions = self.judge().with(name, &understood.facts, suggest);
        let call = hooked(&understood.call);
        let mut answer = self.tell(&Happening::PermissionRequest { call, suggestions }).await;
        let vote = answer.vote.take();
        let said = vote.map(|vote| reason(answer.reason.take(), vote));
        told.push((Moment::PermissionRequest, answer));
        match (vote, said) {
            (Some(HookVote::Deny), Some(reason)) => Some((DeniedBy::Hook, by_hook(&reason))),
            // A hook before the call that wants it asked for is not overruled by one that answers.
            (Some(HookVote::Allow), Some(reason)) if understood.vote.is_none() => {
                understood.vote = Some((HookVote::Allow, reason));
                None
            }
            _ => None,
        }
    }

    fn judge(&self) -> Judge<'_> {
        Judge {
            policy: &self.policy,
            mode: self.mode,
            cwd: self.workspace.cwd(),
            homes: homes(&*self.workspace, self.services.options.user_home.as_deref()),
            lent: &self.spill,
        }
    }

    fn decision(&self, understood: &Understood) -> Decision {
        let facts = &understood.facts;
        let judged = self.judge().with(&understood.call.tool_name, facts, |policy, mode, call| {
            policy.judge(mode, call).decision
        });
        match understood.vote {
            Some((HookVote::Ask, _)) => judged.max(Decision::Ask),
            _ => judged,
        }
    }
}

fn hooked(call: &ToolCall) -> HookedCall {
    HookedCall {
        id: call.tool_call_id.clone(),
        tool: policy::canonical(&call.tool_name).to_owned(),
        input: call.input.clone(),
        paths: call.target.paths.clone(),
    }
}

fn reason(reason: Option<String>, vote: HookVote) -> String {
    reason.unwrap_or_else(|| {
        match vote {
            HookVote::Allow => "a hook allows it",
            HookVote::Ask => "a hook wants it asked for",
            HookVote::Deny => "a hook forbids it",
        }
        .to_owned()
    })
}

fn by_hook(reason: &str) -> String {
    format!("denied by a hook: {reason}")
}

fn line(finding: &Finding) -> String {
    let Finding { rule_id, message, path, line, .. } = finding;
    let place = match (path, line) {
        (Some(path), Some(line)) => format!(" ({path}:{line})"),
        (Some(path), None) => format!(" ({path})"),
        _ => String::new(),
    };
    format!("{rule_id}: {message}{place}")
}
