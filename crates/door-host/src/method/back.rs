//! Going back: checkpoints, rewind, undo.

use jsonrpc::ErrorObject;
use native_wire::limited::Word;
use native_wire::{Checkpoint, Checkpoints, Rewound, Undone};
use protocol::event::RewindScope;
use protocol::{CheckpointId, SessionId};
use runtime_api::GoBack;
use serde_json::Value;

use super::{id, wire};
use crate::door::Inner;
use crate::error::{application, refused};
use crate::params::{self, OfSession, Rewind, Undo};

pub(super) async fn checkpoints(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let OfSession { session_id } = params::read(params)?;
    let id = id(&session_id)?;
    door.session(&id).await?;
    Ok(wire(&Checkpoints { checkpoints: points(door, &id).await? }))
}

async fn points(door: &Inner, id: &SessionId) -> Result<Vec<Checkpoint>, ErrorObject> {
    let points = door.options.handle.points(id).await.map_err(refused)?;
    Ok(points.into_iter().map(Checkpoint::from).collect())
}

pub(super) async fn rewind(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let Rewind { session_id, checkpoint_id, scope, force, dry_run } = params::read(params)?;
    let scope = scope.map_or(RewindScope::Both, |Word(scope)| scope);
    let id = id(&session_id)?;
    door.session(&id).await?;
    let (handle, wanted) = (&door.options.handle, CheckpointId::new(checkpoint_id.as_str()));
    let known = points(door, &id).await?;
    let Some(checkpoint) = known.into_iter().find(|point| point.id == wanted) else {
        // The runtime says no in its own order: a busy session first.
        let look = GoBack { is_forced: false, is_dry: true };
        handle.rewind(&id, &wanted, scope, look).await.map_err(refused)?;
        let what = "no such checkpoint in this session; session/checkpoints lists them";
        return Err(application("checkpoint_not_found", what));
    };
    let how = GoBack { is_forced: force, is_dry: dry_run };
    let back = handle.rewind(&id, &wanted, scope, how).await.map_err(refused)?;
    let messages_removed = back.messages_removed;
    Ok(wire(&Rewound { checkpoint, files: back.into(), messages_removed }))
}

pub(super) async fn undo(door: &Inner, params: Value) -> Result<Value, ErrorObject> {
    let Undo { session_id, force, dry_run } = params::read(params)?;
    let id = id(&session_id)?;
    door.session(&id).await?;
    let how = GoBack { is_forced: force, is_dry: dry_run };
    let back = door.options.handle.undo(&id, how).await.map_err(refused)?;
    let checkpoint = back.point.clone();
    Ok(wire(&Undone { undone: checkpoint.is_some(), checkpoint, files: back.into() }))
}
