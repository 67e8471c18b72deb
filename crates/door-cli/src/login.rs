//! `narthex login`: a key is typed or piped, never an argument, which every process could see.

use stdx::Secret;
use terminal::{Desk, Exit, Failure, escape, tty};

use crate::args::Globals;
use crate::door::Room;
use crate::machine::Machine;

/// How long a key may be.
const KEY_BYTES_MAX: usize = 4096;

/// Asks for a provider's key and keeps it.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    provider: &str,
) -> Result<Exit, Failure> {
    let problem = |error: std::io::Error| Failure::usage(format!("read the key: {error}"));
    let Desk { console, input, stops } = &mut room.desk;
    let text = if console.facts().input_is_terminal {
        let name = escape::line(provider, 80);
        console.say(&format!("key of {name} (it is not shown while you type or paste it):"));
        let _kept = tty::Kept::around_secret();
        let (send, receive) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || drop(send.send(tty::read_secret())));
        let read = async { receive.await.map_err(std::io::Error::other).flatten() };
        stops.guard(async { read.await.map_err(problem) }).await?
    } else {
        stops.guard(async { input.read_all().await.map_err(problem) }).await?
    };
    let key = text.trim();
    if key.is_empty() {
        return Err(Failure::usage("the key is empty; nothing was kept"));
    }
    if key.len() > KEY_BYTES_MAX || key.chars().any(|letter| letter.is_whitespace()) {
        return Err(Failure::usage("this is no key: a key is one word; nothing was kept"));
    }
    let path = room.machine.keep_key(globals, provider, Secret::new(key.to_owned()))?;
    room.desk.console.say(&format!("kept in {} (only you can read it)", path.display()));
    Ok(Exit::Done)
}
