//! What the door asks about policies, answered.

mod bundles;
mod call;
mod remote;
mod report;

use std::path::Path;

use door_cli::{
    ExplainedCall, Failure, Globals, NewKey, PolicyInForce, PolicyMachine, SignedBundle,
    VerifiedBundle,
};
use driver_api::{Hooks, Moment};
use narthex::{CommandHooks, Layer, LayerName, Policy};
use protocol::Effect;

pub(crate) use remote::{ensure, failure, hold};

use crate::machine::Program;
use crate::settings::Settings;

impl PolicyMachine for Program {
    async fn explain(&self, globals: &Globals, call: &str) -> Result<ExplainedCall, Failure> {
        let mut settings = Settings::load(self.want(globals))?;
        ensure(&mut settings).await?;
        let asked = call::Asked::read(call, &settings.places, &globals.add_root)?;
        let policy = with_flags(&settings.policy, globals)?;
        let explanation = asked.with(|call| policy.explain(settings.mode.value, call));
        let voters = voters(&settings, &asked)?;
        Ok(report::explained(&settings, call, (asked.notice(), voters), &explanation))
    }

    async fn policy(&self, globals: &Globals) -> Result<PolicyInForce, Failure> {
        let settings = Settings::load_what_is_right(self.want(globals))?;
        let policy = with_flags(&settings.policy, globals)?;
        Ok(report::in_force(&settings, &policy))
    }

    fn make_key(&self, _: &Globals, out: &Path) -> Result<NewKey, Failure> {
        bundles::make_key(&self.path(out))
    }

    fn sign(
        &self,
        _: &Globals,
        bundle: &Path,
        key: &Path,
        out: Option<&Path>,
    ) -> Result<SignedBundle, Failure> {
        let path = |path: &Path| self.path(path);
        bundles::sign(&path(bundle), &path(key), out.map(path).as_deref())
    }

    fn verify(
        &self,
        globals: &Globals,
        file: &Path,
        keys: &[String],
    ) -> Result<VerifiedBundle, Failure> {
        let settings = Settings::load_what_is_right(self.want(globals))?;
        bundles::verify(&settings, &self.path(file), keys)
    }
}

/// Says who else has a vote on a call, beside the policy.
fn voters(settings: &Settings, asked: &call::Asked) -> Result<Vec<String>, Failure> {
    let hooks = CommandHooks::new(settings.hook_sets.hooks.clone())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let mut voters = Vec::new();
    for (moment, when) in [
        (Moment::PreToolUse, "before each call of"),
        (Moment::PermissionRequest, "before anybody is asked about"),
    ] {
        if hooks.wants(moment, asked.tool()) {
            let name = moment.as_str();
            voters.push(format!("hooks at {name} also vote, {when} {}", asked.tool()));
        }
    }
    if asked.effect() == Effect::Write && !settings.hook_sets.checks.is_empty() {
        voters.push("checks examine the change, and may refuse it".to_owned());
    }
    Ok(voters)
}

/// Adds the rules of the flags, as the runtime does for a session.
fn with_flags(policy: &Policy, globals: &Globals) -> Result<Policy, Failure> {
    let rules = |flag: &str, texts: &[String]| {
        narthex::Rule::parse_all(texts).map_err(|error| Failure::usage(format!("{flag}: {error}")))
    };
    let (allow, deny) = (rules("--allow", &globals.allow)?, rules("--deny", &globals.deny)?);
    if allow.is_empty() && deny.is_empty() {
        return Ok(policy.clone());
    }
    Ok(policy.tighten(Layer { allow, deny, ..Layer::new(LayerName::Flags) }))
}
