//! What a host can do for its sessions. What it does not declare the program does itself, or takes
//! the safe answer.

use native_wire::limited::{List, Object, Text, Word};
use protocol::Effect;
use runtime_api::Lends;
use schemars::JsonSchema;
use serde::Deserialize;

/// Models that a host may list.
const MODELS_MAX: usize = 1_000;

/// What a host declares.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Capabilities {
    /// Model calls go to its endpoint.
    pub(crate) models: Option<Object<Models>>,
    /// It decides approvals; without it they are denied.
    pub(crate) approvals: Option<Object<Approvals>>,
    /// It answers questions and plans; without it questions are dismissed and plans rejected.
    pub(crate) interaction: Option<Object<Interaction>>,
    /// Text files are read and written through it.
    pub(crate) fs: Option<Object<Files>>,
    /// Commands run in its terminals.
    pub(crate) terminal: Option<Terminal>,
    /// It is told what sessions do, in batches.
    pub(crate) activity: Option<Object<Activity>>,
    /// It pushes a policy.
    pub(crate) policy: Option<Object<Policy>>,
    /// What its prompts may bring along; for its own use.
    #[expect(dead_code, reason = "what a prompt brings along says itself what it is")]
    pub(crate) attachments: Option<Object<Attachments>>,
}

/// Where models are asked.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Models {
    /// The endpoint; without one models are asked where the settings say.
    pub(crate) endpoint: Option<Object<ModelEndpoint>>,
    /// Whether no other endpoint may be asked; the endpoint must then be on this machine.
    #[serde(default)]
    pub(crate) exclusive: bool,
    /// The only models that sessions may use, `provider/model` each.
    pub(crate) allowed: Option<List<Text<1, 128>, MODELS_MAX>>,
}

/// What an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndpointKind {
    /// The Messages API.
    Anthropic,
    /// Chat completions.
    Openai,
}

/// Whether an endpoint wants tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndpointAuth {
    /// Tokens that `auth/token` gives.
    Token,
    /// None.
    None,
}

/// An endpoint of a host.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub struct ModelEndpoint {
    kind: Word<EndpointKind>,
    base_url: Text<1, 2_048>,
    auth: Word<EndpointAuth>,
}

impl ModelEndpoint {
    /// Returns what it speaks.
    pub fn kind(&self) -> EndpointKind {
        self.kind.0
    }

    /// Returns where it is.
    pub fn base_url(&self) -> &str {
        self.base_url.as_str()
    }

    /// Tells whether it wants tokens of the host.
    pub fn wants_tokens(&self) -> bool {
        self.auth.0 == EndpointAuth::Token
    }
}

/// What a host wants to decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Review {
    /// What would be asked.
    #[default]
    Asks,
    /// Every call that changes something.
    Mutations,
    /// Every call.
    All,
}

impl Review {
    /// Returns the effects that are asked for whatever lets calls run.
    pub(crate) fn asks_for(self) -> &'static [Effect] {
        const ALL: [Effect; 5] =
            [Effect::Read, Effect::Write, Effect::Execute, Effect::Network, Effect::Destructive];
        match self {
            Review::Asks => &[],
            Review::Mutations => ALL.split_at(1).1,
            Review::All => &ALL,
        }
    }
}

/// Whether a host decides approvals.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Approvals {
    /// Which calls it decides.
    pub(crate) review: Option<Word<Review>>,
}

/// What a host answers for a person.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Interaction {
    /// Questions of the model.
    #[serde(default)]
    pub(crate) questions: bool,
    /// Plans.
    #[serde(default)]
    pub(crate) plans: bool,
}

/// Which file access goes through a host.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Files {
    /// Texts are read through it.
    #[serde(default)]
    pub(crate) read_text_file: bool,
    /// Texts are written through it.
    #[serde(default)]
    pub(crate) write_text_file: bool,
}

/// Whether commands run in a host's terminals.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false or an object with create")]
pub(crate) enum Terminal {
    /// Whether.
    Plain(bool),
    /// The same in long.
    Long(TerminalCapability),
}

/// Whether commands run in a host's terminals, in long.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TerminalCapability {
    /// Whether it makes terminals.
    #[serde(default)]
    pub(crate) create: bool,
}

/// What a host is told.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Activity {
    /// Whether it is told what sessions do.
    #[serde(default)]
    pub(crate) events: bool,
}

/// Whether a host pushes a policy.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
pub(crate) struct Policy {
    /// Whether it will.
    #[serde(default)]
    #[expect(dead_code, reason = "a push is taken from whoever sends one")]
    pub(crate) push: bool,
    /// Whether no session may begin before it did.
    #[serde(default)]
    pub(crate) required: bool,
}

/// What prompts of a host may bring along.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
#[expect(dead_code, reason = "what a prompt brings along says itself what it is")]
pub(crate) struct Attachments {
    /// Images.
    #[serde(default)]
    pub(crate) images: bool,
    /// Files.
    #[serde(default)]
    pub(crate) files: bool,
}

impl Capabilities {
    pub(crate) fn lends(&self) -> Lends {
        let files = self.fs.as_ref().map(|Object(files)| files);
        Lends {
            reads_files: files.is_some_and(|files| files.read_text_file),
            writes_files: files.is_some_and(|files| files.write_text_file),
            runs_commands: match &self.terminal {
                Some(Terminal::Plain(whether)) => *whether,
                Some(Terminal::Long(terminal)) => terminal.create,
                None => false,
            },
        }
    }

    pub(crate) fn review(&self) -> Review {
        let approvals = self.approvals.as_ref().and_then(|Object(it)| it.review.as_ref());
        approvals.map(|Word(review)| *review).unwrap_or_default()
    }

    pub(crate) fn takes_approvals(&self) -> bool {
        self.approvals.is_some()
    }

    pub(crate) fn takes_questions(&self) -> bool {
        self.interaction.as_ref().is_some_and(|Object(it)| it.questions)
    }

    pub(crate) fn takes_plans(&self) -> bool {
        self.interaction.as_ref().is_some_and(|Object(it)| it.plans)
    }

    pub(crate) fn wants_activity(&self) -> bool {
        self.activity.as_ref().is_some_and(|Object(it)| it.events)
    }

    pub(crate) fn requires_policy(&self) -> bool {
        self.policy.as_ref().is_some_and(|Object(it)| it.required)
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        self.models.as_ref().is_some_and(|Object(it)| it.exclusive)
    }

    /// Returns the only models that its sessions may use.
    pub(crate) fn allowed_models(&self) -> Option<Vec<String>> {
        let Object(models) = self.models.as_ref()?;
        let allowed = models.allowed.clone()?.into_vec();
        Some(allowed.into_iter().map(Text::into_string).collect())
    }
}
