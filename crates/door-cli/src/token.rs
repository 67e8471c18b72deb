//! `narthex token`: what lets a program in.

use protocol::Timestamp;
use serde_json::json;
use terminal::{Exit, Failure, Paint, escape};

use crate::args::{Globals, TokenAction, TokenArgs};
use crate::door::{Room, print, print_json};
use crate::machine::{Machine, TokenInfo};

/// How many characters of a name are shown: names that are made have no more.
const NAME_CHARS: usize = 64;

/// Does what is asked with tokens.
pub(crate) fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: &TokenArgs,
) -> Result<Exit, Failure> {
    let machine = room.machine;
    let now = (room.now)();
    let console = &mut room.desk.console;
    match &args.action {
        None => {
            let server = machine.running_server(globals)?;
            let token = server.token.expose();
            if args.json {
                let record = json!({ "url": server.url, "token": token, "pid": server.pid });
                return print_json(console, &record.to_string());
            }
            print(console, &format!("{token}\n"))
        }
        Some(TokenAction::Create { name, expires, json }) => {
            let made = machine.make_token(globals, name, *expires)?;
            let token = made.token.expose();
            if *json {
                let mut record = json!(made.info);
                if let Some(fields) = record.as_object_mut() {
                    fields.insert("token".to_owned(), json!(token));
                }
                return print_json(console, &record.to_string());
            }
            let until = match made.info.expires_at {
                Some(instant) => format!("is good until {instant}"),
                None => "is good until it is revoked".to_owned(),
            };
            console.say(&format!("the token '{name}' {until}; it is shown this once"));
            print(console, &format!("{token}\n"))
        }
        Some(TokenAction::List { json }) => {
            let tokens = machine.tokens(globals)?;
            if *json {
                return print_json(console, &json!({ "tokens": tokens }).to_string());
            }
            if tokens.is_empty() {
                console.say("no tokens were made; make one: narthex token create NAME");
                return Ok(Exit::Done);
            }
            let text = table(&tokens, now, console.data_paint());
            print(console, &text)
        }
        Some(TokenAction::Revoke { name }) => {
            machine.revoke_token(globals, name)?;
            console.say(&format!("revoked '{name}'; servers refuse it from the next second on"));
            Ok(Exit::Done)
        }
    }
}

fn table(tokens: &[TokenInfo], now: Timestamp, paint: Paint) -> String {
    let names: Vec<String> =
        tokens.iter().map(|token| escape::line(&token.name, NAME_CHARS)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (token, name) in tokens.iter().zip(&names) {
        let made = format!("made {}", token.created_at);
        let end = match token.expires_at {
            None => paint.dim("for ever"),
            Some(instant) if instant <= now => paint.care(&format!("expired {instant}")),
            Some(instant) => paint.dim(&format!("until {instant}")),
        };
        text.push_str(&format!("{name:<width$}  {}  {end}\n", paint.dim(&made)));
    }
    text
}
