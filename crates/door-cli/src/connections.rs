//! `narthex connections`: MCP servers, for people and programs.

use serde_json::json;
use terminal::{Exit, Failure, Paint, escape};
use tokio::sync::mpsc;

use crate::args::{ConnectionsAction, ConnectionsArgs, Globals};
use crate::door::{Room, print, print_json};
use crate::machine::{ConnectionInfo, Machine};
use crate::session::say_all;

/// How much of a name is shown: names that can be configured have no more.
const NAME_CHARS: usize = 64;
/// How much of a program, an address or a file is shown.
const WHAT_CHARS: usize = 300;
/// How much of what is wrong is shown.
const ERROR_CHARS: usize = 1000;
/// Addresses on their way to the screen: there is one.
const ADDRESSES_MAX: usize = 4;

/// Does what is asked with connections.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: ConnectionsArgs,
) -> Result<Exit, Failure> {
    match args.action.unwrap_or(ConnectionsAction::List { json: false }) {
        ConnectionsAction::List { json } => {
            let (list, notices) = room.machine.connections(globals)?;
            show(room, &list, &notices, json)
        }
        ConnectionsAction::Status { json } => {
            let tried = tokio::select! {
                biased;
                _ = room.desk.stops.next() => return Err(Failure::stopped()),
                tried = room.machine.try_connections(globals) => tried,
            };
            let (list, notices) = tried?;
            show(room, &list, &notices, json)?;
            let is_well = list.iter().all(|one| one.is_connected);
            Ok(if is_well { Exit::Done } else { Exit::Failed })
        }
        ConnectionsAction::Login { name } => login(room, globals, &name).await,
        ConnectionsAction::Logout { name } => {
            let were_there = room.machine.forget_tokens(globals, &name).await?;
            room.desk.console.say(&match were_there {
                true => format!("the tokens of {} are forgotten", escape::line(&name, NAME_CHARS)),
                false => format!("there were no tokens of {}", escape::line(&name, NAME_CHARS)),
            });
            Ok(Exit::Done)
        }
    }
}

async fn login<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    name: &str,
) -> Result<Exit, Failure> {
    let (sender, mut addresses) = mpsc::channel(ADDRESSES_MAX);
    let show = move |address: &str| {
        // Whoever reads them waits for nothing else.
        drop(sender.try_send(address.to_owned()));
    };
    let machine = room.machine;
    let mut authorized = std::pin::pin!(machine.authorize(globals, name, show));
    loop {
        tokio::select! {
            biased;
            _ = room.desk.stops.next() => return Err(Failure::stopped()),
            Some(address) = addresses.recv() => {
                let console = &mut room.desk.console;
                console.say("open this in a browser on this machine, and allow access there:");
                // Whole, on a line of its own: it is copied.
                console.say(&escape::line(&address, usize::MAX));
            }
            done = &mut authorized => {
                done?;
                let name = escape::line(name, NAME_CHARS);
                room.desk.console.say(&format!("{name} let this program in"));
                return Ok(Exit::Done);
            }
        }
    }
}

fn show<M>(
    room: &mut Room<'_, M>,
    list: &[ConnectionInfo],
    notices: &[String],
    is_json: bool,
) -> Result<Exit, Failure> {
    let console = &mut room.desk.console;
    say_all(notices, console);
    if is_json {
        return print_json(console, &json!({ "connections": list }).to_string());
    }
    if list.is_empty() {
        console.say(
            "no MCP servers are configured; one is a few lines: narthex config set \
             mcp.servers.NAME '{ command = \"…\" }'",
        );
        return Ok(Exit::Done);
    }
    let text = table(list, console.data_paint());
    print(console, &text)
}

fn table(list: &[ConnectionInfo], paint: Paint) -> String {
    let names: Vec<String> = list.iter().map(|one| escape::line(&one.name, NAME_CHARS)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (one, name) in list.iter().zip(&names) {
        let what = escape::line(&one.what, WHAT_CHARS);
        let origin = paint.dim(&format!("# {}", escape::line(&one.origin, WHAT_CHARS)));
        let stands = match (&one.state, one.tools) {
            (Some(state), Some(tools)) if one.is_connected => {
                let count = u64::try_from(tools).unwrap_or(u64::MAX);
                format!("{state}, {}  ", stdx::plural(count, "tool"))
            }
            (Some(state), None) if one.is_connected => format!("{state}  "),
            (Some(state), _) => format!("{}  ", paint.bad(state)),
            (None, _) => String::new(),
        };
        text.push_str(&format!("{name:<width$}  {stands}{what}  {origin}\n"));
        if let Some(error) = &one.error {
            let error = paint.dim(&escape::line(error, ERROR_CHARS));
            text.push_str(&format!("{:<width$}  {error}\n", ""));
        }
    }
    text
}
