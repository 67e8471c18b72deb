//! The policy from outside: tables of commands, the matrix of modes, properties.
#![allow(clippy::unwrap_used, reason = "a shared function that fails fails its test")]

mod corpus;
mod effects;
mod explain;
mod locks;
mod matrix;
mod property;
mod rules;

use std::path::Path;

use policy::{Call, Layer, LayerName, PathUse, Policy, Rule, Verdict};
use protocol::{Effect, Mode};

/// The working folder of every call here.
const CWD: &str = "/srv/app";
const HOME: &str = "/home/me";

fn rules(texts: &[&str]) -> Vec<Rule> {
    Rule::parse_all(texts).unwrap()
}

fn allow(name: LayerName, texts: &[&str]) -> Layer {
    Layer { allow: rules(texts), ..Layer::new(name) }
}

fn ask(name: LayerName, texts: &[&str]) -> Layer {
    Layer { ask: rules(texts), ..Layer::new(name) }
}

fn deny(name: LayerName, texts: &[&str]) -> Layer {
    Layer { deny: rules(texts), ..Layer::new(name) }
}

fn policy(layers: impl IntoIterator<Item = Layer>) -> Policy {
    layers.into_iter().fold(Policy::default(), |policy, layer| policy.tighten(layer))
}

fn call<'a>(tool: &'a str, effect: Effect, paths: &'a [PathUse<'a>]) -> Call<'a> {
    let (cwd, home) = (Path::new(CWD), Some(Path::new(HOME)));
    Call { tool, effect, command: None, host: None, paths, cwd, homes: home.into() }
}

fn shell(command: &str) -> Call<'_> {
    Call { command: Some(command), ..call("run_shell", Effect::Execute, &[]) }
}

fn path(real: &str, is_write: bool) -> PathUse<'_> {
    PathUse { real: Path::new(real), is_write, is_inside: real.starts_with("/srv/app") }
}

fn on_path(policy: &Policy, mode: Mode, tool: &str, real: &str) -> Verdict {
    let is_write = matches!(tool, "write_file" | "edit_file" | "apply_patch");
    let paths = [path(real, is_write)];
    let effect = if is_write { Effect::Write } else { Effect::Read };
    policy.judge(mode, &call(tool, effect, &paths))
}
