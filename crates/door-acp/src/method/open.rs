//! Opening sessions: new ones, and stored ones with or without what was said in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    Error, LoadSessionRequest, LoadSessionResponse, McpServer, NewSessionRequest,
    NewSessionResponse, Notice, NoticeSeverity, ResumeSessionRequest, ResumeSessionResponse,
    SessionUpdate,
};
use protocol::{Seq, SessionId};
use runtime_api::{AgentSettings, CreateSession, Overflow, Position, SessionInfo, Subscription};

use super::{ensure_model, folder, session_id};
use crate::access::Brought;
use crate::choice;
use crate::connection::Connection;
use crate::error::{invalid, refused};
use crate::live::Live;
use crate::projection::Projection;
use crate::{replay, servers};

/// How far a session may run ahead of what was sent to the client.
const PACE: usize = 256;

/// Further folders of one session.
const FOLDERS_MAX: usize = 64;

/// A session that is open and says nothing yet.
#[derive(Debug)]
pub(super) struct Opened<T> {
    pub(super) response: T,
    live: Arc<Live>,
    /// None where it was open here before: it is followed already.
    events: Option<Subscription>,
    /// What to say of MCP servers that are not there.
    notices: Vec<String>,
}

impl<T> Opened<T> {
    /// Lets it be heard.
    pub(super) async fn begin(self, connection: &Connection) {
        let Self { live, events, notices, .. } = self;
        live.greet().await;
        for words in notices {
            tracing::warn!(session = %live.id, "{words}");
            if live.ties.has_notices {
                let notice = Notice::new(NoticeSeverity::Warning, words);
                live.show(SessionUpdate::Notice(notice)).await;
            }
        }
        let Some(events) = events else { return };
        connection.tasks().spawn(Arc::clone(&live).follow(events));
        if let Err(error) = live.ask_what_waits().await {
            tracing::warn!(session = %live.id, %error, "list what waits");
        }
    }
}

/// What the requests that open a session have in common.
struct Site {
    cwd: String,
    roots: Vec<String>,
    servers: Vec<Brought>,
}

impl Site {
    async fn of(
        connection: &Connection,
        cwd: &Path,
        further: &[PathBuf],
        mcp_servers: Vec<McpServer>,
    ) -> Result<Self, Error> {
        connection.check_met()?;
        let servers = servers::of(mcp_servers)?;
        if further.len() > FOLDERS_MAX {
            let what = format!("has {} items, expected at most {FOLDERS_MAX}", further.len());
            return Err(invalid(format!("additionalDirectories: {what}")));
        }
        let cwd = folder("cwd", cwd).await?;
        let mut roots = Vec::with_capacity(further.len());
        for (place, path) in further.iter().enumerate() {
            roots.push(folder(&format!("additionalDirectories[{place}]"), path).await?);
        }
        Ok(Self { cwd, roots, servers })
    }

    /// Makes the agent of a session, with the tools that the client brings.
    async fn agent(self, connection: &Connection) -> Result<(AgentSettings, Vec<String>), Error> {
        let mut agent = connection.agent(self.roots)?;
        if self.servers.is_empty() {
            return Ok((agent, Vec::new()));
        }
        let brought = connection.access().bring(self.servers, &self.cwd).await;
        let brought = brought.map_err(|what| invalid(format!("mcpServers{what}")))?;
        agent.tools = Some(brought.tools);
        Ok((agent, brought.notices))
    }
}

/// Creates a session.
pub(super) async fn new(
    connection: &Arc<Connection>,
    wanted: NewSessionRequest,
) -> Result<Opened<NewSessionResponse>, Error> {
    let further = &wanted.additional_directories;
    let site = Site::of(connection, &wanted.cwd, further, wanted.mcp_servers).await?;
    ensure_model(connection).await?;
    connection.check_room()?;
    let handle = connection.access().handle();
    let cwd = site.cwd.clone();
    let (agent, notices) = site.agent(connection).await?;
    let session = CreateSession {
        cwd,
        model: None,
        mode: None,
        title: None,
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
    let info = handle.create(session).await.map_err(refused)?;
    let shown = connection.projection(&info.cwd, false)?;
    let (live, events) = enter(connection, &info, shown, Seq(info.last_seq)).await?;
    let response = NewSessionResponse::new(info.id.as_str().to_owned())
        .modes(choice::mode_state(&handle, info.mode))
        .config_options(live.options());
    Ok(Opened { response, live, events, notices })
}

/// Opens a stored session and tells all that was said in it.
pub(super) async fn load(
    connection: &Arc<Connection>,
    wanted: LoadSessionRequest,
) -> Result<Opened<LoadSessionResponse>, Error> {
    let further = &wanted.additional_directories;
    let site = Site::of(connection, &wanted.cwd, further, wanted.mcp_servers).await?;
    let (info, notices) = open(connection, &session_id(&wanted.session_id), site).await?;
    let mut shown = connection.projection(&info.cwd, true)?;
    let handle = connection.access().handle();
    let last =
        replay::show(&info.id, &handle, connection.outlet(), &mut shown).await.map_err(refused)?;
    let (live, events) = enter(connection, &info, shown, last).await?;
    let response = LoadSessionResponse::new()
        .modes(choice::mode_state(&handle, live.chosen().mode))
        .config_options(live.options());
    Ok(Opened { response, live, events, notices })
}

/// Opens a stored session and tells only what happens from now on.
pub(super) async fn resume(
    connection: &Arc<Connection>,
    wanted: ResumeSessionRequest,
) -> Result<Opened<ResumeSessionResponse>, Error> {
    let further = &wanted.additional_directories;
    let site = Site::of(connection, &wanted.cwd, further, wanted.mcp_servers).await?;
    let (info, notices) = open(connection, &session_id(&wanted.session_id), site).await?;
    let shown = connection.projection(&info.cwd, false)?;
    let (live, events) = enter(connection, &info, shown, Seq(info.last_seq)).await?;
    let handle = connection.access().handle();
    let response = ResumeSessionResponse::new()
        .modes(choice::mode_state(&handle, live.chosen().mode))
        .config_options(live.options());
    Ok(Opened { response, live, events, notices })
}

/// Opens a stored session of this folder.
async fn open(
    connection: &Connection,
    id: &SessionId,
    site: Site,
) -> Result<(SessionInfo, Vec<String>), Error> {
    ensure_model(connection).await?;
    let handle = connection.access().handle();
    let stored = handle.info(id).await.map_err(refused)?;
    if stored.neuron.is_none() && stored.cwd != site.cwd {
        let what = format!("cwd: the session belongs to {}, expected that folder", stored.cwd);
        return Err(invalid(what));
    }
    if connection.find(id).is_none() {
        connection.check_room()?;
    }
    let (agent, notices) = site.agent(connection).await?;
    let info = handle.open(id, agent).await.map_err(refused)?;
    Ok((info, notices))
}

/// Keeps a session, with its events after a position unless it is followed already.
async fn enter(
    connection: &Connection,
    info: &SessionInfo,
    shown: Projection,
    last: Seq,
) -> Result<(Arc<Live>, Option<Subscription>), Error> {
    if let Some(live) = connection.find(&info.id) {
        return Ok((live, None));
    }
    let (from, pace) = (Position::After(last), Overflow::Pace(PACE));
    let handle = connection.access().handle();
    let events = handle.subscribe(&info.id, from, pace).await.map_err(refused)?;
    let (live, is_new) = connection.enter(info, shown)?;
    Ok((live, is_new.then_some(events)))
}
