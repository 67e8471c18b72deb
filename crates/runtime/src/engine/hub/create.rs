//! Creating a session: whatever may be wrong is found before anything is stored.

use std::sync::Arc;

use driver_api::{Fault, NewSession, Workspace};
use protocol::event::SessionStart;
use protocol::{
    Event, EventBody, FrameId, Life, Mode, NeuronId, Refusal, RefusalCode, Seq, SessionId,
    SessionSandbox,
};
use runtime_api::{CreateSession, Error, SessionInfo, Shown};

use super::row_of;
use super::slots::{Core, Place};
use crate::engine::outbox::head_of;
use crate::engine::rules::{self, session_policy};
use crate::engine::session::{Parts, Session};
use crate::engine::stored::refused;
use crate::engine::{own, place};
use crate::kernel::{State, evolve};
use policy::Policy;

/// Where a new session acts.
struct Grounds {
    neuron: Option<NeuronId>,
    sandbox: Option<SessionSandbox>,
    workspace: Arc<dyn Workspace>,
}

impl Core {
    /// Creates a session and opens it here.
    pub(super) async fn create(
        self: &Arc<Self>,
        wanted: CreateSession,
    ) -> Result<SessionInfo, Error> {
        let core = Arc::clone(self);
        self.see_through(async move { core.create_whole(wanted).await }).await
    }

    async fn create_whole(
        self: &Arc<Self>,
        mut wanted: CreateSession,
    ) -> Result<SessionInfo, Error> {
        let _gate = self.enter().await?;
        rules::check(&wanted)?;
        let options = &self.services.options;
        let above = options.policies.above(wanted.agent.policy.as_ref());
        // A mode that nobody asked for gives way to a lock that came after the start.
        let mode = wanted.mode.unwrap_or_else(|| above.in_force(options.default_mode));
        let model = self.model_for(&above, mode, wanted.model.take())?;
        let place = self.reserve()?;
        let tools = self.services.toolbox.chosen(wanted.tools.take())?;
        let id = SessionId::new(self.services.fresh_id());
        // Whoever looks for sandboxes that were left finds none of a session that begins.
        let _alone = self.alone(&id).await;
        let grounds = self.grounds(&id, &mut wanted).await?;
        let is_own = grounds.sandbox.is_some();
        let begun = self.begin((id.clone(), place), wanted, grounds, (model, mode, tools)).await;
        if begun.is_err() && is_own {
            own::remove(options, &id).await;
        }
        begun
    }

    /// Opens the folder of a new session, and makes its sandbox where it gets one of its own.
    async fn grounds(
        self: &Arc<Self>,
        id: &SessionId,
        wanted: &mut CreateSession,
    ) -> Result<Grounds, Error> {
        let options = &self.services.options;
        let neuron = wanted.neuron.take();
        let roots = &wanted.agent.roots;
        let asked = match &neuron {
            Some(_) => None,
            None => own::wanted(options, wanted.sandbox, roots)?,
        };
        let workspace = place::open(options, neuron.as_ref(), &wanted.cwd, roots).await?;
        let Some(asked) = asked else {
            let workspace = match neuron {
                Some(_) => workspace,
                None => place::with_client(options, &wanted.agent, id, workspace),
            };
            return Ok(Grounds { neuron, sandbox: None, workspace });
        };
        self.sweep_sandboxes().await;
        let folder = workspace.cwd().display().to_string();
        let (neuron, sandbox) = own::create(options, id, &folder, asked).await?;
        let entered = place::open(options, Some(&neuron), &folder, &[]).await;
        if entered.is_err() {
            own::remove(options, id).await;
        }
        Ok(Grounds { neuron: Some(neuron), sandbox: Some(sandbox), workspace: entered? })
    }

    /// Records a new session and starts its task.
    async fn begin(
        self: &Arc<Self>,
        (id, place): (SessionId, Place),
        mut wanted: CreateSession,
        grounds: Grounds,
        (model, mode, mut tools): (String, Mode, Vec<String>),
    ) -> Result<SessionInfo, Error> {
        let options = &self.services.options;
        let above = options.policies.above(wanted.agent.policy.as_ref());
        let Grounds { neuron, sandbox, workspace } = grounds;
        let cwd = workspace.cwd().display().to_string();
        place::bring_tools(options, neuron.as_ref(), &workspace).await;
        let site = (place::at(neuron.as_ref(), &cwd), wanted.agent.tools.as_ref());
        tools.extend(self.services.toolbox.offered_by_sources(&tools, site));
        let words = wanted.append_system_prompt.take();
        let body: EventBody = SessionStart {
            cwd: cwd.clone(),
            model,
            mode,
            tools,
            title: wanted.title.take(),
            parent: None,
            allow: std::mem::take(&mut wanted.allow),
            deny: std::mem::take(&mut wanted.deny),
            append_system_prompt: words.filter(|words| !words.trim().is_empty()),
            neuron,
            sandbox,
            asks_for: std::mem::take(&mut wanted.asks_for),
            max_turns: wanted.max_turns,
        }
        .into();
        let now = options.clock.now();
        let mut state = State::default();
        evolve(&mut state, Seq(1), now, &body);
        let policy = session_policy(&above, &wanted.agent, &state)?;
        let frame = FrameId::first_of(Life(1));
        let row = row_of(Seq(1), frame, now, &body)?;
        let bytes = row.body.len();
        let head = head_of(&state);
        let new = NewSession { id: id.clone(), cwd, at: now, head: head.clone(), rows: vec![row] };
        let lease = options.store.create(new).await.map_err(refused)?;
        let mut session = Session::new(Parts {
            services: Arc::clone(&self.services),
            id: id.clone(),
            state,
            lease,
            workspace,
            agent: wanted.agent,
            above,
            policy,
            viewers: Arc::default(),
        });
        session.created_at = now;
        session.frame = frame.next();
        session.outbox.knows(head);
        session.begins_empty();
        let (session_id, seq) = (id, Some(Seq(1)));
        session.begins_with(Shown::sized(Event { body, session_id, seq, frame, ts: now }, bytes));
        let slot = self.start(session, Some(place));
        slot.info().ok_or_else(|| Fault::new("create a session: it shows nothing").into())
    }

    /// Finds the full name of a new session's model.
    fn model_for(
        &self,
        above: &Policy,
        mode: Mode,
        name: Option<String>,
    ) -> Result<String, Refusal> {
        let options = &self.services.options;
        above.check_mode(mode)?;
        let name = name.or_else(|| options.default_model.clone()).ok_or_else(|| {
            Refusal::new(RefusalCode::InvalidModel, "model: no model is set and none was named")
        })?;
        let model = options.models.resolve(&name)?.info().id.clone();
        above.check_model(&model)?;
        Ok(model)
    }
}
