//! Reads the events of a prompt as a stream, and leaves after a number of letters, which
//! interrupts the prompt: `cargo run -p narthex --example stream -- "Summarize the README" 200`.
#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::error::Error;
use std::process::ExitCode;

use narthex::Agent;
use narthex::protocol::EventBody;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    if let Some(code) = narthex::agent_main() {
        return Ok(code);
    }
    let mut arguments = std::env::args().skip(1);
    let prompt = arguments.next().ok_or("say what to do")?;
    let letters = arguments.next().map_or(Ok(usize::MAX), |count| count.parse())?;
    tokio::runtime::Runtime::new()?.block_on(run(&prompt, letters))?;
    Ok(ExitCode::SUCCESS)
}

async fn run(prompt: &str, letters: usize) -> Result<(), Box<dyn Error>> {
    let agent = Agent::builder().from_env().cwd(".").build().await?;
    let mut events = agent.stream(prompt);
    let mut text = String::new();
    while let Some(event) = events.next().await {
        if let EventBody::TextDelta(delta) = event?.body {
            text.push_str(&delta.text);
        }
        if text.chars().count() >= letters {
            break;
        }
    }
    println!("{text}");
    match events.result() {
        Some(result) => println!("{:?} after {} model calls", result.reason, result.turns),
        None => println!("that is enough"),
    }
    // Leaving early is enough: the prompt is interrupted here.
    drop(events);
    agent.close().await?;
    Ok(())
}
