//! The scripted model: it follows a scenario file and makes real tool calls. For `narthex demo`,
//! for tests, and for a first run without a key.
//!
//! It is known as `demo`, and as `demo/SCENE` where one scene is to be played whatever the prompt
//! says. Which step comes next is read from the transcript alone, so that a session goes on after
//! a restart where it stood.
//!
//! # The scenario file (TOML)
//!
//! ```toml
//! piece_chars = 8             # text is streamed in pieces of so many characters (default 24)
//! piece_ms = 15               # wait before each piece (default 0, at most 10,000)
//!
//! [[scene]]
//! name = "fix"                # `demo/fix`; default "main"
//! prompt = ["fix", "test"]    # played when the prompt holds one of these, whatever the case;
//!                             # without it any prompt fits; the first scene that fits is played
//!
//! [[scene.step]]              # one answer of the model
//! thinking = "First a look."  # all fields may be left out, but not all at once
//! text = "I look around."
//! delay_ms = 300              # wait before the answer begins (default 0, at most 600,000)
//! tools = [
//!   { name = "list_dir", input = { path = "." } },
//!   { name = "read_file", id = "mine", raw = '{"path": ' },  # arguments sent as written
//! ]
//! stop = "max_tokens"         # default: tool_use with tools, else end_turn
//! usage = { input = 900, output = 40, cache_read = 0, cache_write = 0 }  # default: estimated
//!
//! [[scene.step]]
//! when = { contains = ["slug.sh"], lacks = ["error"], failed = false }
//! error = { kind = "overloaded", times = 2, retry_after_ms = 10, after_chars = 4 }
//! text = "Sent once the error was raised two times."
//! ```
//!
//! `when` judges the message that the step answers: its text, results of tools included, must
//! contain all of `contains` and none of `lacks`; `failed` says whether one of the results may be
//! an error. Steps are passed in order; one whose `when` does not hold is left out for good. When
//! no step is left the model says so. `error` fails the call `times` times (default 1) with what
//! comes of the text before `after_chars` (default 0), and may have a `message`; its kinds are
//! `rate_limited`, `overloaded`, `unavailable`, `network`, `malformed`, `context_overflow`,
//! `unauthorized`, `rejected`.
//! A file with one scene may leave `[[scene]]` out and write `[[step]]` at the top.

mod play;
mod scenario;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use driver_api::Model;
use protocol::{Refusal, RefusalCode};

pub(crate) use self::scenario::Scenario;

/// The name of the provider and of the model.
pub(crate) const NAME: &str = "demo";

const BUILT_IN: &str = include_str!("../data/demo.toml");

/// Makes the model; `scene` may be empty.
pub(crate) fn model(
    scenario: Option<Arc<Scenario>>,
    scene: &str,
) -> Result<Arc<dyn Model>, Refusal> {
    let scenario = match scenario {
        Some(scenario) => scenario,
        None => built_in().map_err(|reason| {
            Refusal::new(RefusalCode::InvalidModel, format!("built-in scenario: {reason}"))
        })?,
    };
    if !scene.is_empty() && scenario.scene_named(scene).is_none() {
        let names = scenario.scene_names().join(", ");
        let message = format!("no scene {scene:?} in the scenario; its scenes: {names}");
        return Err(Refusal::new(RefusalCode::InvalidModel, message));
    }
    Ok(Arc::new(play::Player::new(scenario, scene)))
}

fn built_in() -> Result<Arc<Scenario>, String> {
    static PARSED: OnceLock<Result<Arc<Scenario>, String>> = OnceLock::new();
    PARSED.get_or_init(|| Scenario::parse(BUILT_IN).map(Arc::new)).clone()
}
