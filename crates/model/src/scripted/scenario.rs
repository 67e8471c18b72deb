//! The scenario file. Its format is described in the module above.

use std::io::Read;
use std::path::Path;

use driver_api::ModelErrorKind;
use protocol::{Block, Message, StopReason, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::provider::Error;

/// Largest file: a scenario is written by hand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest waits, in milliseconds, so that a slip of the pen does not hang a run.
const PIECE_MS_MAX: u64 = 10_000;
const DELAY_MS_MAX: u64 = 600_000;

/// A scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) piece_chars: usize,
    pub(crate) piece_ms: u64,
    scenes: Vec<Scene>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "default_piece")]
    piece_chars: usize,
    #[serde(default)]
    piece_ms: u64,
    #[serde(default)]
    scene: Vec<Scene>,
    #[serde(default)]
    step: Vec<Step>,
}

/// A course of steps.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scene {
    #[serde(default = "default_name")]
    name: String,
    #[serde(default)]
    prompt: Vec<String>,
    #[serde(default)]
    step: Vec<Step>,
}

/// One answer of the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    #[serde(default)]
    when: When,
    #[serde(default)]
    pub(crate) delay_ms: u64,
    #[serde(default)]
    pub(crate) thinking: String,
    #[serde(default)]
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) tools: Vec<Call>,
    pub(crate) stop: Option<StopReason>,
    pub(crate) usage: Option<Spent>,
    pub(crate) error: Option<Failure>,
}

/// What the message that a step answers must be like.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    #[serde(default)]
    contains: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
    failed: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    #[serde(default)]
    pub(crate) input: Map<String, Value>,
    pub(crate) raw: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
pub(crate) struct Spent {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
}

impl From<Spent> for Usage {
    fn from(spent: Spent) -> Self {
        Usage {
            input_tokens: spent.input,
            output_tokens: spent.output,
            cache_read_tokens: spent.cache_read,
            cache_write_tokens: spent.cache_write,
            reasoning_tokens: spent.reasoning,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Failure {
    kind: FailureKind,
    #[serde(default = "once")]
    pub(crate) times: u32,
    pub(crate) message: Option<String>,
    pub(crate) retry_after_ms: Option<u64>,
    #[serde(default)]
    pub(crate) after_chars: usize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FailureKind {
    RateLimited,
    Overloaded,
    Unavailable,
    Network,
    Malformed,
    ContextOverflow,
    Unauthorized,
    Rejected,
}

impl Failure {
    pub(crate) fn kind(&self) -> ModelErrorKind {
        match self.kind {
            FailureKind::RateLimited => ModelErrorKind::RateLimited,
            FailureKind::Overloaded => ModelErrorKind::Overloaded,
            FailureKind::Unavailable => ModelErrorKind::Unavailable,
            FailureKind::Network => ModelErrorKind::Network,
            FailureKind::Malformed => ModelErrorKind::Malformed,
            FailureKind::ContextOverflow => ModelErrorKind::ContextOverflow,
            FailureKind::Unauthorized => ModelErrorKind::Unauthorized,
            FailureKind::Rejected => ModelErrorKind::Rejected,
        }
    }
}

fn default_piece() -> usize {
    24
}

fn default_name() -> String {
    "main".to_owned()
}

fn once() -> u32 {
    1
}

impl Scenario {
    /// Reads a file.
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let failed = |reason: String| Error::Scenario { path: path.display().to_string(), reason };
        let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        let length = read.map_err(|error| failed(error.to_string()))?;
        if u64::try_from(length).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
            return Err(failed(format!("larger than {}", stdx::bytes(FILE_BYTES_MAX))));
        }
        Self::parse(&text).map_err(failed)
    }

    /// Reads the text of a file and checks it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut scenes = file.scene;
        if !file.step.is_empty() {
            scenes.push(Scene { name: default_name(), prompt: Vec::new(), step: file.step });
        }
        if scenes.is_empty() {
            return Err("there is no [[scene]] and no [[step]]".to_owned());
        }
        for scene in &scenes {
            scene.check()?;
        }
        Ok(Self {
            piece_chars: file.piece_chars.max(1),
            piece_ms: file.piece_ms.min(PIECE_MS_MAX),
            scenes,
        })
    }

    pub(crate) fn scene_named(&self, name: &str) -> Option<&Scene> {
        self.scenes.iter().find(|scene| scene.name == name)
    }

    pub(crate) fn scene_names(&self) -> Vec<&str> {
        self.scenes.iter().map(|scene| scene.name.as_str()).collect()
    }

    /// Returns the step that a transcript leads to, or none when the scene is over. A scene that
    /// is not named is chosen by the prompt.
    pub(crate) fn step(&self, scene: &str, messages: &[&Message]) -> Option<&Step> {
        let start = self.turn_start(messages);
        let turn = messages.get(start..).unwrap_or_default();
        let prompt = turn.first().map(|message| said(message)).unwrap_or_default();
        let scene = match scene {
            "" => self.scenes.iter().find(|scene| scene.fits(&prompt))?,
            name => self.scene_named(name)?,
        };
        // Every second message is an answer that a step gave; the same choices are made again.
        let mut steps = scene.step.iter();
        let asked = turn.iter().step_by(2);
        let mut chosen = None;
        for message in asked {
            chosen = steps.by_ref().find(|step| step.when.holds(message));
        }
        chosen
    }

    /// Finds the message that began the turn: the last one of a person. Where a stopped turn was
    /// followed by a new prompt, results and prompt share a message; it counts when a scene knows
    /// the prompt, for else it is a word said in between.
    fn turn_start(&self, messages: &[&Message]) -> usize {
        let begins = |message: &&Message| {
            let is_user = message.role != protocol::Role::Assistant;
            let results = message.content.iter().any(is_result);
            let text = own_text(message);
            let known = self.scenes.iter().any(|scene| scene.knows(&text));
            is_user && !text.trim().is_empty() && (!results || known)
        };
        messages.iter().rposition(begins).unwrap_or(0)
    }
}

impl Scene {
    fn check(&self) -> Result<(), String> {
        for (number, step) in (1..).zip(&self.step) {
            let is_empty = step.thinking.is_empty()
                && step.text.trim().is_empty()
                && step.tools.is_empty()
                && step.error.is_none();
            let place = format!("step {number} of scene {:?}", self.name);
            if is_empty {
                return Err(format!("{place} has neither thinking, text, tools nor error"));
            }
            if step.delay_ms > DELAY_MS_MAX {
                return Err(format!("delay_ms of {place} is over {DELAY_MS_MAX}"));
            }
        }
        if self.step.is_empty() {
            return Err(format!("scene {:?} has no step", self.name));
        }
        Ok(())
    }

    fn fits(&self, prompt: &str) -> bool {
        self.prompt.is_empty() || self.knows(prompt)
    }

    fn knows(&self, prompt: &str) -> bool {
        let prompt = prompt.to_lowercase();
        self.prompt.iter().any(|word| prompt.contains(&word.to_lowercase()))
    }
}

impl When {
    fn holds(&self, message: &Message) -> bool {
        let text = said(message);
        let failed = message
            .content
            .iter()
            .any(|block| matches!(block, Block::ToolResult { is_error: true, .. }));
        self.contains.iter().all(|word| text.contains(word))
            && !self.lacks.iter().any(|word| text.contains(word))
            && self.failed.is_none_or(|wanted| wanted == failed)
    }
}

fn is_result(block: &Block) -> bool {
    matches!(block, Block::ToolResult { .. })
}

/// Returns the text of a message without results.
fn own_text(message: &Message) -> String {
    texts(&message.content)
}

fn texts(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns all text of a message, results included.
fn said(message: &Message) -> String {
    let mut pieces = Vec::new();
    for block in &message.content {
        match block {
            Block::Text { text, .. } => pieces.push(text.clone()),
            Block::ToolResult { content, .. } => pieces.push(texts(content)),
            _ => {}
        }
    }
    pieces.join("\n")
}
