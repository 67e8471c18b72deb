//! Copies of sessions: forks, and sessions of other stores.

use std::sync::Arc;

use driver_api::{LogRow, NewSession};
use protocol::{EventBody, FrameId, Refusal, RefusalCode, SessionId, TurnEnd};
use runtime_api::{Error, ExportedSession, ForkPoint, SessionInfo};

use super::slots::Core;
use super::{encode, row_of};
use crate::engine::outbox::head_of;
use crate::engine::stored::{self, refused};
use crate::engine::{foreign, opening, own};
use crate::kernel::{Command, Ending, decide, evolve};

impl Core {
    /// Copies a session up to a point.
    pub(super) async fn fork(
        self: &Arc<Self>,
        session: &SessionId,
        until: ForkPoint,
    ) -> Result<SessionInfo, Error> {
        let (core, session) = (Arc::clone(self), session.clone());
        self.see_through(async move {
            core.still_open().await?;
            core.fork_whole(&session, until).await
        })
        .await
    }

    async fn fork_whole(
        &self,
        session: &SessionId,
        until: ForkPoint,
    ) -> Result<SessionInfo, Error> {
        let store = &self.services.options.store;
        let (state, mut rows) = opening::fold_whole(&**store, session).await?;
        let count = match &until {
            ForkPoint::End => rows.len(),
            ForkPoint::Seq(seq) => usize::try_from(seq.0).unwrap_or(usize::MAX),
            ForkPoint::Message(id) => stored::end_of_message(&rows, id)?,
        };
        if count == 0 || count > rows.len() {
            let message = format!("until: the log has events 1 to {}", rows.len());
            return Err(Refusal::new(RefusalCode::Invalid, message).into());
        }
        rows.truncate(count);
        let has_owner = store.get(session).await.map_err(refused)?.owner.is_some();
        if until == ForkPoint::End && has_owner && state.turn.is_some() {
            let message = "the session is in the middle of a turn: stop it or wait for its end";
            return Err(Refusal::new(RefusalCode::SessionBusy, message).into());
        }
        self.copy(rows, Some(session.clone())).await
    }

    /// Stores a session of another store.
    pub(super) async fn import(
        self: &Arc<Self>,
        session: ExportedSession,
    ) -> Result<SessionInfo, Error> {
        let core = Arc::clone(self);
        self.see_through(async move {
            core.still_open().await?;
            let ExportedSession { info, mut rows } = session;
            let services = &core.services;
            let (mode_max, tools) =
                (services.options.default_mode, services.toolbox.native_names());
            foreign::disarm(&mut rows, &info.cwd, mode_max, tools)?;
            core.copy(rows, Some(info.id)).await
        })
        .await
    }

    /// Stores a log under a new id. A turn that was cut ends in the copy, and prompts that wait
    /// stay with the original.
    async fn copy(
        &self,
        mut rows: Vec<LogRow>,
        parent: Option<SessionId>,
    ) -> Result<SessionInfo, Error> {
        let options = &self.services.options;
        let origin = parent.clone();
        let Some(first) = rows.first_mut() else {
            return Err(Refusal::new(RefusalCode::Invalid, "log: it is empty").into());
        };
        let id = SessionId::new(self.services.fresh_id());
        if let Ok(EventBody::SessionStart(mut start)) = EventBody::decode(first.kind, &first.body) {
            if let (Some(origin), Some(sandbox)) = (&parent, start.sandbox) {
                start.neuron = Some(own::copy(options, origin, &id, sandbox).await?);
            }
            start.parent = parent;
            first.body = encode(&EventBody::SessionStart(start))?;
        }
        let mut state = stored::fold(&rows)?;
        let at = options.clock.now();
        for command in [Command::End(Ending::of(TurnEnd::Interrupted)), Command::ClearQueue] {
            for body in decide(&state, command, at)? {
                let seq = state.seq.next();
                evolve(&mut state, seq, at, &body);
                rows.push(row_of(seq, FrameId(0), at, &body)?);
            }
        }
        foreign::number_frames(&mut rows);
        let (head, cwd) = (head_of(&state), state.cwd.clone());
        let last_frame = rows.last().map(|last| last.frame).unwrap_or_default();
        let new = NewSession { id: id.clone(), cwd, at, head: head.clone(), rows };
        let lease = options.store.create(new).await.map_err(refused)?;
        if let (Some(checkpoints), Some(origin)) = (&options.checkpoints, &origin)
            && let Err(error) = checkpoints.adopt(origin, &id).await
        {
            // The copy is whole all the same; only its files cannot be brought back.
            tracing::warn!(session = %id, %error, "share captured files with a copy");
        }
        options.store.release(&lease).await.map_err(refused)?;
        let last_seq = state.seq.0;
        Ok(SessionInfo { last_seq, last_frame, ..stored::info(&id, &state.cwd, head, at) })
    }
}
