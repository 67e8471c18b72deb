//! Neurons of Linux: sandboxes made of namespaces, an overlay and filters, by this program alone.
//!
//! The parts, in the order in which they come into play:
//!
//! - [`Plan`] says all that a neuron is to be; [`Report`] what it became, layer by layer.
//! - The launcher (`narthex-agent neuron`) is a fresh process for each neuron. It takes hold of
//!   what is shown of the machine, forks into new namespaces, says who is who in them, sets the
//!   limits, and is gone when the neuron is up.
//! - Its fork builds the root, gives up every right, and is from then on the neuron's first
//!   process, the *warden*: whoever connects to its socket gets a process of their own inside,
//!   for commands (as from any agent) or for files. So a command costs no new sandbox.
//! - Should the warden end, the kernel ends everything in the neuron. Mounts live in its namespace
//!   and go with it; only cgroups remain, see [`remove_cgroups`].
//!
//! Two user namespaces lie within each other. In the outer one, 0 stands for the neuron's host id
//! (or whoever started it) and has all rights over the new namespaces: everything is built there.
//! Commands run in the inner one, as user [`INSIDE_ID`], without a right over anything built.

mod calls;
mod codec;
mod disk;
mod failure;
mod first;
mod groups;
mod launch;
mod layer;
mod mask;
mod notes;
mod plan;
mod probe;
mod protect;
mod relay;
mod restrict;
mod root;
mod source;
mod warden;

use std::process::ExitCode;

pub use codec::CodecError;
pub use disk::mount_image;
pub use groups::{find_cgroups, remove_cgroups};
pub use layer::{Layer, Layers};
pub use plan::{
    Answer, Base, BaseFolder, EGRESS_PORT, Egress, Failure, Folder, FolderWrites, HostId,
    INSIDE_ID, INSIDE_USER, Limits, MESSAGE_MAX, Missing, Plan, Probe, Report, ShownFile,
    WORKSPACE, layout,
};
pub use probe::probe;
pub use warden::{COMMANDS, FILES};

/// The argument that makes this program a launcher.
pub const LAUNCH_ARGUMENT: &str = "neuron";

/// The argument that makes it probe the machine: it writes the length and the encoded [`Probe`] to
/// the socket on its standard input, and exits.
pub const PROBE_ARGUMENT: &str = "probe";

/// Runs the launcher.
pub(crate) fn launch() -> ExitCode {
    launch::run()
}

/// Runs the probe.
pub(crate) fn probe_to_input() -> ExitCode {
    probe::run()
}
