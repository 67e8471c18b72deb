//! A call at the gate: looked up, vetted by hooks and checks, judged, asked for.

use driver_api::{Asks, CallFacts, HookVote, Moment, Tool};
use policy::{Decision, Verdict};
use protocol::event::{Answer, DecidedBy, DeniedBy, PermissionRequest, ToolCall, ToolDenied};
use protocol::{Effect, EventBody, Finding, RequestId, ToolCallId};

use super::Session;
use super::vet::{Vetted, Vetting};
use crate::engine::gate::{Examined, Judge, examine, homes};
use crate::kernel::{CallStage, Command, Decided, nobody, said};

/// A call that passed the schema, with everything that its verdict rests on.
#[derive(Debug)]
pub(super) struct Understood {
    pub(super) call: ToolCall,
    pub(super) facts: CallFacts,
    pub(super) asks: Option<Asks>,
    /// What hooks said, as far as they may.
    pub(super) vote: Option<(HookVote, String)>,
    /// What checks found; nothing of it blocks.
    pub(super) findings: Vec<Finding>,
    /// What it will change, where that was worked out.
    pub(super) diff: Option<String>,
}

impl Session {
    /// Lets the gate decide a requested call.
    pub(super) async fn gate(&mut self, id: &ToolCallId) {
        let Some(name) = self.state.call(id).map(|call| call.tool.clone()) else { return };
        let asked = self.live.asked.get(id).cloned();
        let Some(asked) = asked else {
            self.wrong(id, &name, "the arguments of this call were lost: ask again".to_owned());
            return;
        };
        if let Some(raw) = asked.malformed {
            let shown: String = raw.chars().take(200).collect();
            let text = format!(
                "the arguments of {name} are not a JSON object, so nothing was run; they begin: \
                 {shown}"
            );
            return self.wrong(id, &name, text);
        }
        // What was there when the model was asked may have gone since.
        self.renew_offer();
        let Some(tool) = self.tool(&name) else {
            let text = self.no_tool(&name);
            return self.wrong(id, &name, text);
        };
        let schema = self.services.toolbox.schema(&*tool);
        let (call, facts) = match examine(&*tool, &schema, id, &asked.input, &*self.workspace).await
        {
            Examined::Wrong(text) => return self.wrong(id, &name, text),
            Examined::Described(described) => *described,
        };
        let asks = match tool.asks(&asked.input) {
            Ok(asks) => asks,
            Err(error) => return self.wrong(id, &name, error.to_string()),
        };
        let verdict = self.verdict(&call.tool_name, &facts);
        if verdict.decision != Decision::Deny
            && let Some(text) = tool.refuses(&facts, &self.host())
        {
            return self.wrong(id, &name, text);
        }
        // What a rule denies is denied before any program of the user's hears of it.
        if verdict.decision != Decision::Deny && self.is_vetted(&tool, &facts, &verdict) {
            let vetting = Vetting { tool, schema, call, facts, asks };
            return self.vet(vetting);
        }
        let diff = match verdict.decision {
            Decision::Ask if self.agent.is_attended => {
                tool.preview(&asked.input, &facts, &*self.workspace).await
            }
            _ => None,
        };
        let (vote, findings) = (None, Vec::new());
        self.judge(Understood { call, facts, asks, vote, findings, diff });
    }

    /// Tells whether hooks or checks want to see a call.
    fn is_vetted(
        &self,
        tool: &std::sync::Arc<dyn Tool>,
        facts: &CallFacts,
        verdict: &Verdict,
    ) -> bool {
        let options = &self.services.options;
        // Hooks know a tool by its native name.
        let name = policy::canonical(&tool.spec().name);
        let wants = |moment| options.hooks.wants(moment, name);
        let is_checked = options.checks.is_some() && facts.effect > Effect::Interact;
        let is_asked = verdict.decision == Decision::Ask && wants(Moment::PermissionRequest);
        wants(Moment::PreToolUse) || is_checked || is_asked
    }

    /// Takes what hooks and checks said about a call.
    pub(super) async fn vetted(&mut self, id: &ToolCallId, vetted: Vetted) {
        self.live.vetting.remove(id);
        let is_due = self.state.call(id).is_some_and(|call| call.stage == CallStage::Requested);
        if !is_due || self.is_stopping() {
            return;
        }
        let Vetted { understood, refused, input, told } = vetted;
        self.hear(&told);
        if let Some(input) = input
            && let Some(asked) = self.live.asked.get_mut(id)
        {
            asked.input = input;
        }
        match (understood, refused) {
            (Ok(understood), None) => self.judge(*understood),
            (Ok(understood), Some((by, reason))) => {
                let Understood { call, facts, .. } = *understood;
                let (tool_call_id, tool_name) = (id.clone(), call.tool_name.clone());
                self.live.facts.insert(id.clone(), facts);
                self.apply_sure(Command::Describe(call));
                self.apply_sure(Command::Deny(ToolDenied { tool_call_id, tool_name, reason, by }));
            }
            (Err(text), _) => {
                let name = self.state.call(id).map(|call| call.tool.clone()).unwrap_or_default();
                self.wrong(id, &name, text);
            }
        }
    }

    /// Returns what the policy says about a call now.
    fn verdict(&self, tool: &str, facts: &CallFacts) -> Verdict {
        let spill = self.spill_dir();
        self.judging(&spill).with(tool, facts, |policy, mode, call| policy.judge(mode, call))
    }

    /// Returns what verdicts rest on.
    pub(super) fn judging<'a>(&'a self, spill: &'a std::path::Path) -> Judge<'a> {
        Judge {
            policy: &self.policy,
            mode: self.state.mode,
            cwd: self.workspace.cwd(),
            homes: homes(&*self.workspace, self.services.options.user_home.as_deref()),
            lent: spill,
        }
    }

    /// Judges a call that is understood: it may run, is asked for, or is denied.
    fn judge(&mut self, understood: Understood) {
        let Understood { call, facts, asks, vote, findings, diff } = understood;
        let id = call.tool_call_id.clone();
        let verdict = self.verdict(&call.tool_name, &facts);
        if matches!(vote, Some((HookVote::Ask, _))) {
            self.live.held.insert(id.clone());
        }
        let verdict = self.with_vote(verdict, vote, &call.tool_name, &facts);
        let ask = (verdict.decision == Decision::Ask && self.agent.is_attended).then(|| {
            let spill = self.spill_dir();
            let make = |policy: &policy::Policy, mode, c: &policy::Call<'_>| {
                let is_review = verdict.by == DeniedBy::Rule && policy.is_review(mode, c);
                (policy.suggest(c), policy::risk(c), policy.asked_effect(c), is_review)
            };
            let (suggested_rules, risk, asked, review) =
                self.judging(&spill).with(&call.tool_name, &facts, make);
            EventBody::from(PermissionRequest {
                request_id: RequestId::new(self.services.fresh_id()),
                tool_call_id: id.clone(),
                tool_name: call.tool_name.clone(),
                effect: asked.map_or(facts.effect, |asked| asked.max(facts.effect)),
                target: call.target.clone(),
                input: call.input.clone(),
                suggested_rules,
                risk,
                reason: Some(verdict.reason.clone()),
                review,
                diff,
                checks: findings,
                expires_at: self.expiry(),
            })
        });
        let tool_name = call.tool_name.clone();
        self.live.facts.insert(id.clone(), facts);
        if let Some(asked) = self.live.asked.get_mut(&id) {
            asked.paths.clone_from(&call.target.paths);
            asked.judged = Some((self.state.mode, std::sync::Arc::clone(&self.policy)));
        }
        self.apply_sure(Command::Describe(call));
        if let Some(asks) = asks
            && verdict.decision != Decision::Deny
        {
            return self.ask_person(id, tool_name, asks);
        }
        match (verdict.decision, ask) {
            // What is described and neither waits nor is denied may run.
            (Decision::Allow, _) => {}
            (Decision::Ask, Some(request)) => {
                let summary = format!("permission is needed for {tool_name}");
                self.apply_sure(Command::Ask(request));
                self.notify_hooks(summary, "permission_prompt");
            }
            (Decision::Ask, None) => {
                self.apply_sure(Command::Deny(nobody(id, tool_name, &verdict.reason)));
            }
            (Decision::Deny, _) => {
                let (reason, by) = (format!("denied: {}", verdict.reason), verdict.by);
                let denied = ToolDenied { tool_call_id: id, tool_name, reason, by };
                self.apply_sure(Command::Deny(denied));
            }
        }
    }

    /// Lets the vote of hooks count: it makes a verdict stricter, or spares a question that only
    /// the mode asks. What a rule or a governing layer asks for stays asked for.
    pub(super) fn with_vote(
        &self,
        verdict: Verdict,
        vote: Option<(HookVote, String)>,
        tool: &str,
        facts: &CallFacts,
    ) -> Verdict {
        let Some((vote, reason)) = vote else { return verdict };
        let said = |decision| Verdict { decision, by: DeniedBy::Hook, reason };
        match (vote, verdict.decision) {
            (HookVote::Ask, Decision::Allow) => said(Decision::Ask),
            (HookVote::Allow, Decision::Ask) if verdict.by == DeniedBy::Mode => {
                let spill = self.spill_dir();
                let may =
                    self.judging(&spill).with(tool, facts, |policy, _, c| policy.may_grant(c));
                if may { said(Decision::Allow) } else { verdict }
            }
            _ => verdict,
        }
    }

    /// Denies a call that may run but is forbidden by now: the mode or a rule has changed since its
    /// verdict. True when it did.
    pub(super) fn is_denied_now(&mut self, id: &ToolCallId) -> bool {
        let Some(call) = self.state.call(id) else { return false };
        if !matches!(call.stage, CallStage::Described(_) | CallStage::Allowed(_)) {
            return false;
        }
        let judged = self.live.asked.get(id).and_then(|asked| asked.judged.as_ref());
        let is_as_before = judged.is_some_and(|(mode, policy)| {
            *mode == self.state.mode && std::sync::Arc::ptr_eq(policy, &self.policy)
        });
        let (name, facts) = (call.tool.clone(), self.live.facts.get(id));
        let Some(facts) = facts else { return false };
        if is_as_before {
            return false;
        }
        let verdict = self.verdict(&name, facts);
        if verdict.decision != Decision::Deny {
            return false;
        }
        let (reason, by) = (format!("denied: {}", verdict.reason), verdict.by);
        let tool_call_id = id.clone();
        self.apply_sure(Command::Deny(ToolDenied { tool_call_id, tool_name: name, reason, by }));
        true
    }

    /// Asks a person what a call asks by itself; denies it where nobody is there.
    fn ask_person(&mut self, id: ToolCallId, tool: String, asks: Asks) {
        if matches!(asks, Asks::Plan { .. }) && self.state.mode != protocol::Mode::Plan {
            let mode = self.state.mode;
            let text = format!("the mode is {mode}, not plan: there is no plan to approve, go on");
            return self.wrong(&id, &tool, text);
        }
        if self.agent.is_attended {
            let (summary, kind) = match &asks {
                Asks::Question { question, .. } => (question.clone(), "question"),
                Asks::Plan { .. } => ("a plan waits for approval".to_owned(), "plan"),
            };
            let request = self.request_of(id, asks);
            self.apply_sure(Command::Ask(request));
            self.notify_hooks(summary, kind);
        } else {
            self.apply_sure(Command::Deny(nobody(id, tool, "only a person can answer it")));
        }
    }

    /// Lets calls run that wait for a person and need nobody any more: a new rule or mode covers
    /// them.
    pub(super) fn settle_covered(&mut self) {
        let calls = self.state.turn.as_ref().map(|turn| turn.calls.clone()).unwrap_or_default();
        for call in calls {
            let CallStage::Waiting(wait, _) = &call.stage else { continue };
            let is_permission = wait.kind == protocol::event::InteractionKind::Permission;
            if !is_permission || self.live.held.contains(&call.id) {
                continue;
            }
            let Some(facts) = self.live.facts.get(&call.id) else { continue };
            if self.verdict(&call.tool, facts).decision == Decision::Allow {
                let (request, answer) = (wait.request.clone(), Answer::AllowOnce);
                let (by, rule, told) = (DecidedBy::Policy, None, String::new());
                let decided = Decided { request, answer, by, rule, told, is_host: false };
                self.apply_sure(Command::Resolve(decided));
            }
        }
    }

    /// Answers a call that was found wrong before anything ran.
    pub(super) fn wrong(&mut self, id: &ToolCallId, name: &str, text: String) {
        let result = said(id.clone(), name.to_owned(), text, true);
        self.apply_sure(Command::Finish(result));
    }
}
