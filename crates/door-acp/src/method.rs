//! The methods of the protocol.

mod open;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AgentCapabilities, AuthMethod, AuthMethodAgent, AuthMethodTerminal, AuthenticateRequest,
    AuthenticateResponse, CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest,
    DeleteSessionResponse, Error, Implementation, InitializeRequest, InitializeResponse,
    ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, McpCapabilities,
    NewSessionRequest, PromptCapabilities, PromptRequest, RequestId, ResumeSessionRequest,
    SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionCloseCapabilities,
    SessionDeleteCapabilities, SessionInfo as Listed, SessionListCapabilities,
    SessionResumeCapabilities, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse,
};
use protocol::{SessionId, Timestamp};
use runtime_api::{SessionFilter, SessionInfo};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::choice::{self, MODE, MODEL};
use crate::connection::Connection;
use crate::error::{invalid, refused};
use crate::line::params;

/// Sessions on one page of a list.
const PAGE: usize = 50;

/// The id of the method of authentication that reads keys again.
const KEY: &str = "key";

/// Answers a request.
pub(crate) async fn answer(
    connection: &Arc<Connection>,
    id: &RequestId,
    (method, raw): (&str, &RawValue),
    cancel: &CancellationToken,
) {
    let reply = Reply { connection, id };
    match method {
        "initialize" => reply.with(initialize(connection, raw)).await,
        "authenticate" => reply.with(authenticate(connection, raw).await).await,
        "session/new" => {
            let opened = match params::<NewSessionRequest>(raw) {
                Ok(wanted) => open::new(connection, wanted).await,
                Err(error) => Err(error),
            };
            reply.opened(opened).await;
        }
        "session/load" => {
            let opened = match params::<LoadSessionRequest>(raw) {
                Ok(wanted) => open::load(connection, wanted).await,
                Err(error) => Err(error),
            };
            reply.opened(opened).await;
        }
        "session/resume" => {
            let opened = match params::<ResumeSessionRequest>(raw) {
                Ok(wanted) => open::resume(connection, wanted).await,
                Err(error) => Err(error),
            };
            reply.opened(opened).await;
        }
        "session/list" => reply.with(list(connection, raw).await).await,
        "session/close" => reply.with(close(connection, raw).await).await,
        "session/delete" => reply.with(delete(connection, raw).await).await,
        "session/prompt" => {
            let ended = match params::<PromptRequest>(raw) {
                Ok(wanted) => turn::prompt(connection, wanted, cancel).await,
                Err(error) => Err(error),
            };
            reply.with(ended).await;
        }
        "session/set_mode" => reply.with(set_mode(connection, raw).await).await,
        "session/set_config_option" => reply.with(set_option(connection, raw).await).await,
        _ => {
            let name: String = method.chars().take(100).collect();
            let error = Error::new(-32601, format!("method: '{name}' is unknown"));
            reply.with::<()>(Err(error)).await;
        }
    }
}

/// Answers a request, once.
struct Reply<'a> {
    connection: &'a Arc<Connection>,
    id: &'a RequestId,
}

impl Reply<'_> {
    async fn with<T: Serialize>(&self, answer: Result<T, Error>) {
        self.connection.end(self.id);
        self.connection.outlet().answer(self.id, &answer).await;
    }

    /// Answers, and only then lets the session be heard: a client knows no session before.
    async fn opened<T: Serialize>(&self, opened: Result<open::Opened<T>, Error>) {
        match opened {
            Ok(opened) => {
                self.with(Ok(&opened.response)).await;
                opened.begin(self.connection).await;
            }
            Err(error) => self.with::<()>(Err(error)).await,
        }
    }
}

fn initialize(connection: &Arc<Connection>, raw: &RawValue) -> Result<InitializeResponse, Error> {
    let wanted: InitializeRequest = params(raw)?;
    connection.meet(&wanted.client_capabilities)?;
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(
            SessionCapabilities::new()
                .list(SessionListCapabilities::new())
                .delete(SessionDeleteCapabilities::new())
                .additional_directories(SessionAdditionalDirectoriesCapabilities::new())
                .resume(SessionResumeCapabilities::new())
                .close(SessionCloseCapabilities::new()),
        );
    let has_terminal = wanted.client_capabilities.auth.terminal;
    let agent = Implementation::new("narthex", connection.options().version).title("Narthex");
    // The one version there is: a client that speaks another says so by leaving.
    Ok(InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .auth_methods(auth_methods(connection, has_terminal))
        .agent_info(agent))
}

fn auth_methods(connection: &Connection, has_terminal: bool) -> Vec<AuthMethod> {
    let known = AuthMethodAgent::new(KEY, "A key that is set").description(
        "Looks again for a provider's key in the environment, in the settings and among those \
         kept by narthex login, and for a model server on this machine"
            .to_owned(),
    );
    let mut methods = vec![AuthMethod::Agent(known)];
    if has_terminal {
        methods.extend(connection.access().logins().into_iter().map(|login| {
            let id = format!("login-{}", login.provider);
            let method = AuthMethodTerminal::new(id, format!("Key of {}", login.provider))
                .description("Type or paste it at a terminal".to_owned())
                .args(login.args);
            AuthMethod::Terminal(method)
        }));
    }
    methods
}

async fn authenticate(
    connection: &Connection,
    raw: &RawValue,
) -> Result<AuthenticateResponse, Error> {
    let wanted: AuthenticateRequest = params(raw)?;
    connection.check_met()?;
    if &*wanted.method_id.0 != KEY {
        return Err(invalid(format!("methodId: expected '{KEY}'; others run at a terminal")));
    }
    ensure_model(connection).await?;
    Ok(AuthenticateResponse::new())
}

/// Sees to it that there is a model to talk to.
async fn ensure_model(connection: &Connection) -> Result<(), Error> {
    let access = connection.access();
    if access.lacks().is_none() {
        return Ok(());
    }
    access.renew().await.map_err(|what| Error::new(-32000, what))
}

async fn list(connection: &Connection, raw: &RawValue) -> Result<ListSessionsResponse, Error> {
    let wanted: ListSessionsRequest = params(raw)?;
    connection.check_met()?;
    let cwd = match wanted.cwd {
        Some(cwd) => Some(folder("cwd", &cwd).await?),
        None => None,
    };
    let before = wanted.cursor.as_deref().map(position).transpose()?;
    let filter = SessionFilter { cwd, before, limit: PAGE };
    let found = connection.access().handle().list(filter).await.map_err(refused)?;
    let next = (found.len() == PAGE).then(|| found.last().map(cursor)).flatten();
    let sessions = found.into_iter().map(|info| {
        Listed::new(info.id.as_str().to_owned(), info.cwd)
            .title(info.title)
            .updated_at(info.updated_at.to_string())
    });
    Ok(ListSessionsResponse::new(sessions.collect()).next_cursor(next))
}

/// Makes the cursor of what follows a session.
fn cursor(last: &SessionInfo) -> String {
    format!("{}.{}", last.updated_at.0, last.id)
}

fn position(cursor: &str) -> Result<(Timestamp, SessionId), Error> {
    let read = cursor.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id)));
    let (at, id) =
        read.ok_or_else(|| invalid("cursor: expected nextCursor of an earlier answer"))?;
    Ok((Timestamp(at), SessionId::new(id)))
}

async fn close(connection: &Connection, raw: &RawValue) -> Result<CloseSessionResponse, Error> {
    let wanted: CloseSessionRequest = params(raw)?;
    let id = session_id(&wanted.session_id);
    let live = connection.session(&id)?;
    connection.cancel_prompts(&id);
    live.close().await.map_err(refused)?;
    connection.forget(&id);
    Ok(CloseSessionResponse::new())
}

async fn delete(connection: &Connection, raw: &RawValue) -> Result<DeleteSessionResponse, Error> {
    let wanted: DeleteSessionRequest = params(raw)?;
    connection.check_met()?;
    let id = session_id(&wanted.session_id);
    connection.cancel_prompts(&id);
    connection.access().handle().remove(&id).await.map_err(refused)?;
    connection.forget(&id);
    Ok(DeleteSessionResponse::new())
}

async fn set_mode(
    connection: &Connection,
    raw: &RawValue,
) -> Result<SetSessionModeResponse, Error> {
    let wanted: SetSessionModeRequest = params(raw)?;
    let live = connection.session(&session_id(&wanted.session_id))?;
    let mode = choice::mode("modeId", &wanted.mode_id.0)?;
    live.ties.handle.set_mode(&live.id, mode).await.map_err(refused)?;
    Ok(SetSessionModeResponse::new())
}

async fn set_option(
    connection: &Connection,
    raw: &RawValue,
) -> Result<SetSessionConfigOptionResponse, Error> {
    let wanted: SetSessionConfigOptionRequest = params(raw)?;
    let live = connection.session(&session_id(&wanted.session_id))?;
    let expected = || invalid("value: expected the id of one of the options");
    let value = wanted.value.as_value_id().ok_or_else(expected)?;
    let mut chosen = live.chosen();
    match &*wanted.config_id.0 {
        MODE => {
            chosen.mode = choice::mode("value", &value.0)?;
            live.ties.handle.set_mode(&live.id, chosen.mode).await.map_err(refused)?;
        }
        MODEL => {
            live.ties.handle.set_model(&live.id, &value.0).await.map_err(refused)?;
            // It may have been named in short.
            chosen.model = live.ties.handle.info(&live.id).await.map_err(refused)?.model;
        }
        _ => return Err(invalid(format!("configId: expected {MODE} or {MODEL}"))),
    }
    Ok(SetSessionConfigOptionResponse::new(choice::options(&live.ties.handle, &chosen)))
}

fn session_id(id: &agent_client_protocol_schema::v1::SessionId) -> SessionId {
    SessionId::new(&*id.0)
}

/// Resolves a folder that the client names.
///
/// # Errors
/// Names the field.
async fn folder(field: &str, path: &Path) -> Result<String, Error> {
    if !path.is_absolute() {
        return Err(invalid(format!("{field}: expected an absolute path")));
    }
    let owned = path.to_owned();
    let looked = tokio::task::spawn_blocking(move || {
        let real = owned.canonicalize()?;
        let is_folder = real.is_dir();
        Ok::<(PathBuf, bool), std::io::Error>((real, is_folder))
    });
    let shown = path.display();
    match looked.await.map_err(std::io::Error::other).flatten() {
        Ok((real, true)) => {
            let text = real.into_os_string().into_string();
            text.map_err(|_| invalid(format!("{field}: expected a path that is UTF-8 text")))
        }
        Ok((_, false)) => Err(invalid(format!("{field}: {shown} is no folder"))),
        Err(error) => Err(invalid(format!("{field}: {shown} cannot be opened: {error}"))),
    }
}
