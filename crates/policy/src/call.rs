//! The facts about a call that the policy judges.

use std::path::Path;

use protocol::Effect;

/// A path that a call touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathUse<'a> {
    /// The real absolute path: all links followed. The last parts need not exist yet.
    pub real: &'a Path,
    /// Whether the call may change, create or remove it.
    pub is_write: bool,
    /// Whether it lies beneath a root of the workspace, or in a folder that the runtime lends, for
    /// example the one for long outputs.
    pub is_inside: bool,
}

/// The home folders that rules with `~/` are about, real and absolute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Homes<'a> {
    /// The one of commands in the place where the call acts.
    pub own: Option<&'a Path>,
    /// The one of the person whose rules these are, where the call acts elsewhere: rules that deny
    /// or ask hold there as well, rules that allow do not.
    pub outer: Option<&'a Path>,
}

impl<'a> From<Option<&'a Path>> for Homes<'a> {
    fn from(own: Option<&'a Path>) -> Self {
        Self { own, outer: None }
    }
}

/// One tool call. Everything that needs a look at the world was looked up before.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The tool's native name, or an alias of it.
    pub tool: &'a str,
    /// The highest effect of its parts, as the tool says.
    pub effect: Effect,
    /// The shell command, where the call is one.
    pub command: Option<&'a str>,
    /// The host that it asks, where it asks one by name: lower case, without a port.
    pub host: Option<&'a str>,
    /// The paths that it touches; for a command only those that its arguments name apart from the
    /// command itself, for example the folder to run in.
    pub paths: &'a [PathUse<'a>],
    /// The working folder, real and absolute: relative rules start here.
    pub cwd: &'a Path,
    /// The home folders: rules with `~/` start there.
    pub homes: Homes<'a>,
}

impl Call<'_> {
    /// Returns the effect that counts. A command is at least `execute` and a written path at least
    /// `write`, whatever the tool said.
    pub(crate) fn full_effect(&self) -> Effect {
        let mut effect = self.effect;
        if self.command.is_some() {
            effect = effect.max(Effect::Execute);
        }
        if self.paths.iter().any(|path| path.is_write) {
            effect = effect.max(Effect::Write);
        }
        effect
    }

    /// Tells whether the call has an effect, the highest or another one.
    pub(crate) fn has(&self, effect: Effect) -> bool {
        match effect {
            Effect::Execute if self.command.is_some() => true,
            Effect::Write if self.paths.iter().any(|path| path.is_write) => true,
            effect => self.effect == effect,
        }
    }

    /// Tells whether every path lies inside.
    pub(crate) fn is_inside(&self) -> bool {
        self.paths.iter().all(|path| path.is_inside)
    }
}
