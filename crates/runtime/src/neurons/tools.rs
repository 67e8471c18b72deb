//! Tools that run in a neuron, outside of any session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use driver_api::{
    Access, CallFacts, ProcessScope, Tool, ToolContext, ToolError, ToolHost, ToolOutcome,
    WorkspaceError,
};
use policy::{Policy, canonical};
use protocol::{Block, NeuronId, Refusal, ToolCallId};
use runtime_api::Error;
use runtime_api::neuron::{ToolListing, ToolRan, ToolRun};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio_util::sync::CancellationToken;

use super::check::Pending;
use super::{House, invalid};
use crate::engine::calls::scope_of;
use crate::engine::gate::{Examined, KnownHomes, examine};
use crate::engine::limits::cap;

/// Characters of a tool's name that an error repeats.
const NAME_CHARS_SHOWN: usize = 64;

/// What a call may use: its caller decides what is done, so nothing has to be read before.
#[derive(Debug)]
struct Caller {
    policy: Arc<Policy>,
    cwd: PathBuf,
    homes: KnownHomes,
    neuron: NeuronId,
}

#[async_trait]
impl ToolHost for Caller {
    fn seen(&self, _: &str) -> Option<String> {
        None
    }

    fn overwrites_unseen(&self) -> bool {
        true
    }

    fn may_read(&self, path: &Path) -> bool {
        !self.policy.hides(&self.cwd, self.homes.get(), path)
    }

    fn processes(&self) -> Option<ProcessScope> {
        // They end with their neuron, and with this program.
        Some(ProcessScope { name: scope_of(&self.neuron), over: CancellationToken::new() })
    }
}

impl House {
    /// Lists tools by the names under which they are offered, in the order of the tools.
    pub(super) fn listings(&self, offered: &[String]) -> Vec<ToolListing> {
        let list = |tool: &Arc<dyn Tool>| {
            let spec = tool.spec();
            let name = offered.iter().find(|name| canonical(name) == canonical(&spec.name))?;
            Some(ToolListing {
                name: name.clone(),
                description: spec.description.clone(),
                input_schema: spec.input_schema.clone(),
                effect: tool.effect(),
                is_always_asked: policy::is_always_asked(canonical(&spec.name)),
            })
        };
        self.options.tools.iter().filter_map(list).collect()
    }

    /// Finds a tool that is offered.
    fn offered(&self, run: &ToolRun) -> Result<Arc<dyn Tool>, Refusal> {
        let is_offered = run.offered.iter().any(|name| canonical(name) == canonical(&run.tool));
        let found = is_offered.then(|| self.toolbox.native(&run.tool)).flatten();
        found.ok_or_else(|| {
            let shown: String = run.tool.chars().take(NAME_CHARS_SHOWN).collect();
            let names = self.listings(&run.offered);
            let names: Vec<_> = names.iter().map(|tool| tool.name.as_str()).collect();
            invalid(format!("tool: no tool '{shown}' is offered; there are {}", names.join(", ")))
        })
    }

    pub(super) async fn run_named(
        &self,
        neuron: &NeuronId,
        run: ToolRun,
    ) -> Result<ToolRan, Error> {
        let tool = self.offered(&run)?;
        let name = tool.spec().name.clone();
        let _admitted = self.admit()?;
        let workspace = self.enter(neuron).await?;
        let (id, schema) = (ToolCallId::new(self.fresh_id()), self.toolbox.schema(&*tool));
        let described = match examine(&*tool, &schema, &id, &run.input, &*workspace).await {
            Examined::Wrong(text) => return Err(invalid(format!("input: {text}")).into()),
            Examined::Described(described) => *described,
        };
        let (_, facts) = described;
        match tool.asks(&run.input) {
            Ok(None) => {}
            Ok(Some(_)) => {
                let text = format!("tool: {name} asks a person, and nobody is asked here");
                return Err(invalid(text).into());
            }
            Err(error) => return Err(invalid(format!("input: {error}")).into()),
        }
        let spill = self.spill_of(neuron);
        self.pass(&name, &facts, self.grounds(&*workspace), &spill)?;
        let host = Arc::new(Caller {
            policy: self.options.policies.current(),
            cwd: workspace.cwd().to_owned(),
            homes: KnownHomes::of(&*workspace, self.options.user_home.as_deref()),
            neuron: neuron.clone(),
        });
        if let Some(text) = tool.refuses(&facts, &*host) {
            return Err(invalid(format!("input: {text}")).into());
        }
        if self.options.checks.is_some() {
            let diff = tool.preview(&run.input, &facts, &*workspace).await;
            let pending = Pending { input: &run.input, facts: &facts, diff };
            self.examine(&name, pending, &*workspace).await?;
        }
        let cancel = CancellationToken::new();
        // A caller who left stops the call.
        let _stops = cancel.clone().drop_guard();
        // Nobody watches live output.
        let (progress, _) = mpsc::channel(1);
        let context = ToolContext {
            call: id,
            workspace,
            host,
            progress,
            cancel,
            spill_dir: spill,
            images: true,
        };
        let begun = self.options.clock.elapsed();
        let ran = {
            let _held = self.hold(neuron, &facts).await;
            tool.run(&run.input, &facts, &context).await
        };
        let outcome = match ran {
            Ok(outcome) => outcome,
            Err(error) => self.failed(neuron, error).await?,
        };
        let took = self.options.clock.elapsed().saturating_sub(begun);
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let ToolOutcome { mut content, is_error, .. } = outcome;
        cap(&mut content);
        Ok(ToolRan { output: text_of(&content), is_error, duration_ms })
    }

    /// Waits until no other call of this door writes what a call writes.
    async fn hold(&self, neuron: &NeuronId, facts: &CallFacts) -> Vec<OwnedMutexGuard<()>> {
        let written = facts.paths.iter().filter(|path| path.access == Access::Write);
        // One path in two neurons is two files.
        let place = Path::new(neuron.as_str());
        let paths = written.map(|path| {
            let real = &path.located.real;
            place.join(real.strip_prefix("/").unwrap_or(real))
        });
        self.path_locks.hold(paths.collect()).await
    }

    /// Turns the failure of a call into what its caller is told, or into a refusal.
    async fn failed(&self, neuron: &NeuronId, error: ToolError) -> Result<ToolOutcome, Error> {
        match error {
            ToolError::Workspace(error @ WorkspaceError::Fault(_)) => {
                Err(self.broken(neuron, error).await)
            }
            ToolError::Fault(fault) => Err(fault.into()),
            error => Ok(ToolOutcome::error(error.to_string())),
        }
    }
}

/// Returns a result as text; an image is named.
fn text_of(content: &[Block]) -> String {
    let texts = content.iter().map(|block| match block {
        Block::Text { text, .. } => text.clone(),
        Block::Image(image) => {
            let size = stdx::bytes(u64::try_from(image.data.len() / 4 * 3).unwrap_or(u64::MAX));
            format!("(an image of type {}, {size})", image.mime_type)
        }
        _ => String::new(),
    });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}
