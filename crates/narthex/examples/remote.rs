//! Runs a prompt at a server that `narthex serve` started on this machine:
//! `cargo run -p narthex --example remote -- ~/.narthex "Add input validation to the form"`.
#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::error::Error;
use std::io::Write;

use narthex::client::CreateSession;
use narthex::protocol::{Effect, Mode};
use narthex::{Callbacks, Client, Decision, Reply};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let home = arguments.next().ok_or("say which home the server has")?;
    let prompt = arguments.next().ok_or("say what to do")?;
    // The home has the server's address and token. `Client::connect` takes both.
    let client = Client::local(home)?;
    // Without a folder the session works in the server's first root.
    let wanted = CreateSession::default().mode(Mode::Ask);
    let session = client.create_session(wanted).await?;
    let callbacks = Callbacks::new()
        .on_permission(|request| async move {
            match request.effect {
                Effect::Write => Decision::AllowOnce,
                _ => Decision::deny("read-only please"),
            }
        })
        .on_question(|question| async move {
            // The model recommends its first option.
            question.options.first().map_or(Reply::Dismissed, |first| Reply::choose(&first.label))
        });
    let result = session.run_with(&prompt, callbacks, |event| {
        if let Some(text) = event.body.text_delta() {
            print!("{text}");
            let _ = std::io::stdout().flush().is_ok();
        }
    });
    let result = result.await?;
    println!("\n{:?}", result.reason);
    session.close().await?;
    Ok(())
}
