//! Rules of one session: those it was created with, those that people added, those of the flags.

use policy::{Layer, LayerName, Policy, Rule};
use protocol::{Effect, Refusal, RefusalCode};
use runtime_api::{AgentSettings, CreateSession, Error};

use crate::kernel::State;

/// How many rules of a kind a session may be created with: more than people write, few enough to
/// be looked through at every call.
const RULES_MAX: usize = 200;

/// Steps that a prompt or a session may ask for: what turns have where nothing is said. More is
/// for whoever sets the session up.
pub(crate) const STEPS_MAX: u32 = 200;

/// Characters of a session's own text after the system prompt: it is sent with every request.
const APPEND_CHARS_MAX: usize = 100_000;

/// Says what is wrong with what a session is to be created with, before anything is created.
///
/// # Errors
/// `invalid`, with the field that is wrong.
pub(crate) fn check(wanted: &CreateSession) -> Result<(), Refusal> {
    check_each("allow", &wanted.allow)?;
    check_each("deny", &wanted.deny)?;
    if wanted.asks_for.contains(&Effect::Interact) {
        let message = "asks_for: 'interact' is never asked for, since it asks a person itself";
        return Err(invalid(message.to_owned()));
    }
    if wanted.max_turns.is_some_and(|steps| !(1..=STEPS_MAX).contains(&steps)) {
        return Err(invalid(format!("max_turns: expected 1 to {STEPS_MAX}")));
    }
    let text = wanted.append_system_prompt.as_deref().unwrap_or_default();
    let chars = text.chars().count();
    if chars > APPEND_CHARS_MAX {
        return Err(invalid(format!(
            "append_system_prompt: it has {chars} characters, the limit is {APPEND_CHARS_MAX}"
        )));
    }
    Ok(())
}

/// Says which of a list of rules cannot be read.
///
/// # Errors
/// `invalid`, with the rule's place: `allow[2]: …`.
pub(crate) fn check_each(field: &str, rules: &[String]) -> Result<(), Refusal> {
    if rules.len() > RULES_MAX {
        let count = rules.len();
        return Err(invalid(format!("{field}: {count} rules are more than {RULES_MAX}")));
    }
    for (index, rule) in rules.iter().enumerate() {
        rule.parse::<Rule>().map_err(|error| invalid(format!("{field}[{index}]: {error}")))?;
    }
    Ok(())
}

/// Combines the layers above with the session's own rules and those of the flags.
///
/// # Errors
/// `invalid` when a rule cannot be read: a deny rule that is not understood must not be left out.
pub(crate) fn session_policy(
    above: &Policy,
    agent: &AgentSettings,
    state: &State,
) -> Result<Policy, Error> {
    let parse = |name: &str, rules: &[String]| -> Result<Vec<Rule>, Error> {
        Rule::parse_all(rules).map_err(|error| invalid(format!("{name}: {error}")).into())
    };
    let mut flags = Layer::new(LayerName::Flags);
    flags.allow = parse("allow", &agent.allow)?;
    flags.deny = parse("deny", &agent.deny)?;
    let mut session = Layer::new(LayerName::Session);
    session.allow = parse("allow", &state.own.allow)?;
    session.allow.extend(parse("rule", &state.rules)?);
    session.deny = parse("deny", &state.own.deny)?;
    let policy = above.tighten(session).tighten(flags);
    Ok(policy.asking_for(&state.asks_for).asking_for(&agent.asks_for))
}

fn invalid(message: String) -> Refusal {
    Refusal::new(RefusalCode::Invalid, message)
}
