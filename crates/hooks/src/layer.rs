//! A settings layer's hooks, and what their origin lets them do.

use std::path::PathBuf;

use crate::settings::HookSet;

/// Whose settings a set of hooks comes from, the most binding first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Settings that an administrator has set for the person.
    Managed,
    /// Settings of the machine.
    System,
    /// The person's own settings.
    User,
    /// A file of the folder that is worked in. Its hooks may deny and ask; their `allow` is no
    /// vote and they change no arguments, because a folder must never loosen what a person set.
    Project,
}

impl Origin {
    /// Tells whether hooks of this origin may allow calls and change their arguments.
    pub fn may_loosen(self) -> bool {
        self != Origin::Project
    }

    /// Whose hooks they are, for a message.
    pub(crate) fn whose(self) -> &'static str {
        match self {
            Origin::Managed => "managed hooks",
            Origin::System => "hooks of the machine",
            Origin::User => "your hooks",
            Origin::Project => "hooks of the project",
        }
    }
}

/// The hooks of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookLayer {
    /// Whose they are.
    pub origin: Origin,
    /// The hooks.
    pub set: HookSet,
    /// The folder that they belong to: the one that holds `.narthex/`, for the hooks of a project.
    /// They run in it, wherever in the project a session works, so that `./guard.sh` is the
    /// program that was trusted. Hooks without a folder run where the session works.
    pub folder: Option<PathBuf>,
}

impl From<(Origin, HookSet)> for HookLayer {
    fn from((origin, set): (Origin, HookSet)) -> Self {
        Self { origin, set, folder: None }
    }
}
