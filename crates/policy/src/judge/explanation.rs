//! What a verdict rests on, for people and programs that ask why.
//!
//! The verdicts here are those of the judge itself, part by part; only the list of rules that
//! speak of a part, decisive or not, is put together anew.

use protocol::event::DeniedBy;
use protocol::{Effect, Mode};
use serde::Serialize;

use super::matching::{self, Fit, Unit};
use super::{Case, Cited, Frame, Policy, Ruling, parts};
use crate::{Decision, Layer, LayerName, Verdict};

/// Which list of a layer a rule stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum List {
    /// What never runs.
    Deny,
    /// What is asked for.
    Ask,
    /// What runs without asking.
    Allow,
}

impl List {
    /// Returns the name that programs read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            List::Deny => "deny",
            List::Ask => "ask",
            List::Allow => "allow",
        }
    }
}

/// Why a call gets its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The tool's native name.
    pub tool: String,
    /// The effect that counts.
    pub effect: Effect,
    /// The mode that was asked for.
    pub mode: Mode,
    /// The mode that counts: a wider one than the layers let is taken for theirs.
    pub mode_in_force: Mode,
    /// The verdict, exactly that of [`Policy::judge`].
    pub decision: Decision,
    /// What decided.
    pub by: DeniedBy,
    /// Why, in words.
    pub reason: String,
    /// The rule that decided; none where the mode did.
    pub rule: Option<Mention>,
    /// The effect of the call that is asked for whatever mode and rules let run; absent where
    /// none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks_for: Option<Effect>,
    /// What the mode says where no rule decides, or says whatever the rules say.
    pub mode_says: ModeSays,
    /// The parts, in the order in which they are judged.
    pub parts: Vec<PartExplanation>,
    /// Every layer, from strongest to weakest, those that are not there too.
    pub layers: Vec<LayerShare>,
}

/// What a mode says to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeSays {
    /// Yes, a question, or no.
    pub decision: Decision,
    /// Why, in words.
    pub reason: String,
    /// Whether no rule can lift it.
    pub is_final: bool,
}

/// A part of a call that is judged by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartExplanation {
    /// What it is: `command`, `path`, `written` or `read` (a file that a redirection opens) or
    /// `whole`.
    pub kind: &'static str,
    /// The command or path; of a whole call its tool.
    pub text: String,
    /// The verdict on this part.
    pub decision: Decision,
    /// Why, in words.
    pub reason: String,
    /// Every rule that speaks of the part, the layers from strongest to weakest, in each deny, ask,
    /// allow.
    pub rules: Vec<Mention>,
}

/// A rule that speaks of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mention {
    /// The layer that it stands in.
    pub layer: LayerName,
    /// The list that it stands in.
    pub list: List,
    /// The rule.
    pub rule: String,
    /// Whether it decided the part.
    pub decides: bool,
    /// Why it cannot be told whether it applies; absent where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsure: Option<String>,
}

/// What a layer had to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerShare {
    /// The layer.
    pub layer: LayerName,
    /// Whether there is such a layer.
    pub is_present: bool,
    /// Whether one of its rules or locks speaks of the call.
    pub has_say: bool,
    /// Whether it lists what weaker layers may allow at most and leaves a part of the call out.
    pub leaves_out: bool,
    /// How many rules it has.
    pub rules: usize,
    /// How many of them speak of the call.
    pub matching: usize,
    /// The settings' keys that it locks.
    pub locks: Vec<&'static str>,
}

/// Explains the verdict on a call.
pub(super) fn explain(policy: &Policy, mode: Mode, case: &Case<'_>) -> Explanation {
    let frame = policy.frame(mode, case);
    let parts = parts(case);
    let Ruling { verdict, cited } = policy.rule(&frame, case, &parts);
    let explained: Vec<PartExplanation> =
        parts.iter().map(|unit| explain_part(policy, &frame, case, unit)).collect();
    let (said, is_final) = match &frame.refusal {
        Some(refusal) => (refusal, true),
        None => (&frame.default, false),
    };
    Explanation {
        tool: case.tool.to_owned(),
        effect: case.effect,
        mode,
        mode_in_force: frame.mode,
        decision: verdict.decision,
        by: verdict.by,
        reason: verdict.reason,
        rule: cited.map(|cited| {
            let of_part = explained.iter().flat_map(|part| &part.rules);
            let unsure = of_part
                .filter(|mention| mention.is(cited))
                .find_map(|mention| mention.unsure.clone());
            Mention { decides: true, ..Mention::new(cited, unsure) }
        }),
        asks_for: policy.effect_asked_for(case),
        mode_says: ModeSays { decision: said.decision, reason: said.reason.clone(), is_final },
        layers: LayerName::ALL.map(|name| share(policy, &frame, mode, name, &explained)).into(),
        parts: explained,
    }
}

fn explain_part(
    policy: &Policy,
    frame: &Frame,
    case: &Case<'_>,
    unit: &Unit<'_>,
) -> PartExplanation {
    let Ruling { verdict, cited } = policy.rule_part(frame, case, unit);
    let (kind, text) = describe(case, unit);
    let mut rules: Vec<Mention> =
        policy.layers().flat_map(|layer| mentions(case, unit, layer)).collect();
    // Equal rules of one layer are one to whoever reads them.
    rules.dedup();
    if let Some(mention) =
        rules.iter_mut().find(|mention| cited.is_some_and(|cited| mention.is(cited)))
    {
        mention.decides = true;
    }
    let Verdict { decision, reason, .. } = verdict;
    PartExplanation { kind, text, decision, reason, rules }
}

impl Mention {
    fn new(cited: Cited<'_>, unsure: Option<String>) -> Self {
        let Cited { layer, list, rule } = cited;
        Self { layer, list, rule: rule.to_string(), decides: false, unsure }
    }

    fn is(&self, cited: Cited<'_>) -> bool {
        self.layer == cited.layer && self.list == cited.list && self.rule == cited.rule.to_string()
    }
}

/// Lists the rules of a layer that speak of a part.
fn mentions<'r>(
    case: &'r Case<'_>,
    unit: &'r Unit<'_>,
    layer: &'r Layer,
) -> impl Iterator<Item = Mention> + 'r {
    let name = layer.name;
    let protecting = [(List::Deny, &layer.deny), (List::Ask, &layer.ask)];
    let protecting = protecting.into_iter().flat_map(move |(list, rules)| {
        rules.iter().map(move |rule| Cited { layer: name, list, rule })
    });
    let protecting =
        protecting.filter_map(|cited| match matching::protects(cited.rule, case, unit) {
            Fit::Yes => Some(Mention::new(cited, None)),
            Fit::Perhaps(why) => Some(Mention::new(cited, Some(why.to_owned()))),
            Fit::No => None,
        });
    let granting = layer.allow.iter().filter(|rule| matching::grants(rule, case, unit));
    let granting = granting
        .map(move |rule| Mention::new(Cited { layer: name, list: List::Allow, rule }, None));
    protecting.chain(granting)
}

fn share(
    policy: &Policy,
    frame: &Frame,
    asked: Mode,
    name: LayerName,
    parts: &[PartExplanation],
) -> LayerShare {
    let layers: Vec<&Layer> = policy.layers().filter(|layer| layer.name == name).collect();
    let rules =
        layers.iter().map(|layer| layer.deny.len() + layer.ask.len() + layer.allow.len()).sum();
    let mut matching: Vec<(List, &str)> = parts
        .iter()
        .flat_map(|part| &part.rules)
        .filter(|mention| mention.layer == name)
        .map(|mention| (mention.list, mention.rule.as_str()))
        .collect();
    matching.sort_unstable_by_key(|(list, rule)| (list.as_str(), *rule));
    matching.dedup();
    let narrows = |layer: &&Layer| {
        layer.locked_mode.is_some_and(|locked| locked < asked)
            || layer.disable_full_auto && asked == Mode::FullAuto
    };
    // A list that leaves the call out keeps weaker layers and full-auto from granting it.
    let has_list = layers.iter().any(|layer| layer.has_allow_list());
    let lists = |part: &PartExplanation| {
        part.rules.iter().any(|mention| mention.layer == name && mention.list == List::Allow)
    };
    let leaves_out = has_list && !parts.iter().all(lists);
    let has_say =
        !matching.is_empty() || frame.mode != asked && layers.iter().any(narrows) || leaves_out;
    let mut locks: Vec<_> = layers.iter().flat_map(|layer| layer.locked_keys()).collect();
    locks.dedup();
    let (is_present, matching) = (!layers.is_empty(), matching.len());
    LayerShare { layer: name, is_present, has_say, leaves_out, rules, matching, locks }
}

fn describe(case: &Case<'_>, unit: &Unit<'_>) -> (&'static str, String) {
    match unit {
        Unit::Command(part) => ("command", part.raw()),
        Unit::Path(path) => ("path", path.real.display().to_string()),
        Unit::Written(Some(path)) => ("written", path.display().to_string()),
        Unit::Written(None) => ("written", "a file that is known only when it runs".to_owned()),
        Unit::Fed(Some(path)) => ("read", path.display().to_string()),
        Unit::Fed(None) => ("read", "a file that is known only when it runs".to_owned()),
        Unit::Whole => match case.script.as_ref().and_then(|script| script.opaque) {
            Some(why) => ("whole", format!("what cannot be read of it: {why}")),
            None => ("whole", case.tool.to_owned()),
        },
    }
}
