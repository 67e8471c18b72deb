//! The tools of a runtime: native ones, the same under their other names, and those of sources,
//! which come and go.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use driver_api::{
    Asks, CallFacts, Place, Tool, ToolContext, ToolError, ToolHost, ToolOutcome, ToolSource,
    ToolSpec, Workspace,
};
use protocol::{Refusal, RefusalCode};
use runtime_api::SharedTools;
use serde_json::{Map, Value};

use super::gate::Schema;
use crate::kernel::TOOLS_MAX;

/// The longest name of a tool that every provider takes.
const NAME_CHARS_MAX: usize = 64;

/// How many compiled schemas are kept: those of all tools that one program is likely to see. Beyond
/// it they are compiled anew.
const SCHEMAS_MAX: usize = 1_024;

/// The tools that a session is offered, as they are now.
#[derive(Debug)]
pub(crate) struct Offer {
    /// In the order in which models see them.
    tools: Vec<Arc<dyn Tool>>,
    /// What models are told of them.
    pub(crate) specs: Arc<[ToolSpec]>,
}

impl Offer {
    fn of(tools: Vec<Arc<dyn Tool>>) -> Self {
        let specs = tools.iter().map(|tool| tool.spec().clone()).collect();
        Self { tools, specs }
    }

    /// Finds a tool by the name that a model calls it by: the one it is offered under, or another
    /// one that the tool has.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        let called = |name: &str| self.tools.iter().find(|tool| tool.spec().name == name);
        called(name).or_else(|| {
            let native = policy::canonical(name);
            self.tools.iter().find(|tool| policy::canonical(&tool.spec().name) == native)
        })
    }

    fn is_made_of(&self, tools: &[Arc<dyn Tool>]) -> bool {
        self.tools.len() == tools.len()
            && self.tools.iter().zip(tools).all(|(mine, other)| Arc::ptr_eq(mine, other))
    }
}

/// Where a session acts, and the tools that its client brings.
pub(crate) type Site<'a> = (Place<'a>, Option<&'a SharedTools>);

/// All tools of a runtime.
#[derive(Debug)]
pub(crate) struct Toolbox {
    native: Vec<Arc<dyn Tool>>,
    sources: Vec<Arc<dyn ToolSource>>,
    /// All common native tools: what most sessions are offered, made once for all of them.
    all: Arc<Offer>,
    names: Vec<String>,
    /// Native tools under other names, made at their first use: no more than there are names.
    renamed: Mutex<HashMap<String, Arc<dyn Tool>>>,
    /// Choices of native tools that sessions share, by their names.
    choices: Mutex<HashMap<Vec<String>, Weak<Offer>>>,
    /// Compiled schemas, with what they were compiled of: a tool of a source may change.
    schemas: Mutex<HashMap<String, (Value, Arc<Schema>)>>,
}

impl Toolbox {
    pub(crate) fn new(native: Vec<Arc<dyn Tool>>, sources: Vec<Arc<dyn ToolSource>>) -> Self {
        let common: Vec<_> = native.iter().filter(|tool| tool.is_common()).cloned().collect();
        let names = common.iter().map(|tool| tool.spec().name.clone()).collect();
        let all = Arc::new(Offer::of(common));
        let (renamed, choices, schemas) = Default::default();
        Self { native, sources, all, names, renamed, choices, schemas }
    }

    /// Returns the names of the native tools that sessions have which choose none, in the order in
    /// which models see them.
    pub(crate) fn native_names(&self) -> &[String] {
        &self.names
    }

    /// Finds a native tool by its name, or under another one of its names.
    pub(crate) fn native(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let find = |name: &str| self.native.iter().find(|tool| tool.spec().name == name);
        if let Some(tool) = find(name) {
            return Some(Arc::clone(tool));
        }
        let tool = find(policy::canonical(name))?;
        let mut renamed = lock(&self.renamed);
        let made = renamed.entry(name.to_owned()).or_insert_with(|| {
            let spec = ToolSpec { name: name.to_owned(), ..tool.spec().clone() };
            Arc::new(Renamed { spec, tool: Arc::clone(tool) })
        });
        Some(Arc::clone(made))
    }

    /// Finds a tool of a source; first of the session's own.
    pub(crate) fn foreign(&self, name: &str, (place, own): Site<'_>) -> Option<Arc<dyn Tool>> {
        self.all_sources(own).find_map(|source| source.find(name, place))
    }

    /// Returns a session's own source, and those of all sessions.
    fn all_sources<'a>(
        &'a self,
        own: Option<&'a SharedTools>,
    ) -> impl Iterator<Item = &'a Arc<dyn ToolSource>> {
        own.map(SharedTools::get).into_iter().chain(&self.sources)
    }

    /// Checks the native tools that a session is to be offered; the common ones where nothing is
    /// said.
    ///
    /// # Errors
    /// `invalid`, with the name that no tool has, or that stands there twice.
    pub(crate) fn chosen(&self, wanted: Option<Vec<String>>) -> Result<Vec<String>, Refusal> {
        let Some(wanted) = wanted else { return Ok(self.names.clone()) };
        let invalid = |message: String| Refusal::new(RefusalCode::Invalid, message);
        let mut seen = BTreeSet::new();
        for (index, name) in wanted.iter().enumerate() {
            if self.native(name).is_none() {
                let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
                let known = self.names.join(", ");
                let message =
                    format!("tools[{index}]: no tool is named '{shown}'; there are {known}");
                return Err(invalid(message));
            }
            if !seen.insert(policy::canonical(name)) {
                return Err(invalid(format!("tools[{index}]: the tool '{name}' is there already")));
            }
        }
        Ok(wanted)
    }

    /// Returns the names of the tools of sources that a session which begins now is offered
    /// besides `chosen`.
    pub(crate) fn offered_by_sources(
        &self,
        chosen: &[String],
        (place, own): Site<'_>,
    ) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for tool in self.all_sources(own).flat_map(|source| source.offers(place)) {
            let name = &tool.spec().name;
            let is_taken = self.native(name).is_some() || names.contains(name);
            if is_taken || !is_name(name) || chosen.len() + names.len() >= TOOLS_MAX {
                tracing::warn!(tool = %name, "a tool of a source is left out: its name is taken or \
                    not well formed, or there are too many tools");
                continue;
            }
            names.push(name.clone());
        }
        names
    }

    /// Returns those of some names that a call may add to what its session is offered. Native
    /// tools are what the session was created with, and no call changes that.
    pub(crate) fn activatable(&self, names: Vec<String>, site: Site<'_>) -> Vec<String> {
        let mut names = names;
        names.retain(|name| {
            is_name(name) && self.native(name).is_none() && self.foreign(name, site).is_some()
        });
        names
    }

    /// Returns what a session is offered now, of the tools that it was promised: what is gone is
    /// left out. The same as the last time where nothing has changed.
    pub(crate) fn offer(
        &self,
        names: &[String],
        site: Site<'_>,
        last: Option<&Arc<Offer>>,
    ) -> Arc<Offer> {
        if names == self.names {
            return Arc::clone(&self.all);
        }
        let (mut tools, mut is_native) = (Vec::with_capacity(names.len()), true);
        for name in names {
            let native = self.native(name);
            is_native &= native.is_some();
            tools.extend(native.or_else(|| self.foreign(name, site)));
        }
        if let Some(last) = last
            && last.is_made_of(&tools)
        {
            return Arc::clone(last);
        }
        if !is_native {
            return Arc::new(Offer::of(tools));
        }
        let mut choices = lock(&self.choices);
        if let Some(offer) = choices.get(names).and_then(Weak::upgrade) {
            return offer;
        }
        choices.retain(|_, offer| offer.strong_count() > 0);
        let offer = Arc::new(Offer::of(tools));
        choices.insert(names.to_vec(), Arc::downgrade(&offer));
        offer
    }

    /// Returns the compiled schema of a tool; compiled at its first use, since a session rarely
    /// needs all.
    pub(crate) fn schema(&self, tool: &dyn Tool) -> Arc<Schema> {
        let mut schemas = lock(&self.schemas);
        let spec = tool.spec();
        if let Some((of, compiled)) = schemas.get(&spec.name)
            && *of == spec.input_schema
        {
            return Arc::clone(compiled);
        }
        if schemas.len() >= SCHEMAS_MAX {
            schemas.clear();
        }
        let compiled = Arc::new(Schema::compile(&spec.input_schema));
        let entry = (spec.input_schema.clone(), Arc::clone(&compiled));
        schemas.insert(spec.name.clone(), entry);
        compiled
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.bytes().all(fits)
}

/// A native tool under another one of its names.
#[derive(Debug)]
struct Renamed {
    spec: ToolSpec,
    tool: Arc<dyn Tool>,
}

#[async_trait]
impl Tool for Renamed {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> protocol::Effect {
        self.tool.effect()
    }

    fn is_common(&self) -> bool {
        self.tool.is_common()
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        self.tool.facts(input, workspace).await
    }

    fn refuses(&self, facts: &CallFacts, host: &dyn ToolHost) -> Option<String> {
        self.tool.refuses(facts, host)
    }

    async fn preview(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        workspace: &dyn Workspace,
    ) -> Option<String> {
        self.tool.preview(input, facts, workspace).await
    }

    fn asks(&self, input: &Map<String, Value>) -> Result<Option<Asks>, ToolError> {
        self.tool.asks(input)
    }

    async fn run(
        &self,
        input: &Map<String, Value>,
        facts: &CallFacts,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        self.tool.run(input, facts, context).await
    }
}
