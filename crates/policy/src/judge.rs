//! The policy: all layers together, and their verdict on a call.

mod command;
mod explanation;
mod matching;

use std::path::Path;
use std::sync::Arc;

use protocol::event::DeniedBy;
use protocol::{Effect, Mode, Refusal, RefusalCode};

use crate::shell::{self, Part, Script};
use crate::wildcard::Wildcard;
use crate::{
    Call, Decision, Homes, Layer, LayerName, Rule, Verdict, by_mode, risk, suggest, tool_name,
};
use matching::{Fit, Unit};

pub use explanation::{Explanation, LayerShare, List, Mention, ModeSays, PartExplanation};

/// All layers together. Cheap to clone.
///
/// Layers are added with [`Policy::tighten`] alone and never taken away. The order in which they
/// are added makes no difference: each has its strength by its [`LayerName`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// From strongest to weakest.
    layers: Vec<Arc<Layer>>,
    /// What is asked for whatever lets it run; in the order of the effects.
    asks_for: Vec<Effect>,
}

/// A call with everything that is worked out once.
pub(crate) struct Case<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) tool: &'a str,
    pub(crate) effect: Effect,
    pub(crate) script: Option<Script>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(call: &'a Call<'a>) -> Self {
        Self {
            call,
            tool: tool_name::canonical(call.tool),
            effect: call.full_effect(),
            script: call.command.map(shell::read),
        }
    }

    /// Tells whether the call has an effect, the highest or another one.
    fn has(&self, effect: Effect) -> bool {
        let destroys = || self.script.as_ref().is_some_and(risk::is_destructive);
        self.call.has(effect) || effect == Effect::Destructive && destroys()
    }
}

impl Policy {
    /// Returns the policy with one more layer.
    ///
    /// Nothing that the policy denies is allowed by the result. A layer without allow rules, and
    /// any governing layer, makes no verdict wider; the allow rules of another layer turn
    /// questions into permissions where no stronger layer asks and the governing layers let them.
    #[must_use]
    pub fn tighten(&self, layer: Layer) -> Policy {
        let at = self.layers.partition_point(|other| other.name <= layer.name);
        let mut layers = self.layers.clone();
        layers.insert(at, Arc::new(layer));
        let policy = Policy { layers, asks_for: self.asks_for.clone() };
        if policy.may_persist() { policy } else { policy.without_kept() }
    }

    /// Returns the policy so that it also asks for every call with one of these effects.
    ///
    /// What would run because a mode or an allow rule of any layer lets it is asked for then, and
    /// no hook answers it; what is denied stays denied. A call has the effect that its tool
    /// names, a command is `execute` besides, and one that writes a path is `write`. A command that
    /// deletes or overwrites, or that cannot be read, is `destructive`. Questions to a person are
    /// never asked for: [`Effect::Interact`] has no effect here.
    #[must_use]
    pub fn asking_for(mut self, effects: &[Effect]) -> Policy {
        self.asks_for.extend(effects.iter().filter(|effect| **effect != Effect::Interact));
        self.asks_for.sort_unstable();
        self.asks_for.dedup();
        self
    }

    /// Tells whether a call would run but for the effects that are asked for.
    #[must_use]
    pub fn is_review(&self, mode: Mode, call: &Call<'_>) -> bool {
        let plain = || Policy { layers: self.layers.clone(), asks_for: Vec::new() };
        !self.asks_for.is_empty() && plain().judge(mode, call).decision == Decision::Allow
    }

    /// Returns the effects that are asked for whatever lets them run.
    pub fn asks_for(&self) -> &[Effect] {
        &self.asks_for
    }

    /// Takes out the rules that were kept, where a layer lets none be kept. Whichever came first.
    fn without_kept(mut self) -> Policy {
        for layer in &mut self.layers {
            if layer.is_kept && !layer.allow.is_empty() {
                *layer = Arc::new(Layer { allow: Vec::new(), ..(**layer).clone() });
            }
        }
        self
    }

    /// Returns the layers, from strongest to weakest.
    pub fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().map(|layer| &**layer)
    }

    /// Says whether a call may run in a mode.
    ///
    /// A mode that the policy locks or disables is taken for the widest that it lets, so that a
    /// caller who forgot [`Policy::check_mode`] gains nothing.
    #[must_use]
    pub fn judge(&self, mode: Mode, call: &Call<'_>) -> Verdict {
        let case = Case::new(call);
        self.rule(&self.frame(mode, &case), &case, &parts(&case)).verdict
    }

    /// Says what [`Policy::judge`] says and what that rests on: every rule that speaks of a part
    /// of the call, the one that decides, and the mode's word.
    #[must_use]
    pub fn explain(&self, mode: Mode, call: &Call<'_>) -> Explanation {
        explanation::explain(self, mode, &Case::new(call))
    }

    /// Tells whether a search that was let into a folder has to leave a place in it out.
    ///
    /// `real` is the real absolute path of what the search found, `cwd` and `homes` are those of
    /// the call. True where a deny or ask rule of any layer with a pattern for a tool that reads
    /// fits the path or a folder above it, so that the answer for a folder holds for all beneath
    /// it, and where a deny rule forbids to read files at all. A place that cannot be compared
    /// with a rule is left out. Whether the searching tool itself may run is for
    /// [`Policy::judge`]. Without such rules the cost is a look at empty lists.
    #[must_use]
    pub fn hides<'a>(&self, cwd: &Path, homes: impl Into<Homes<'a>>, real: &Path) -> bool {
        let homes = homes.into();
        self.layers.iter().any(|layer| {
            layer.deny.iter().any(matching::forbids_reading)
                || layer
                    .deny
                    .iter()
                    .chain(&layer.ask)
                    .any(|rule| matching::hides(rule, cwd, homes, real))
        })
    }

    /// Tells whether sessions may have this mode.
    ///
    /// # Errors
    /// [`RefusalCode::LockedByPolicy`], with the layer that locks it.
    pub fn check_mode(&self, mode: Mode) -> Result<(), Refusal> {
        let refuse = |name: LayerName, what: String| {
            Err(Refusal::new(RefusalCode::LockedByPolicy, format!("the {name} {what}")))
        };
        let mut disabling = self.layers().filter(|layer| layer.disable_full_auto);
        match (self.locked_mode(), disabling.next()) {
            (Some((name, locked)), _) if locked != mode => {
                refuse(name, format!("lock the mode to '{locked}'; '{mode}' is refused"))
            }
            (_, Some(layer)) if mode == Mode::FullAuto => {
                refuse(layer.name, "disable the mode 'full-auto'".into())
            }
            _ => Ok(()),
        }
    }

    /// Tells whether sessions may use this model, `provider/model`.
    ///
    /// # Errors
    /// [`RefusalCode::ModelNotAllowed`], with the models that the refusing layer allows.
    pub fn check_model(&self, id: &str) -> Result<(), Refusal> {
        for layer in self.layers() {
            let Some(models) = &layer.models else { continue };
            if models.iter().any(|model| Wildcard::new(model).matches(id.as_bytes())) {
                continue;
            }
            let allowed = models.join(", ");
            let message =
                format!("the {} do not allow the model '{id}'; allowed: {allowed}", layer.name);
            return Err(Refusal::new(RefusalCode::ModelNotAllowed, message));
        }
        Ok(())
    }

    /// Returns the only mode that sessions may have, with the strongest layer that locks it. Of
    /// several locks the tightest holds.
    #[must_use]
    pub fn locked_mode(&self) -> Option<(LayerName, Mode)> {
        let locks = self.layers().filter_map(|layer| Some((layer.name, layer.locked_mode?)));
        // The first of equals.
        locks.min_by_key(|(_, mode)| *mode)
    }

    /// Tells whether an "always" may be kept beyond its session. Where it may not, the answer
    /// holds for the session.
    #[must_use]
    pub fn may_persist(&self) -> bool {
        !self.layers().any(|layer| layer.disable_persist)
    }

    /// Returns the settings' keys that a layer locks, as managed settings spell them.
    #[must_use]
    pub fn locked_keys(&self) -> Vec<&'static str> {
        let mut keys: Vec<_> = self.layers().flat_map(Layer::locked_keys).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Tells whether a grant from outside the layers, for example of a hook, may count for a call:
    /// every governing layer that lists what may be allowed lists it.
    #[must_use]
    pub fn may_grant(&self, call: &Call<'_>) -> bool {
        let case = Case::new(call);
        matching::units(&case).iter().all(|unit| self.unlisting(&case, unit).is_none())
    }

    /// Tells whether a rule speaks of a call at all: it covers one of its parts at least.
    #[must_use]
    pub fn covers(rule: &Rule, call: &Call<'_>) -> bool {
        let case = Case::new(call);
        matching::units(&case).iter().any(|unit| matching::grants(rule, &case, unit))
    }

    /// Returns rules that would allow the call and its like, narrowest first; for a line that no
    /// single rule covers, one for each command that is not covered yet, which allow it together.
    /// None where no rule short of one for every use of the tool would.
    #[must_use]
    pub fn suggest(&self, call: &Call<'_>) -> Vec<String> {
        let case = Case::new(call);
        if self.effect_asked_for(&case).is_some() {
            // No rule would spare the question.
            return Vec::new();
        }
        let rules = suggest::rules(&case);
        if !rules.is_empty() {
            return rules;
        }
        let grants = |part: &Part| {
            let unit = Unit::Command(part);
            let mut allows = self.layers().filter(|layer| !layer.name.is_governing());
            allows.any(|layer| layer.allow.iter().any(|rule| matching::grants(rule, &case, &unit)))
        };
        let parts = suggest::of_parts(&case, grants);
        let mut layer = Layer::new(LayerName::Session);
        layer.allow = Rule::parse_all(&parts).unwrap_or_default();
        let together = self.tighten(layer).judge(Mode::Ask, call);
        if together.decision == Decision::Allow { parts } else { Vec::new() }
    }

    /// Returns the widest mode that is no wider than `mode` and not forbidden.
    pub fn in_force(&self, mode: Mode) -> Mode {
        let mode = self.locked_mode().map_or(mode, |(_, locked)| mode.min(locked));
        let is_disabled = self.layers().any(|layer| layer.disable_full_auto);
        if is_disabled { mode.min(Mode::AutoEdit) } else { mode }
    }

    /// Works out what the mode says to the whole call.
    fn frame(&self, mode: Mode, case: &Case<'_>) -> Frame {
        let mode = self.in_force(mode);
        // What only looks is asked for in plan mode as elsewhere, and not refused.
        let looks = case.script.as_ref().is_some_and(shell::only_looks);
        let refusal = by_mode::refusal(mode, case.effect).filter(|_| !looks);
        // Beyond what a governing layer lists, full-auto grants no more than auto-edit: else the
        // list could be got round by choosing the mode.
        let units = matching::units(case);
        let unlisting = || units.iter().find_map(|unit| self.unlisting(case, unit));
        let default = match unlisting().filter(|_| mode == Mode::FullAuto) {
            None => by_mode::verdict(mode, case.call, case.effect),
            Some(governor) => {
                let mut verdict = by_mode::verdict(Mode::AutoEdit, case.call, case.effect);
                let why = "do not list it, so full-auto mode counts as auto-edit";
                verdict.reason = format!("{}: the {governor} {why}", verdict.reason);
                verdict
            }
        };
        Frame { mode, refusal, default }
    }

    /// Rules on a call by its parts: a deny rule that speaks of any part wins, else the strictest
    /// word holds, and the first of equals is told.
    fn rule<'p>(&'p self, frame: &Frame, case: &Case<'_>, parts: &[Unit<'_>]) -> Ruling<'p> {
        let mut strictest: Option<Ruling<'p>> = None;
        for unit in parts {
            let ruling = self.rule_part(frame, case, unit);
            if ruling.is_denied_by_rule() {
                return ruling;
            }
            strictest = Some(match strictest {
                Some(before) => stricter(before, ruling),
                None => ruling,
            });
        }
        let ruling = strictest.unwrap_or_else(|| Ruling::of_mode(&frame.default));
        if tool_name::is_always_asked(case.tool) && ruling.verdict.decision != Decision::Deny {
            return Ruling::of_always_asked(case.tool);
        }
        match self.effect_asked_for(case) {
            Some(effect) if ruling.verdict.decision == Decision::Allow => ruling.asked_for(effect),
            _ => ruling,
        }
    }

    /// Returns the highest effect of a call that [`Policy::asking_for`] asks for; the effect of a
    /// call that is always asked for.
    #[must_use]
    pub fn asked_effect(&self, call: &Call<'_>) -> Option<Effect> {
        // Most sessions ask for none, and need not have the command read once more.
        let is_always_asked = tool_name::is_always_asked(tool_name::canonical(call.tool));
        if self.asks_for.is_empty() && !is_always_asked {
            return None;
        }
        self.effect_asked_for(&Case::new(call))
    }

    fn effect_asked_for(&self, case: &Case<'_>) -> Option<Effect> {
        if tool_name::is_always_asked(case.tool) {
            return Some(case.effect);
        }
        self.asks_for.iter().rev().copied().find(|effect| case.has(*effect))
    }

    fn rule_part<'p>(&'p self, frame: &Frame, case: &Case<'_>, unit: &Unit<'_>) -> Ruling<'p> {
        let mut unclear = None;
        for (layer, rule) in self.rules(|layer| &layer.deny) {
            let cited = Cited { layer, list: List::Deny, rule };
            match matching::protects(rule, case, unit) {
                Fit::Yes => return cited.rules(Decision::Deny, "denied by"),
                Fit::Perhaps(why) => {
                    unclear.get_or_insert_with(|| cited.unsure(why));
                }
                Fit::No => {}
            }
        }
        if let Some(refusal) = &frame.refusal {
            return Ruling::of_mode(refusal);
        }
        let ruling = match matching::default_of_file(self.mode_for(frame, case, unit), case, unit) {
            Some(default) => self.judge_unit(case, unit, &default),
            None => self.judge_unit(case, unit, &frame.default),
        };
        match unclear {
            Some(unclear) => stricter(ruling, unclear),
            None => ruling,
        }
    }

    fn rules(
        &self,
        list: impl Fn(&Layer) -> &Vec<Rule>,
    ) -> impl Iterator<Item = (LayerName, &Rule)> {
        self.layers().flat_map(move |layer| list(layer).iter().map(|rule| (layer.name, rule)))
    }

    /// Judges one part by ask and allow rules: the stronger layer wins, within one ask wins.
    fn judge_unit<'p>(&'p self, case: &Case<'_>, unit: &Unit<'_>, default: &Verdict) -> Ruling<'p> {
        if case.effect == Effect::Interact {
            return Ruling::of_mode(default);
        }
        for layers in self.layers.chunk_by(|a, b| a.name == b.name) {
            let Some(layer) = layers.first().map(|layer| layer.name) else { continue };
            let asks = layers.iter().flat_map(|layer| &layer.ask);
            if let Some(asked) = asked_by(case, unit, layer, asks) {
                return asked;
            }
            if layer.is_governing() {
                continue;
            }
            let mut allows = layers.iter().flat_map(|layer| &layer.allow);
            if let Some(rule) = allows.find(|rule| matching::grants(rule, case, unit)) {
                let cited = Cited { layer, list: List::Allow, rule };
                return match self.unlisting(case, unit) {
                    None => cited.rules(Decision::Allow, "allowed by"),
                    Some(governor) => cited.beyond_list(governor, default),
                };
            }
        }
        let why = case.script.as_ref().and_then(|script| script.blocked);
        match why {
            Some(why) if default.decision == Decision::Ask => Ruling::of_mode(&Verdict {
                reason: format!("{}; rules with a pattern do not apply: {why}", default.reason),
                ..default.clone()
            }),
            _ => Ruling::of_mode(default),
        }
    }

    /// Returns the mode that counts for a part: what a governing list leaves out, full-auto grants
    /// no further than auto-edit.
    fn mode_for(&self, frame: &Frame, case: &Case<'_>, unit: &Unit<'_>) -> Mode {
        match frame.mode {
            Mode::FullAuto if self.unlisting(case, unit).is_some() => Mode::AutoEdit,
            mode => mode,
        }
    }

    /// Returns the first governing layer that lists what may be allowed and does not list this.
    fn unlisting(&self, case: &Case<'_>, unit: &Unit<'_>) -> Option<LayerName> {
        let mut lists = self.layers().filter(|layer| layer.has_allow_list());
        let unlisting =
            lists.find(|list| !list.allow.iter().any(|rule| matching::grants(rule, case, unit)));
        unlisting.map(|layer| layer.name)
    }
}

/// Takes a call apart into everything that is judged by itself; there is at least one part.
fn parts<'a>(case: &'a Case<'_>) -> Vec<Unit<'a>> {
    let mut parts = matching::units(case);
    parts.extend(matching::written(case));
    parts
}

/// What the mode says to a whole call.
struct Frame {
    /// The mode that is in force.
    mode: Mode,
    /// The refusal that no rule lifts.
    refusal: Option<Verdict>,
    /// What happens where no rule decides.
    default: Verdict,
}

/// A verdict with the rule that it rests on; without one it rests on the mode.
struct Ruling<'p> {
    verdict: Verdict,
    cited: Option<Cited<'p>>,
}

impl Ruling<'_> {
    fn of_mode(verdict: &Verdict) -> Self {
        Self { verdict: verdict.clone(), cited: None }
    }

    /// What a person decides, and no hook in their place.
    fn of_always_asked(tool: &str) -> Self {
        let reason = format!("every call of {tool} is asked for");
        Self { verdict: Verdict::new(Decision::Ask, DeniedBy::Rule, reason), cited: None }
    }

    fn is_denied_by_rule(&self) -> bool {
        self.verdict.decision == Decision::Deny && self.cited.is_some()
    }

    /// Asks for what would run, because of what it may do.
    fn asked_for(self, effect: Effect) -> Self {
        let reason = format!(
            "every call with the effect '{}' is asked for here, although it would run: {}",
            effect.as_str(),
            self.verdict.reason
        );
        Self { verdict: Verdict::new(Decision::Ask, DeniedBy::Rule, reason), cited: None }
    }
}

/// A rule with where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cited<'p> {
    layer: LayerName,
    list: List,
    rule: &'p Rule,
}

impl<'p> Cited<'p> {
    fn rules(self, decision: Decision, what: &str) -> Ruling<'p> {
        let Self { layer, rule, .. } = self;
        let by = match decision {
            Decision::Allow => DeniedBy::Rule,
            Decision::Ask | Decision::Deny => layer.denied_by(),
        };
        let reason = format!("{what} the rule {rule} of the {layer}");
        Ruling { verdict: Verdict::new(decision, by, reason), cited: Some(self) }
    }

    /// It cannot be told whether a protecting rule speaks of the part.
    fn unsure(self, why: &str) -> Ruling<'p> {
        let Self { layer, rule, .. } = self;
        let reason =
            format!("it cannot be told whether the rule {rule} of the {layer} applies: {why}");
        let verdict = Verdict::new(Decision::Ask, layer.denied_by(), reason);
        Ruling { verdict, cited: Some(self) }
    }

    /// An allow rule that a governing layer does not let count; the mode may still let reads run.
    fn beyond_list(self, governor: LayerName, default: &Verdict) -> Ruling<'p> {
        if default.decision == Decision::Allow {
            return Ruling::of_mode(default);
        }
        let Self { layer, rule, .. } = self;
        let reason =
            format!("the {governor} do not list what the rule {rule} of the {layer} allows");
        let verdict = Verdict::new(Decision::Ask, DeniedBy::Policy, reason);
        Ruling { verdict, cited: Some(self) }
    }
}

fn asked_by<'p>(
    case: &Case<'_>,
    unit: &Unit<'_>,
    layer: LayerName,
    mut rules: impl Iterator<Item = &'p Rule>,
) -> Option<Ruling<'p>> {
    rules.find_map(|rule| {
        let cited = Cited { layer, list: List::Ask, rule };
        match matching::protects(rule, case, unit) {
            Fit::No => None,
            Fit::Perhaps(why) => Some(cited.unsure(why)),
            Fit::Yes => Some(cited.rules(Decision::Ask, "asked for by")),
        }
    })
}

/// Returns the stricter of two rulings, the first of equals.
fn stricter<'p>(first: Ruling<'p>, second: Ruling<'p>) -> Ruling<'p> {
    if second.verdict.decision > first.verdict.decision { second } else { first }
}
