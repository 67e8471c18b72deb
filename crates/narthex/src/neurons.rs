//! Neurons: the driver that keeps them, and what one may ask of them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use driver_api::{Clock, Ids, Neurons, Tool};
use runtime::{NeuronDefaults, Policies};
use runtime_api::{Handle, NeuronHandle};

use crate::options::NeuronOptions;
use crate::way_out::{EgressLog, WaysOut};

/// Makes the driver. Nothing is touched yet.
pub(crate) fn driver(
    options: &NeuronOptions,
    home: PathBuf,
    command: Vec<OsString>,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn Neurons> {
    let ways = WaysOut { clock: Arc::clone(clock), audit: Arc::new(EgressLog) };
    let mut kept = sandbox::NeuronOptions::new(home, command);
    kept.neurons_max = options.neurons_max;
    kept.egress = Some(Arc::new(ways));
    kept.clock = Arc::clone(clock);
    sandbox::neurons(kept)
}

/// What asking is made of beside the driver.
pub(crate) struct Surroundings {
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) policies: Policies,
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
    let defaults = NeuronDefaults {
        driver: options.driver,
        isolation: options.isolation,
        limits: options.limits,
        egress: options.egress,
        env: Vec::new(),
    };
    runtime::neuron_runtime(runtime::NeuronOptions {
        neurons,
        tools: around.tools,
        policies: around.policies,
        defaults,
        clock: around.clock,
        ids: around.ids,
        spill: around.spill,
        user_home: around.user_home,
        sessions: Some(around.sessions),
    })
}
