//! What is done with the sandboxes of sessions while those are closed.

use std::sync::Arc;

use driver_api::{BringOver, BroughtOver, NeuronError, NeuronState};
use protocol::{NeuronId, Refusal, RefusalCode, SessionId, Writes};
use runtime_api::Error;

use super::slots::Core;
use crate::engine::own;
use crate::engine::place::refused as no_neuron;
use crate::engine::stored::refused;

impl Core {
    /// Brings what waits in a session's layer over to its folder; the layer goes when all of it
    /// was.
    pub(super) async fn bring_over(
        self: &Arc<Self>,
        session: &SessionId,
        how: BringOver,
    ) -> Result<BroughtOver, Error> {
        self.with_layer(session, move |core, neuron| async move {
            let Some(neurons) = &core.services.options.neurons else {
                return Ok(BroughtOver::default());
            };
            let brought = match neurons.bring_over(&neuron, how).await {
                Err(NeuronError::NotFound(_)) => return Ok(BroughtOver::default()),
                brought => brought.map_err(no_neuron)?,
            };
            if !how.is_dry && brought.kept.is_empty() {
                neurons.destroy(&neuron).await.map_err(no_neuron)?;
            }
            Ok(brought)
        })
        .await
    }

    /// Throws away what waits in a session's layer; tells how many paths that was.
    pub(super) async fn discard(self: &Arc<Self>, session: &SessionId) -> Result<u64, Error> {
        self.with_layer(session, |core, neuron| async move {
            let Some(neurons) = &core.services.options.neurons else { return Ok(0) };
            let waiting = match neurons.changes(&neuron).await {
                Err(NeuronError::NotFound(_)) => return Ok(0),
                changes => changes.map_err(no_neuron)?.len() as u64,
            };
            neurons.destroy(&neuron).await.map_err(no_neuron)?;
            Ok(waiting)
        })
        .await
    }

    /// Does something with the layer of a session that nobody opens meanwhile.
    async fn with_layer<T, W>(
        self: &Arc<Self>,
        session: &SessionId,
        work: impl FnOnce(Arc<Self>, NeuronId) -> W + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Error>> + Send,
    {
        let (core, id) = (Arc::clone(self), session.clone());
        self.see_through(async move {
            core.still_open().await?;
            let _alone = core.alone(&id).await;
            if core.slot(&id).is_some() {
                let message = "the session is open: close it first";
                return Err(Refusal::new(RefusalCode::SessionBusy, message).into());
            }
            let store = &core.services.options.store;
            let lease = store.claim(&id).await.map_err(refused)?;
            let done = match core.layer_of(&id).await {
                Ok(neuron) => work(Arc::clone(&core), neuron).await,
                Err(error) => Err(error),
            };
            store.release(&lease).await.map_err(refused)?;
            done
        })
        .await
    }

    async fn layer_of(&self, id: &SessionId) -> Result<NeuronId, Error> {
        let known = self.neuron_of(id).await?;
        let message = match known {
            Some((neuron, Some(sandbox))) if sandbox.writes == Writes::Overlay => {
                return Ok(neuron);
            }
            Some((_, Some(_))) => "the sandbox of the session writes to its folder itself",
            Some((_, None)) | None => "the session has no sandbox of its own",
        };
        let message = format!("{message}: there is nothing to bring over");
        Err(Refusal::new(RefusalCode::Invalid, message).into())
    }

    /// Puts sandboxes away whose processes died before they could do it.
    pub(super) async fn sweep_sandboxes(self: &Arc<Self>) {
        let options = &self.services.options;
        let Some(neurons) = &options.neurons else { return };
        let listed = match neurons.list().await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(%error, "look for sandboxes that were left");
                return;
            }
        };
        for info in listed {
            let Some(session) = own::session_of(&info.id).filter(|_| info.owner_pid.is_none())
            else {
                continue;
            };
            if info.state == NeuronState::Starting {
                continue;
            }
            let _alone = self.alone(&session).await;
            if self.slot(&session).is_some() {
                continue;
            }
            match options.store.get(&session).await {
                // It has an owner that lives; or one that is about to have it.
                Ok(row) if row.owner.is_some() => {}
                Ok(_) if info.state == NeuronState::Stopped => {}
                Ok(_) => own::put_away(options, &info.id, info.writes).await,
                // Of a session that another store knows, or somebody's own neuron of such a name:
                // one whose layer may hold work is never removed for that.
                Err(driver_api::StoreError::NotFound(_)) if info.writes == Writes::Overlay => {}
                Err(driver_api::StoreError::NotFound(_)) => own::remove(options, &session).await,
                Err(error) => tracing::warn!(%session, %error, "look for an owner of a sandbox"),
            }
        }
    }
}
