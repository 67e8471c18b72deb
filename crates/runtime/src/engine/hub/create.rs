//! Creating a session: whatever may be wrong is found before anything is stored.

use std::sync::Arc;

use driver_api::{Fault, NewSession};
use protocol::event::SessionStart;
use protocol::{Event, EventBody, FrameId, Life, Mode, Refusal, RefusalCode, Seq, SessionId};
use runtime_api::{CreateSession, Error, SessionInfo, Shown};

use super::row_of;
use super::slots::Core;
use crate::engine::outbox::head_of;
use crate::engine::place;
use crate::engine::rules::{self, session_policy};
use crate::engine::session::{Parts, Session};
use crate::engine::stored::refused;
use crate::kernel::{State, evolve};
use policy::Policy;

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
        let above = options.policies.current();
        // A mode that nobody asked for gives way to a lock that came after the start.
        let mode = wanted.mode.unwrap_or_else(|| above.in_force(options.default_mode));
        let model = self.model_for(&above, mode, wanted.model.take())?;
        let place = self.reserve()?;
        let mut tools = self.services.toolbox.chosen(wanted.tools.take())?;
        let neuron = wanted.neuron.take();
        let roots = &wanted.agent.roots;
        let workspace = place::open(options, neuron.as_ref(), &wanted.cwd, roots).await?;
        let cwd = workspace.cwd().display().to_string();
        let folder = if neuron.is_some() { "" } else { &cwd };
        tools.extend(self.services.toolbox.offered_by_sources(&tools, folder));
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
            asks_for: std::mem::take(&mut wanted.asks_for),
        }
        .into();
        let now = options.clock.now();
        let mut state = State::default();
        evolve(&mut state, Seq(1), now, &body);
        let policy = session_policy(&above, &wanted.agent, &state)?;
        let frame = FrameId::first_of(Life(1));
        let row = row_of(Seq(1), frame, now, &body)?;
        let bytes = row.body.len();
        let id = SessionId::new(self.services.fresh_id());
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
