//! What goes before a neuron and with it: turns that act in it, and what its tools left.

use std::path::PathBuf;
use std::time::Duration;

use protocol::{NeuronId, SessionId};
use runtime_api::{Handle, Interrupt, SessionState};

use super::House;

/// How long stopped turns are waited for: their trees end within seconds, and whoever does not
/// ends with the neuron.
const STOP_WAIT_MAX: Duration = Duration::from_secs(10);

/// How often it is looked whether they have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl House {
    /// Stops the turns of sessions that are open here and act in a neuron.
    pub(super) async fn stop_turns(&self, neuron: &NeuronId) {
        let Some(sessions) = &self.options.sessions else { return };
        let mut stopped = Vec::new();
        for session in busy(sessions, neuron).await {
            match sessions.interrupt(&session, Interrupt::All).await {
                Ok(_) => stopped.push(session),
                Err(error) => tracing::warn!(%session, %error, "stop a turn before its neuron"),
            }
        }
        let clock = &self.options.clock;
        let deadline = clock.elapsed() + STOP_WAIT_MAX;
        while !stopped.is_empty() && clock.elapsed() < deadline {
            let busy = busy(sessions, neuron).await;
            stopped.retain(|session| busy.contains(session));
            if !stopped.is_empty() {
                clock.sleep(LOOK_AGAIN).await;
            }
        }
    }
}

/// Lists the sessions that act in a neuron and do something.
async fn busy(sessions: &Handle, neuron: &NeuronId) -> Vec<SessionId> {
    let opened = match sessions.opened().await {
        Ok(opened) => opened,
        Err(error) => {
            tracing::warn!(%error, "list sessions");
            return Vec::new();
        }
    };
    let in_it = opened.into_iter().filter(|session| {
        session.neuron.as_ref() == Some(neuron) && session.state != SessionState::Idle
    });
    in_it.map(|session| session.id).collect()
}

/// Removes the long outputs of a neuron's tools. They are nobody's need any more, so a failure is
/// for the log.
pub(super) async fn remove_outputs(folder: PathBuf) {
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
    match removed {
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, "remove the outputs of a neuron's tools");
        }
        _ => {}
    }
}
