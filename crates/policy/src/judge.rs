//! The policy: all layers together, and their verdict on a call.

mod matching;

use std::path::Path;
use std::sync::Arc;

use protocol::event::DeniedBy;
use protocol::{Effect, Mode, Refusal, RefusalCode};

use crate::shell::{self, Script};
use crate::wildcard::Wildcard;
use crate::{Call, Decision, Layer, LayerName, Rule, Verdict, by_mode, suggest, tool_name};
use matching::{Fit, Unit};

/// All layers together. Cheap to clone.
///
/// Layers are added with [`Policy::tighten`] alone and never taken away. The order in which they
/// are added makes no difference: each has its strength by its [`LayerName`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// From strongest to weakest.
    layers: Vec<Arc<Layer>>,
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
        Policy { layers }
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
        let mode = self.in_force(mode);
        let units = matching::units(&case);
        let mut unclear = None;
        for unit in units.iter().chain(&matching::written(&case)) {
            for (layer, rule) in self.rules(|layer| &layer.deny) {
                match matching::protects(rule, &case, unit) {
                    Fit::Yes => return denied(layer, rule),
                    Fit::Perhaps(why) => {
                        unclear.get_or_insert((why, layer, rule));
                    }
                    Fit::No => {}
                }
            }
        }
        if let Some(refusal) = by_mode::refusal(mode, case.effect) {
            return refusal;
        }
        let default = self.default_verdict(mode, &case);
        let mut verdict = units
            .iter()
            .map(|unit| self.judge_unit(&case, unit, &default))
            .reduce(stricter)
            .unwrap_or(default);
        for unit in &matching::written(&case) {
            if let Some(asked) = self.asked_for(&case, unit) {
                verdict = stricter(verdict, asked);
            }
        }
        match unclear {
            Some((why, layer, rule)) => stricter(verdict, unsure(why, layer, rule)),
            None => verdict,
        }
    }

    /// Tells whether a search that was let into a folder has to leave a place in it out.
    ///
    /// `real` is the real absolute path of what the search found, `cwd` and `home` are those of
    /// the call. True where a deny or ask rule of any layer with a pattern for a tool that reads
    /// fits the path or a folder above it, so that the answer for a folder holds for all beneath
    /// it, and where a deny rule forbids to read files at all. A place that cannot be compared
    /// with a rule is left out. Whether the searching tool itself may run is for
    /// [`Policy::judge`]. Without such rules the cost is a look at empty lists.
    #[must_use]
    pub fn hides(&self, cwd: &Path, home: Option<&Path>, real: &Path) -> bool {
        self.layers.iter().any(|layer| {
            layer.deny.iter().any(matching::forbids_reading)
                || layer
                    .deny
                    .iter()
                    .chain(&layer.ask)
                    .any(|rule| matching::hides(rule, cwd, home, real))
        })
    }

    /// Tells whether sessions may have this mode.
    ///
    /// # Errors
    /// [`RefusalCode::LockedByPolicy`], with the layer that locks it.
    pub fn check_mode(&self, mode: Mode) -> Result<(), Refusal> {
        for layer in self.layers() {
            let refuse = |what: String| {
                Err(Refusal::new(RefusalCode::LockedByPolicy, format!("the {} {what}", layer.name)))
            };
            match layer.locked_mode {
                Some(locked) if locked != mode => {
                    return refuse(format!("lock the mode to '{locked}'; '{mode}' is refused"));
                }
                _ if layer.disable_full_auto && mode == Mode::FullAuto => {
                    return refuse("disable the mode 'full-auto'".into());
                }
                _ => {}
            }
        }
        Ok(())
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

    /// Returns rules that would allow the call and its like, narrowest first; none where no rule
    /// short of one for every use of the tool would.
    #[must_use]
    pub fn suggest(&self, call: &Call<'_>) -> Vec<String> {
        suggest::rules(&Case::new(call))
    }

    /// Returns the widest mode that is no wider than `mode` and not forbidden.
    fn in_force(&self, mode: Mode) -> Mode {
        let locked = self.layers().filter_map(|layer| layer.locked_mode);
        let mode = locked.fold(mode, Mode::min);
        let is_disabled = self.layers().any(|layer| layer.disable_full_auto);
        if is_disabled { mode.min(Mode::AutoEdit) } else { mode }
    }

    fn rules(
        &self,
        list: impl Fn(&Layer) -> &Vec<Rule>,
    ) -> impl Iterator<Item = (LayerName, &Rule)> {
        self.layers().flat_map(move |layer| list(layer).iter().map(|rule| (layer.name, rule)))
    }

    /// What happens where no rule decides. Beyond what a governing layer lists, full-auto grants
    /// no more than auto-edit: else the list could be got round by choosing the mode.
    fn default_verdict(&self, mode: Mode, case: &Case<'_>) -> Verdict {
        let is_listed = || matching::units(case).iter().all(|unit| self.is_within_list(case, unit));
        let mode = if mode == Mode::FullAuto && !is_listed() { Mode::AutoEdit } else { mode };
        by_mode::verdict(mode, case.call, case.effect)
    }

    /// Judges one part by ask and allow rules: the stronger layer wins, within one ask wins.
    fn judge_unit(&self, case: &Case<'_>, unit: &Unit<'_>, default: &Verdict) -> Verdict {
        if case.effect == Effect::Interact {
            return default.clone();
        }
        for layers in self.layers.chunk_by(|a, b| a.name == b.name) {
            let Some(name) = layers.first().map(|layer| layer.name) else { continue };
            let asks = layers.iter().flat_map(|layer| &layer.ask);
            if let Some(asked) = asked_by(case, unit, name, asks) {
                return asked;
            }
            if name.is_governing() {
                continue;
            }
            let mut allows = layers.iter().flat_map(|layer| &layer.allow);
            if let Some(rule) = allows.find(|rule| matching::grants(rule, case, unit)) {
                return match self.is_within_list(case, unit) {
                    true => Verdict::new(
                        Decision::Allow,
                        DeniedBy::Rule,
                        format!("allowed by the rule {rule} of the {name}"),
                    ),
                    false => beyond_list(rule, name, default),
                };
            }
        }
        let why = case.script.as_ref().and_then(|script| script.blocked);
        match why {
            Some(why) if default.decision == Decision::Ask => Verdict {
                reason: format!("{}; rules with a pattern do not apply: {why}", default.reason),
                ..default.clone()
            },
            _ => default.clone(),
        }
    }

    /// Looks for an ask rule of any layer.
    fn asked_for(&self, case: &Case<'_>, unit: &Unit<'_>) -> Option<Verdict> {
        self.layers().find_map(|layer| asked_by(case, unit, layer.name, layer.ask.iter()))
    }

    /// Tells whether every governing layer that lists what may be allowed lists this.
    fn is_within_list(&self, case: &Case<'_>, unit: &Unit<'_>) -> bool {
        let mut lists = self.layers().filter(|layer| layer.name.is_governing());
        lists.all(|layer| {
            layer.allow.is_empty()
                || layer.allow.iter().any(|rule| matching::grants(rule, case, unit))
        })
    }
}

fn asked_by<'r>(
    case: &Case<'_>,
    unit: &Unit<'_>,
    name: LayerName,
    mut rules: impl Iterator<Item = &'r Rule>,
) -> Option<Verdict> {
    let by = name.denied_by();
    rules.find_map(|rule| match matching::protects(rule, case, unit) {
        Fit::No => None,
        Fit::Perhaps(why) => Some(unsure(why, name, rule)),
        Fit::Yes => Some(Verdict::new(
            Decision::Ask,
            by,
            format!("asked for by the rule {rule} of the {name}"),
        )),
    })
}

fn denied(name: LayerName, rule: &Rule) -> Verdict {
    let reason = format!("denied by the rule {rule} of the {name}");
    Verdict::new(Decision::Deny, name.denied_by(), reason)
}

fn unsure(why: &str, name: LayerName, rule: &Rule) -> Verdict {
    let reason = format!("it cannot be told whether the rule {rule} of the {name} applies: {why}");
    Verdict::new(Decision::Ask, name.denied_by(), reason)
}

/// An allow rule that a governing layer does not let count; the mode may still let reads run.
fn beyond_list(rule: &Rule, name: LayerName, default: &Verdict) -> Verdict {
    if default.decision == Decision::Allow {
        return default.clone();
    }
    let reason =
        format!("the managed settings do not list what the rule {rule} of the {name} allows");
    Verdict::new(Decision::Ask, DeniedBy::Policy, reason)
}

/// Returns the stricter of two verdicts, the first of equals.
fn stricter(first: Verdict, second: Verdict) -> Verdict {
    if second.decision > first.decision { second } else { first }
}
