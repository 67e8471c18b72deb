//! The start of a neuron's first process, and what it turns out to be.

use std::path::PathBuf;

use ::agent::neuron as plan;
use driver_api::{Fault, Isolation, IsolationLevel, NeuronDriver, NeuronError, NeuronSpec, Writes};

use super::creation::HOME;
use super::disk;
use super::door::Door;
use super::driver::{Driver, failed};
use super::egress::EgressPlace;
use super::home::Folder;
use super::process::Identity;
use super::state::State;

/// How many processes and threads a neuron may have where nothing else is said: a build on a large
/// machine has hundreds, and one that forks without end is stopped before the machine is.
const PIDS_DEFAULT: u32 = 4_096;

/// A neuron whose folder is made.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) spec: &'a NeuronSpec,
    pub(super) folder: &'a Folder,
    /// What it is shown of its way out.
    pub(super) way: Option<&'a EgressPlace>,
    /// Why its limited disk is in memory.
    pub(super) in_memory: Option<&'a str>,
    /// Whether its disk holds nothing yet.
    pub(super) is_new: bool,
}

impl Driver {
    /// Starts its first process, and writes into its state, in its folder too, what it became.
    pub(super) fn start(&self, start: &Start<'_>, state: &mut State) -> Result<(), NeuronError> {
        let Start { spec, folder, in_memory, is_new, .. } = start;
        let id = &spec.id;
        let plan = self.plan(start, state.uid);
        let socket = Door::new(id.clone(), folder.path().to_owned()).bind();
        let socket = socket.map_err(failed(format!("make the socket of neuron {id}")))?;
        let answer = self.launcher.launch(&plan, socket);
        let mut report = match answer.map_err(failed(format!("start neuron {id}")))? {
            plan::Answer::Up(report) => report,
            plan::Answer::Failed(failure) => {
                return Err(Fault::with(format!("start neuron {id}"), failure).into());
            }
        };
        state.cgroups = report.cgroups;
        let first = Identity::of(report.pid);
        state.process = first.map_err(failed(format!("look at neuron {id}")))?;
        if state.process.is_none() {
            let text = format!("the first process of neuron {id} died as soon as it ran");
            return Err(Fault::new(text).into());
        }
        if spec.driver == NeuronDriver::Namespace {
            state.workspace = report.workspace;
        }
        state.is_in_memory = report.is_in_memory;
        if let Some(reason) = in_memory {
            let reason = (*reason).to_owned();
            report.missing.push(plan::Missing { layer: plan::Layer::Disk, reason });
        }
        if report.is_in_memory && disk::image(folder).is_some() {
            if !is_new {
                // With an empty one in its place it would seem that all its files are gone.
                let why = report.missing.iter().find(|it| it.layer == plan::Layer::Disk);
                let why = why.map_or("the machine does not say why", |it| it.reason.as_str());
                let text = format!("the disk of neuron {id} cannot be mounted: {why}");
                return Err(NeuronError::NotSupported(text));
            }
            disk::remove(folder).map_err(failed("remove a disk that cannot be used"))?;
        }
        state.set_isolation(isolation(spec.driver, report.layers, &report.missing));
        // Written before it is judged: whoever takes it back knows what to end.
        state.write(folder.path()).map_err(failed("write the state of a neuron"))
    }

    fn plan(&self, start: &Start<'_>, uid: Option<u32>) -> plan::Plan {
        let Start { spec, folder, way, .. } = start;
        let is_apart = spec.driver == NeuronDriver::Namespace;
        let egress =
            way.map(|way| plan::Egress { folder: folder.egress(), socket: way.socket.clone() });
        let files = way.iter().flat_map(|way| way.files.iter().cloned());
        let files = files
            .map(|(name, inside)| plan::ShownFile { outside: folder.egress().join(name), inside });
        plan::Plan {
            name: self.home.host_name(&spec.id),
            layers: if is_apart { plan::Layers::ALL } else { plan::Layers::NONE },
            base: plan::Base::default(),
            layer: folder.layer(),
            disk: disk::image(folder),
            folder: spec.folder.clone().map(|path| plan::Folder {
                path,
                writes: match spec.writes {
                    Writes::Overlay => plan::FolderWrites::Layer,
                    Writes::Folder => plan::FolderWrites::Through,
                },
            }),
            home: PathBuf::from(HOME),
            host_id: uid.map(|uid| plan::HostId { uid, gid: uid }),
            limits: plan::Limits {
                memory_bytes: spec.limits.memory_bytes,
                pids: Some(spec.limits.pids.unwrap_or(PIDS_DEFAULT)),
                cpu_millis: spec.limits.cpu_millis,
                disk_bytes: spec.limits.disk_bytes,
            },
            cgroup_parents: Vec::new(),
            egress,
            files: files.collect(),
        }
    }
}

/// Says how far a neuron is kept apart.
pub(super) fn isolation(
    driver: NeuronDriver,
    layers: plan::Layers,
    missing: &[plan::Missing],
) -> Isolation {
    if driver == NeuronDriver::Host {
        let reason = "driver host keeps nothing apart: commands run as this user, with all that \
            it may read, write and reach";
        let reasons = vec![reason.to_owned()];
        return Isolation { level: IsolationLevel::None, layers: Vec::new(), reasons };
    }
    // What is in force in part only is among the layers too: it counts, and its reason is told.
    let lacks = |missing: &plan::Missing| missing.layer.is_wall() && !layers.has(missing.layer);
    let is_whole = !missing.iter().any(lacks);
    let level = match layers.iter().any(plan::Layer::is_wall) {
        true if is_whole => IsolationLevel::Full,
        true => IsolationLevel::Partial,
        false => IsolationLevel::None,
    };
    Isolation {
        level,
        layers: layers.iter().map(|layer| layer.as_str().to_owned()).collect(),
        reasons: missing.iter().map(|missing| missing.reason.clone()).collect(),
    }
}
