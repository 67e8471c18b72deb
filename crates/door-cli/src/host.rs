//! `narthex host`: hand the standard streams or a socket to the door for applications that embed
//! the program, and stop it when it should.

use terminal::{Exit, Failure};
use tokio::sync::oneshot;

use crate::args::{Globals, HostArgs};
use crate::door::Room;
use crate::machine::Machine;

/// Serves a host until it is gone, or somebody stops the program.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    args: HostArgs,
) -> Result<Exit, Failure> {
    let (stop, stopped) = oneshot::channel();
    let machine = room.machine;
    let serving = machine.host(globals, args, stopped);
    tokio::pin!(serving);
    tokio::select! {
        biased;
        ended = &mut serving => return ended.map(|()| Exit::Done),
        _ = room.desk.stops.next() => drop(stop),
    }
    tokio::select! {
        biased;
        ended = &mut serving => ended.map(|()| Exit::Done),
        _ = room.desk.stops.next() => Err(Failure::stopped()),
    }
}
