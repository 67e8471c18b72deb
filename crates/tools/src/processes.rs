//! Processes that go on when the call that started them is over.
//!
//! They are the one thing that tools keep between two calls. Each belongs to a scope, which the
//! runtime names: a neuron or a session. Calls of one scope see the same processes and no others.
//! A process ends by itself, by a call, with its session or its neuron, and with the program.

mod kill;
mod list;
mod minded;
mod output;
mod start;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use driver_api::{Process, ProcessScope, Tool, ToolContext, ToolError, Workspace};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use minded::Minded;

/// Processes that one scope runs at once: a few servers and watchers, and no farm.
const RUNNING_MAX: usize = 16;

/// Processes that run at once in all scopes: each may hold a quarter of a mebibyte of output.
const RUNNING_ALL_MAX: usize = 256;

/// Processes of one scope that can be asked for, ended ones with them; the oldest ended one is
/// forgotten first.
const KEPT_MAX: usize = 32;

/// Processes of all scopes that can be asked for: with their output at most 128 MiB.
const KEPT_ALL_MAX: usize = 512;

/// Returns the tools, which share their processes.
pub(crate) fn tools() -> [Arc<dyn Tool>; 4] {
    let processes = Arc::new(Processes::default());
    [
        Arc::new(start::ProcessStart::new(Arc::clone(&processes))),
        Arc::new(list::ProcessList::new(Arc::clone(&processes))),
        Arc::new(output::ProcessOutput::new(Arc::clone(&processes))),
        Arc::new(kill::ProcessKill::new(processes)),
    ]
}

/// All processes, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    all: Mutex<VecDeque<Arc<Minded>>>,
    /// How many were started.
    count: AtomicU64,
    /// The tasks that follow them.
    tasks: TaskTracker,
}

impl Processes {
    /// Takes a place for a process that is about to be started in a scope.
    ///
    /// # Errors
    /// A text for the model when as many run as may.
    fn reserve(&self, scope: ProcessScope, command: &str) -> Result<Place<'_>, String> {
        let mut all = self.all();
        let running = all.iter().filter(|minded| minded.is_running());
        if running.clone().filter(|minded| minded.scope == scope.name).count() >= RUNNING_MAX {
            return Err(format!(
                "{RUNNING_MAX} processes run already, the most that may at once: end one with \
                 process_kill"
            ));
        }
        if running.count() >= RUNNING_ALL_MAX {
            let text = "processes run on this server, the most that may at once: try it later";
            return Err(format!("{RUNNING_ALL_MAX} {text}"));
        }
        let own = all.iter().filter(|other| other.scope == scope.name).count();
        if own >= KEPT_MAX {
            forget(&mut all, |other| other.scope == scope.name);
        }
        if all.len() >= KEPT_ALL_MAX {
            forget(&mut all, |_| true);
        }
        let id = format!("p{}", self.count.fetch_add(1, Ordering::Relaxed) + 1);
        let minded = Arc::new(Minded::new(id, scope.name, command.to_owned()));
        all.push_back(Arc::clone(&minded));
        Ok(Place { processes: self, minded, over: scope.over, is_taken: false })
    }

    /// Finds a process of a scope.
    fn find(&self, scope: &ProcessScope, id: &str) -> Result<Arc<Minded>, ToolError> {
        let found = self.of(&scope.name);
        if let Some(minded) = found.iter().find(|minded| minded.id == id) {
            return Ok(Arc::clone(minded));
        }
        let ids: Vec<_> = found.iter().map(|minded| minded.id.as_str()).collect();
        let there = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
        let id = short(id);
        Err(ToolError::Invalid(format!("there is no process '{id}'; there are: {there}")))
    }

    /// Returns the processes of a scope, the oldest first.
    fn of(&self, scope: &str) -> Vec<Arc<Minded>> {
        self.all().iter().filter(|minded| minded.scope == scope).cloned().collect()
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Arc<Minded>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Characters of what was given as an id that are repeated.
const ID_CHARS_SHOWN: usize = 32;

/// Cuts what was given as an id: it may be anything.
fn short(id: &str) -> String {
    id.chars().filter(|c| !c.is_control()).take(ID_CHARS_SHOWN).collect()
}

/// Forgets the oldest process that has ended.
fn forget(all: &mut VecDeque<Arc<Minded>>, which: impl Fn(&Minded) -> bool) {
    let oldest = all.iter().position(|minded| !minded.is_running() && which(minded));
    if let Some(oldest) = oldest {
        all.remove(oldest);
    }
}

/// The place of a process that is about to be started; dropping it gives the place up.
#[derive(Debug)]
struct Place<'a> {
    processes: &'a Processes,
    minded: Arc<Minded>,
    over: CancellationToken,
    is_taken: bool,
}

impl Place<'_> {
    /// Follows the process to its end.
    fn take(mut self, started: Started) -> Arc<Minded> {
        self.is_taken = true;
        let minded = Arc::clone(&self.minded);
        let followed = minded::follow(Arc::clone(&minded), started, self.over.clone());
        self.processes.tasks.spawn(followed);
        minded
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.is_taken {
            self.processes.all().retain(|other| !Arc::ptr_eq(other, &self.minded));
        }
    }
}

/// A process that was started.
#[derive(Debug)]
struct Started {
    process: Box<dyn Process>,
    pieces: mpsc::Receiver<driver_api::Output>,
    /// Kept open as long as it runs.
    workspace: Arc<dyn Workspace>,
}

/// Returns the scope of a call.
fn scope_of(context: &ToolContext) -> Result<ProcessScope, ToolError> {
    context.host.processes().ok_or_else(|| {
        let text = "no process can go on here after its call: use run_shell";
        ToolError::Invalid(text.to_owned())
    })
}
