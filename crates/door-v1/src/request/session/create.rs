//! The body that creates or resumes a session, and what it sets off.

use http_kit::Problem;
use protocol::{Mode, NeuronDriver, SessionId};
use runtime_api::SessionInfo;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::door::{Door, Shared, elsewhere};
use crate::error::refused;
use crate::folder::{self, Standing};
use crate::limited::{List, Text, Word};
use crate::place::{is_id, no_session};
use crate::query::shown;
use crate::wire::Session;

/// A rule, such as `run_shell(npm test *)`.
type Rule = Text<1, 1_000>;

/// A session to create or to resume. Every field may be left out.
#[derive(Clone, Debug, Default, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(super) struct CreateSession {
    /// The working folder, absolute or relative to the first root; the first root by default.
    /// Links are resolved, and what they lead to has to be inside a root.
    cwd: Option<Text<1, 4_096>>,
    /// The permission mode; the server's default where absent.
    mode: Option<Word<Mode>>,
    /// The model, `provider/model`; the server's default where absent.
    model: Option<Text<1, 128>>,
    /// The stored session to open instead of a new one.
    resume: Option<Text<1, 64>>,
    /// A title; the first line of the first prompt by default.
    title: Option<Text<1, 200>>,
    /// Text after the system prompt.
    append_system_prompt: Option<Text<0, 100_000>>,
    /// Rules that allow calls, within what policy allows.
    allow: Option<List<Rule, 200>>,
    /// Rules that deny calls.
    deny: Option<List<Rule, 200>>,
    /// What keeps the session apart: `namespace` for a sandbox of its own over the folder, `host`
    /// for none; the server's default where absent. A stored session keeps what it has.
    sandbox: Option<Word<NeuronDriver>>,
    /// Whether MCP servers are started. This version has none: nothing is started either way.
    mcp: Option<bool>,
}

impl CreateSession {
    /// Names the first field that a resumed session cannot take.
    fn only_of_new(&self) -> Option<&'static str> {
        let fields = [
            ("cwd", self.cwd.is_some()),
            ("title", self.title.is_some()),
            ("appendSystemPrompt", self.append_system_prompt.is_some()),
            ("allow", self.allow.is_some()),
            ("deny", self.deny.is_some()),
            ("sandbox", self.sandbox.is_some()),
        ];
        fields.into_iter().find(|(_, is_there)| *is_there).map(|(name, _)| name)
    }
}

/// Creates or resumes a session.
pub(super) async fn create(door: Shared, body: CreateSession) -> Result<Session, Problem> {
    let info = match &body.resume {
        Some(id) => {
            if let Some(field) = body.only_of_new() {
                let what = "belongs to new sessions; leave it out together with resume";
                return Err(Problem::validation(format!("{field}: {what}")));
            }
            if !is_id(id.as_str()) {
                return Err(no_session());
            }
            resume(&door, &SessionId::new(id.as_str()), &body).await?
        }
        None => start(&door, body).await?,
    };
    door.tell_opened(&info.id);
    Ok(info.into())
}

async fn start(door: &Door, body: CreateSession) -> Result<SessionInfo, Problem> {
    let rules = |list: Option<List<Rule, 200>>| {
        let list = list.map(List::into_vec).unwrap_or_default();
        list.into_iter().map(Text::into_string).collect()
    };
    let cwd = folder::resolve(&door.roots, body.cwd.map(Text::into_string)).await?;
    let session = runtime_api::CreateSession {
        cwd,
        model: body.model.map(Text::into_string).or_else(|| door.model.clone()),
        mode: body.mode.map(|Word(mode)| mode).or(door.mode),
        title: body.title.map(Text::into_string),
        allow: rules(body.allow),
        deny: rules(body.deny),
        append_system_prompt: body.append_system_prompt.map(Text::into_string),
        neuron: None,
        sandbox: body.sandbox.map(|Word(driver)| driver),
        tools: None,
        asks_for: Vec::new(),
        max_turns: None,
        agent: door.agent.clone(),
    };
    door.handle.create(session).await.map_err(refused)
}

async fn resume(door: &Door, id: &SessionId, body: &CreateSession) -> Result<SessionInfo, Problem> {
    let stored = door.handle.info(id).await.map_err(refused)?;
    if !stored.is_open && stored.owner_pid.is_some() {
        return Err(elsewhere());
    }
    // Before anything is touched: what an opened session waits for would be decided against by
    // closing it again.
    let (mode, model) = (body.mode.map(|Word(mode)| mode), body.model.as_ref().map(Text::as_str));
    door.handle.check_settings(mode, model).map_err(refused)?;
    if !stored.is_open {
        check_folder(door, &stored.cwd).await?;
        door.handle.open(id, door.agent.clone()).await.map_err(refused)?;
        door.tell_opened(id);
    }
    // Policy may have changed just now: then the session stays open as it was stored.
    if let Some(model) = model {
        door.handle.set_model(id, model).await.map_err(refused)?;
    }
    if let Some(mode) = mode {
        door.handle.set_mode(id, mode).await.map_err(refused)?;
    }
    door.handle.info(id).await.map_err(refused)
}

/// Holds the folder of a stored session against the roots, once more.
async fn check_folder(door: &Door, cwd: &str) -> Result<(), Problem> {
    match folder::standing(&door.roots, cwd).await? {
        Standing::Here => Ok(()),
        Standing::Outside => Err(folder::outside(&door.roots)),
        Standing::Gone => {
            let what = format!("the folder of this session is not there: {}", shown(cwd));
            Err(Problem::validation(format!("resume: {what}")))
        }
    }
}
