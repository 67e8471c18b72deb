//! Erasing a session with all that is kept of it.

use std::path::PathBuf;
use std::sync::Arc;

use driver_api::Fault;
use protocol::SessionId;
use protocol::event::SessionEnd;
use runtime_api::Error;

use super::slots::Core;
use crate::engine::own;
use crate::engine::stored::refused;

impl Core {
    /// Erases a session; one that is open here is closed first.
    pub(super) async fn remove(self: &Arc<Self>, id: &SessionId) -> Result<(), Error> {
        let (core, id) = (Arc::clone(self), id.clone());
        self.see_through(async move {
            core.still_open().await?;
            let _alone = core.alone(&id).await;
            if core.slot(&id).is_some() {
                core.close_alone(&id, SessionEnd::Deleted).await?;
            }
            core.erase(&id).await
        })
        .await
    }

    async fn erase(&self, id: &SessionId) -> Result<(), Error> {
        // One that was not open here may have left something running all the same.
        self.services.tenures.end(id);
        let options = &self.services.options;
        let lease = options.store.claim(id).await.map_err(refused)?;
        if let Err(error) = options.store.remove(&lease).await {
            if let Err(error) = options.store.release(&lease).await {
                tracing::warn!(session = %id, %error, "release a session that was not erased");
            }
            return Err(refused(error));
        }
        if let Some(checkpoints) = &options.checkpoints
            && let Err(error) = checkpoints.forget(id).await
        {
            tracing::warn!(session = %id, %error, "forget the captured files of a removed session");
        }
        own::remove(options, id).await;
        remove_folder(options.spill.join(id.as_str())).await
    }
}

/// Removes a folder that may be large, or not there.
async fn remove_folder(folder: PathBuf) -> Result<(), Error> {
    let what = format!("remove {}", folder.display());
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
    match removed {
        Err(error) => Err(Fault::with(what, error).into()),
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Fault::with(what, error).into())
        }
        Ok(_) => Ok(()),
    }
}
