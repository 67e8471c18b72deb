//! `narthex acp`: hand the standard streams to the door for editors, and stop it when it should.

use terminal::{Exit, Failure};
use tokio::sync::oneshot;

use crate::args::{AcpArgs, Globals};
use crate::door::Room;
use crate::login;
use crate::machine::Machine;

/// Speaks with an editor until it is gone or somebody stops the program.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: AcpArgs,
) -> Result<Exit, Failure> {
    if let Some(provider) = args.login {
        return login::run(room, globals, &provider).await;
    }
    let (stop, stopped) = oneshot::channel();
    let machine = room.machine;
    let speaking = machine.acp(globals, stopped);
    tokio::pin!(speaking);
    tokio::select! {
        biased;
        ended = &mut speaking => return ended.map(|()| Exit::Done),
        _ = room.desk.stops.next() => drop(stop),
    }
    tokio::select! {
        biased;
        ended = &mut speaking => ended.map(|()| Exit::Done),
        _ = room.desk.stops.next() => Err(Failure::stopped()),
    }
}
