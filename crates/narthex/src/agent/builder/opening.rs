//! Opening an agent's session: a new one or a stored one.

use protocol::event::SessionEnd;
use protocol::{Mode, RefusalCode, SessionId};
use runtime_api::{AgentSettings, CreateSession, Handle, SessionInfo};

use super::{AgentBuilder, Owned};
use crate::Error;

impl AgentBuilder {
    /// Creates the session or opens the stored one.
    pub(super) async fn open(
        &self,
        handle: &Handle,
        owned: Option<&Owned>,
        (cwd, mut agent): (Option<String>, AgentSettings),
    ) -> Result<SessionInfo, Error> {
        let modes = self.modes(owned);
        let Some(session) = &self.resume else {
            let cwd = cwd.unwrap_or_default();
            add_kept(&mut agent, owned, &cwd)?;
            return self.create(handle, (cwd, agent), &modes).await;
        };
        if self.title.is_some() {
            return Err(Error::option("title", "belongs to a new session, not to a resumed one"));
        }
        let stored = handle.info(session).await?;
        if stored.is_open {
            // Two agents would answer its requests, and the first to close would end it for both.
            let reason = format!(
                "session {session} is open in this runtime already: use the agent that has it, \
                 or close it first"
            );
            return Err(Error::option("resume", reason));
        }
        if let Some(cwd) = cwd.filter(|cwd| *cwd != stored.cwd) {
            let reason = format!("session {session} works in {}, not in {cwd}", stored.cwd);
            return Err(Error::option("cwd", reason));
        }
        add_kept(&mut agent, owned, &stored.cwd)?;
        let info = handle.open(session, agent).await?;
        let set = async {
            if modes.first() != Some(&info.mode) {
                set_mode(handle, session, &modes).await?;
            }
            match self.model.as_deref().filter(|model| *model != info.model) {
                Some(model) => Ok(handle.set_model(session, model).await?),
                None => Ok(()),
            }
        };
        match set.await {
            Ok(()) => Ok(info),
            Err(error) => {
                let _ = handle.close(session, SessionEnd::Closed).await.is_ok();
                Err(error)
            }
        }
    }

    /// Returns the mode to take, and the one to fall back to where a policy locks it and nobody
    /// asked for it: another runtime's policy is not known here, and it may be newer than ours.
    fn modes(&self, owned: Option<&Owned>) -> Vec<Mode> {
        let usual = owned.map_or_else(Mode::default, |owned| owned.mode);
        match self.mode {
            Some(mode) => vec![mode],
            None if usual == Mode::Plan => vec![usual],
            None => vec![usual, Mode::Plan],
        }
    }

    async fn create(
        &self,
        handle: &Handle,
        (cwd, agent): (String, AgentSettings),
        modes: &[Mode],
    ) -> Result<SessionInfo, Error> {
        let mut new = CreateSession {
            cwd,
            model: self.model.clone(),
            mode: None,
            title: self.title.clone(),
            allow: Vec::new(),
            deny: Vec::new(),
            append_system_prompt: None,
            neuron: None,
            sandbox: None,
            tools: None,
            asks_for: Vec::new(),
            max_turns: None,
            agent,
        };
        let mut locked = None;
        for mode in modes {
            new.mode = Some(*mode);
            match handle.create(new.clone()).await.map_err(Error::from) {
                Err(error) if is_locked(&error) => locked.get_or_insert(error),
                created => return created,
            };
        }
        Err(locked.unwrap_or(Error::Closed))
    }
}

/// Takes the first mode that is not locked.
async fn set_mode(handle: &Handle, session: &SessionId, modes: &[Mode]) -> Result<(), Error> {
    let mut locked = None;
    for mode in modes {
        match handle.set_mode(session, *mode).await.map_err(Error::from) {
            Err(error) if is_locked(&error) => locked.get_or_insert(error),
            set => return set,
        };
    }
    Err(locked.unwrap_or(Error::Closed))
}

fn is_locked(error: &Error) -> bool {
    error.code() == Some(RefusalCode::LockedByPolicy)
}

/// Adds the rules that were kept for the project of a folder. They are the session's alone: another
/// session of the runtime may work in another project.
fn add_kept(agent: &mut AgentSettings, owned: Option<&Owned>, cwd: &str) -> Result<(), Error> {
    let Some(kept) = owned.and_then(|owned| owned.kept.as_ref()) else { return Ok(()) };
    if let Some(layer) = kept.of_project(cwd.as_ref())? {
        agent.allow.extend(layer.allow.iter().map(ToString::to_string));
    }
    Ok(())
}
