//! Plays a scenario as a model.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{Delta, Model, ModelError, ModelInfo, ModelRequest, ModelResponse, Price};
use protocol::{Block, Message, StopReason, ToolCallId, Usage, Wire};
use tokio::sync::mpsc;

use super::NAME;
use super::scenario::{Call, Failure, Scenario, Step};
use crate::arguments;

/// What is said when a scene is over.
const OVER: &str = "I am a scripted model, and my script has nothing more for this.";

/// Most raised errors that are remembered; then counting starts again.
const RAISED_MAX: usize = 1_024;

/// The model.
#[derive(Debug)]
pub(crate) struct Player {
    info: ModelInfo,
    scenario: Arc<Scenario>,
    scene: String,
    /// How often an error was raised, by session and length of its transcript.
    raised: Mutex<HashMap<(String, usize), u32>>,
}

impl Player {
    /// Makes a player of one scene, or of whichever fits the prompt.
    pub(crate) fn new(scenario: Arc<Scenario>, scene: &str) -> Self {
        let id = if scene.is_empty() { NAME.to_owned() } else { format!("{NAME}/{scene}") };
        let free = Price { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0 };
        let info = ModelInfo {
            id,
            provider: NAME.to_owned(),
            wire: Wire::Scripted,
            context_window: None,
            max_output: None,
            price: Some(free),
            images: false,
        };
        Self { info, scenario, scene: scene.to_owned(), raised: Mutex::default() }
    }

    /// Tells whether an error is due, and counts it.
    fn is_due(&self, failure: &Failure, request: &ModelRequest) -> bool {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        if raised.len() >= RAISED_MAX {
            raised.clear();
        }
        let key = (request.cache_key.clone(), request.messages.len());
        let count = raised.entry(key).or_insert(0);
        let due = *count < failure.times;
        *count = count.saturating_add(1);
        due
    }

    async fn stream(&self, text: &str, deltas: &mpsc::Sender<Delta>, make: fn(String) -> Delta) {
        let mut letters = text.chars().peekable();
        while letters.peek().is_some() {
            let piece: String = letters.by_ref().take(self.scenario.piece_chars).collect();
            wait(self.scenario.piece_ms).await;
            // A queue that nobody reads is no error.
            let _gone = deltas.send(make(piece)).await;
        }
    }

    async fn fail(
        &self,
        failure: &Failure,
        text: &str,
        deltas: &mpsc::Sender<Delta>,
    ) -> ModelError {
        let partial: String = text.chars().take(failure.after_chars).collect();
        self.stream(&partial, deltas, Delta::Text).await;
        let said = failure.message.clone();
        let message = said.unwrap_or_else(|| format!("the script says {}", failure.kind().code()));
        ModelError {
            retry_after: failure.retry_after_ms.map(Duration::from_millis),
            partial_text: partial,
            ..ModelError::new(failure.kind(), format!("{NAME}: {message}"))
        }
    }
}

#[async_trait]
impl Model for Player {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        deltas: mpsc::Sender<Delta>,
    ) -> Result<ModelResponse, ModelError> {
        let messages: Vec<&Message> = request.messages.iter().map(|message| &**message).collect();
        let Some(step) = self.scenario.step(&self.scene, &messages) else {
            self.stream(OVER, &deltas, Delta::Text).await;
            let content = vec![Block::text(OVER)];
            let usage = estimate(request, OVER.len());
            return Ok(ModelResponse { content, stop: StopReason::EndTurn, usage });
        };
        wait(step.delay_ms).await;
        if let Some(failure) = &step.error
            && self.is_due(failure, request)
        {
            return Err(self.fail(failure, &step.text, &deltas).await);
        }
        self.stream(&step.thinking, &deltas, Delta::Thinking).await;
        self.stream(&step.text, &deltas, Delta::Text).await;
        Ok(answer(step, request))
    }
}

async fn wait(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

fn answer(step: &Step, request: &ModelRequest) -> ModelResponse {
    let mut content = Vec::new();
    if !step.thinking.is_empty() {
        content.push(Block::Thinking { text: step.thinking.clone(), signed: None });
    }
    if !step.text.trim().is_empty() {
        content.push(Block::text(step.text.clone()));
    }
    let place = request.messages.len();
    content.extend((1..).zip(&step.tools).map(|(number, call)| block(call, place, number)));
    let default = if step.tools.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
    let written = step.thinking.len() + step.text.len() + 80 * step.tools.len();
    let usage = step.usage.map_or_else(|| estimate(request, written), Usage::from);
    ModelResponse { content, stop: step.stop.unwrap_or(default), usage }
}

/// Makes a call. Its id is fresh in the session: the transcript has grown with each step.
fn block(call: &Call, place: usize, number: usize) -> Block {
    let id = call.id.clone().unwrap_or_else(|| format!("call_{place}_{number}"));
    let (input, malformed) = match &call.raw {
        Some(raw) => arguments::read(raw.clone()),
        None => (call.input.clone(), None),
    };
    let name = call.name.clone();
    Block::ToolUse { id: ToolCallId::new(id), name, input, malformed, signed: None }
}

/// Estimates four letters a token, as a real model of this length would about cost.
fn estimate(request: &ModelRequest, written: usize) -> Usage {
    let text = |block: &Block| match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
        _ => 40,
    };
    let size = |message: &Arc<Message>| -> usize {
        message
            .content
            .iter()
            .map(|block| match block {
                Block::ToolResult { content, .. } => content.iter().map(text).sum(),
                other => text(other),
            })
            .sum()
    };
    let read: usize = request.system.len() + request.messages.iter().map(size).sum::<usize>();
    let tokens = |letters: usize| u64::try_from(letters / 4 + 1).unwrap_or(u64::MAX);
    Usage { input_tokens: tokens(read), output_tokens: tokens(written), ..Usage::default() }
}
