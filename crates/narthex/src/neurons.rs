//! Neurons: the driver that keeps them, and what one may ask of them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use driver_api::{Checks, Clock, Ids, NeuronDriver, Neurons, Tool};
use runtime::{NeuronDefaults, Policies, Sandboxes};
use runtime_api::{Handle, NeuronHandle};

use crate::options::NeuronOptions;
use crate::way_out::WaysOut;

/// Makes the driver. Nothing is touched yet.
pub(crate) fn driver(
    options: &NeuronOptions,
    home: PathBuf,
    command: Vec<OsString>,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn Neurons> {
    let ways = WaysOut::new(Arc::clone(clock));
    let mut kept = sandbox::NeuronOptions::new(home, command);
    kept.neurons_max = options.neurons_max;
    // A pool of what is never asked for would be of no use.
    kept.warm = if options.driver == NeuronDriver::Namespace { options.warm } else { 0 };
    kept.usual_limits = options.limits;
    kept.usual_egress = options.egress.clone();
    kept.egress = Some(Arc::new(ways));
    kept.clock = Arc::clone(clock);
    sandbox::neurons(kept)
}

/// Says what sandboxes of sessions' own are.
pub(crate) fn sandboxes(options: &NeuronOptions, usual: NeuronDriver) -> Sandboxes {
    Sandboxes { usual, writes: options.session_writes, neuron: defaults(options.clone()) }
}

fn defaults(options: NeuronOptions) -> NeuronDefaults {
    NeuronDefaults {
        driver: options.driver,
        isolation: options.isolation,
        limits: options.limits,
        egress: options.egress,
        env: Vec::new(),
    }
}

/// What asking is made of beside the driver.
pub(crate) struct Surroundings {
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) policies: Policies,
    pub(crate) checks: Option<Arc<dyn Checks>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) spill: PathBuf,
    pub(crate) user_home: Option<PathBuf>,
    pub(crate) sessions: Handle,
}

/// Makes what doors ask.
pub(crate) fn handle(
    options: NeuronOptions,
    neurons: Arc<dyn Neurons>,
    around: Surroundings,
) -> NeuronHandle {
    let defaults = defaults(options);
    runtime::neuron_runtime(runtime::NeuronOptions {
        neurons,
        tools: around.tools,
        policies: around.policies,
        checks: around.checks,
        defaults,
        clock: around.clock,
        ids: around.ids,
        spill: around.spill,
        user_home: around.user_home,
        sessions: Some(around.sessions),
    })
}
