//! Serves a scenario file to programs that are not written in Rust.
//!
//! ```text
//! cargo run -p testkit --example model_server -- scenario.json
//! ```
//!
//! The first line that it prints is an object with its addresses (`url`, `anthropic`, `openai`,
//! `gemini`). Each line that it reads is one more answer, and is acknowledged with `ok`. When
//! its input closes it prints a report of what happened and ends.

use std::error::Error;
use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};
use testkit::model_server::{ModelServer, Scenario, parse_answer};

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = match std::env::args().nth(1) {
        Some(path) => {
            let text = std::fs::read_to_string(&path).map_err(|e| format!("read {path}: {e}"))?;
            Scenario::parse(&text).map_err(|e| format!("parse {path}: {e}"))?
        }
        None => Scenario::default(),
    };
    let server = ModelServer::start_blocking(scenario.options());
    scenario.load(&server);
    say(&json!({
        "url": server.url(),
        "anthropic": server.anthropic_base(),
        "openai": server.openai_base(),
        "gemini": server.gemini_base(),
    }))?;
    for line in std::io::stdin().lock().lines() {
        let answer = parse_answer(&line?).map_err(|e| format!("parse an answer: {e}"))?;
        server.push(answer);
        say(&json!("ok"))?;
    }
    say(&server.report())
}

fn say(value: &Value) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()?;
    Ok(())
}
