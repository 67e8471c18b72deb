//! Runs one prompt in the current folder, and shows the answer as it comes:
//! `cargo run -p narthex --example prompt -- "Fix the failing test in src/parser.rs"`.
//!
//! The model and its key are those of the environment: `NARTHEX_MODEL=anthropic/claude-sonnet-4-6`
//! and `ANTHROPIC_API_KEY`, for example. `NARTHEX_MODEL=demo` needs no key.
#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use narthex::protocol::{Effect, EventBody, Mode};
use narthex::{Agent, Decision};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // First of all: this program may have been started as its own workspace agent.
    if let Some(code) = narthex::agent_main() {
        return Ok(code);
    }
    let prompt = std::env::args().nth(1).ok_or("say what to do")?;
    tokio::runtime::Runtime::new()?.block_on(run(&prompt))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(prompt: &str) -> Result<(), Box<dyn Error>> {
    let agent = Agent::builder()
        .from_env()
        .cwd(".")
        .mode(Mode::Ask)
        // Called whenever a tool call needs approval. Without it such calls are denied.
        .on_permission(|request| async move {
            println!("{}: {}", request.tool_name, request.target.summary);
            match request.target.effect {
                Effect::Write => Decision::AllowOnce,
                _ => Decision::deny("read-only please"),
            }
        })
        .build()
        .await?;
    let result = agent.prompt_with(prompt, |event| {
        if let EventBody::TextDelta(delta) = &event.body {
            print!("{}", delta.text);
            // A closed output is no reason to stop the prompt.
            let _ = std::io::stdout().flush().is_ok();
        }
    });
    let result = result.await?;
    let cost = result.cost_usd.map_or("?".to_owned(), |cost| format!("{cost:.4}"));
    println!("\n{:?}, {} output tokens, ${cost}", result.reason, result.usage.output_tokens);
    agent.close().await?;
    Ok(())
}
