//! Sandboxes of sessions' own: a neuron each, made over the session's folder.
//!
//! It lives as long as its session is open. Afterwards it is gone, unless changes wait in its own
//! layer to be brought over: then it is stopped and its files stay. Whatever happened to it
//! meanwhile, the session gets one again that is as strong as the one it was created with.

use std::path::PathBuf;
use std::sync::Arc;

use driver_api::{
    IsolationLevel, NeuronDriver, NeuronError, NeuronInfo, NeuronSpec, NeuronState, Neurons, Writes,
};
use protocol::{NeuronId, Refusal, RefusalCode, SessionId, SessionSandbox};
use runtime_api::Error;

use super::options::Options;
use super::place::refused;
use crate::neurons::NeuronDefaults;

/// What the ids of such neurons begin with; the session's own follows.
const PREFIX: &str = "s-";

/// What sandboxes of sessions are.
#[derive(Clone, Debug)]
pub struct Sandboxes {
    /// What keeps sessions apart that do not say it: [`NeuronDriver::Host`] for no sandbox.
    pub usual: NeuronDriver,
    /// Where writes to a session's folder go.
    pub writes: Writes,
    /// What else their neurons are; their driver is the session's.
    pub neuron: NeuronDefaults,
}

/// Returns the neuron of a session.
pub(crate) fn neuron_of(session: &SessionId) -> NeuronId {
    NeuronId::new(format!("{PREFIX}{session}"))
}

/// Returns the session of a neuron that is one's own.
pub(crate) fn session_of(neuron: &NeuronId) -> Option<SessionId> {
    neuron.as_str().strip_prefix(PREFIX).map(SessionId::new)
}

/// Tells whether a session that is created with these words gets a sandbox of its own.
///
/// # Errors
/// `not_supported` where there are none; `invalid` for further folders, which none has.
pub(crate) fn wanted(
    options: &Options,
    asked: Option<NeuronDriver>,
    roots: &[String],
) -> Result<Option<(Writes, NeuronDriver)>, Refusal> {
    let known = options.sandboxes.as_ref();
    let usual = known.map_or(NeuronDriver::Host, |known| known.usual);
    let driver = asked.unwrap_or(usual);
    if driver == NeuronDriver::Host {
        return Ok(None);
    }
    let Some(known) = known.filter(|_| options.neurons.is_some()) else {
        let message = "sandbox: there are no sandboxes here";
        return Err(Refusal::new(RefusalCode::NotSupported, message));
    };
    if !roots.is_empty() {
        let message = "sandbox: it holds the working folder alone: leave further folders out";
        return Err(Refusal::new(RefusalCode::Invalid, message));
    }
    if known.writes == Writes::Overlay && known.neuron.limits.disk_bytes.is_some() {
        let message = "sandbox: with neurons.disk_bytes what is written could not be brought over \
                       afterwards: leave that out, or set neurons.writes to folder";
        return Err(Refusal::new(RefusalCode::Invalid, message));
    }
    Ok(Some((known.writes, driver)))
}

/// Makes the sandbox of a new session, over a real folder.
pub(crate) async fn create(
    options: &Options,
    session: &SessionId,
    folder: &str,
    (writes, driver): (Writes, NeuronDriver),
) -> Result<(NeuronId, SessionSandbox), Error> {
    let least = IsolationLevel::Partial;
    let made = make(options, session, folder, (writes, driver, least)).await?;
    let isolation = made.isolation.map_or(IsolationLevel::None, |isolation| isolation.level);
    Ok((made.id, SessionSandbox { driver, isolation, writes }))
}

async fn make(
    options: &Options,
    session: &SessionId,
    folder: &str,
    (writes, driver, least): (Writes, NeuronDriver, IsolationLevel),
) -> Result<NeuronInfo, Error> {
    let (neurons, known) = parts(options)?;
    let usual = &known.neuron;
    let spec = NeuronSpec {
        id: neuron_of(session),
        driver,
        isolation: usual.isolation.max(least),
        folder: Some(PathBuf::from(folder)),
        writes,
        env: usual.env.clone(),
        limits: usual.limits,
        egress: usual.egress.clone(),
    };
    neurons.create(spec).await.map_err(|error| refused(explained(error)))
}

/// Says of what a machine lacks what the way out is.
fn explained(error: NeuronError) -> NeuronError {
    match error {
        NeuronError::NotSupported(text) => {
            NeuronError::NotSupported(format!("sandbox: {text}; without one: sandbox host"))
        }
        NeuronError::Invalid(text) => NeuronError::Invalid(format!("sandbox: {text}")),
        other => other,
    }
}

fn parts(options: &Options) -> Result<(&Arc<dyn Neurons>, &Sandboxes), Refusal> {
    options.neurons.as_ref().zip(options.sandboxes.as_ref()).ok_or_else(|| {
        let message = "sandbox: the session acts in a sandbox, and there are none here";
        Refusal::new(RefusalCode::NotSupported, message)
    })
}

/// Sees to it that the sandbox of a stored session runs, as strong as it was.
///
/// # Errors
/// `not_supported` where it would be weaker; as the creation and the start of neurons otherwise.
pub(crate) async fn ensure(
    options: &Options,
    neuron: &NeuronId,
    sandbox: SessionSandbox,
    folder: &str,
) -> Result<(), Error> {
    let (neurons, _) = parts(options)?;
    let SessionSandbox { driver, isolation, writes } = sandbox;
    let info = match neurons.info(neuron).await {
        Ok(info) if info.state == NeuronState::Stopped => {
            neurons.start(neuron).await.map_err(|error| refused(explained(error)))?
        }
        Ok(info) => info,
        Err(NeuronError::NotFound(_)) => {
            let session = session_of(neuron).unwrap_or_else(|| SessionId::new(neuron.as_str()));
            make(options, &session, folder, (writes, driver, isolation)).await?
        }
        Err(error) => return Err(refused(error)),
    };
    let found = info.isolation.map_or(IsolationLevel::None, |found| found.level);
    if found < isolation {
        let message = format!(
            "sandbox: the session was created with isolation {}, and its neuron has {}",
            isolation.as_str(),
            found.as_str()
        );
        return Err(Refusal::new(RefusalCode::NotSupported, message).into());
    }
    Ok(())
}

/// Puts a sandbox away whose session is closed: what waits in its layer stays, all else goes. A
/// failure is for the log; a later look puts it away again.
pub(crate) async fn put_away(options: &Options, neuron: &NeuronId, writes: Writes) {
    let Some(neurons) = &options.neurons else { return };
    let waits = match writes {
        Writes::Folder => false,
        // What cannot be told is kept.
        Writes::Overlay => match neurons.changes(neuron).await {
            Ok(changes) => !changes.is_empty(),
            Err(NeuronError::NotFound(_)) => return,
            Err(_) => true,
        },
    };
    let put = if waits { neurons.stop(neuron).await } else { neurons.destroy(neuron).await };
    match put {
        Ok(()) | Err(NeuronError::NotFound(_)) => {}
        Err(error) => tracing::warn!(%neuron, %error, "put the sandbox of a session away"),
    }
}

/// Removes the sandbox of a session that is erased, with what waits in it.
pub(crate) async fn remove(options: &Options, session: &SessionId) {
    let Some(neurons) = &options.neurons else { return };
    let neuron = neuron_of(session);
    match neurons.destroy(&neuron).await {
        Ok(()) | Err(NeuronError::NotFound(_)) => {}
        Err(error) => tracing::warn!(%neuron, %error, "remove the sandbox of a session"),
    }
}

/// Gives the copy of a session a sandbox of its own, which begins with what waits in the other's.
///
/// # Errors
/// As [`Neurons::fork`].
pub(crate) async fn copy(
    options: &Options,
    from: &SessionId,
    to: &SessionId,
    sandbox: SessionSandbox,
) -> Result<NeuronId, Error> {
    let (neurons, _) = parts(options)?;
    let (from, to) = (neuron_of(from), neuron_of(to));
    if sandbox.writes == Writes::Overlay {
        match neurons.fork(&from, to.clone()).await {
            Ok(_) => put_away(options, &to, sandbox.writes).await,
            Err(NeuronError::NotFound(_)) => {}
            Err(error) => return Err(refused(explained(error))),
        }
    }
    Ok(to)
}

/// Counts the changes that wait in the layer of a sandbox.
pub(crate) async fn waiting(options: &Options, neuron: &NeuronId, sandbox: SessionSandbox) -> u64 {
    let Some(neurons) = options.neurons.as_ref().filter(|_| sandbox.writes == Writes::Overlay)
    else {
        return 0;
    };
    match neurons.changes(neuron).await {
        Ok(changes) => changes.len() as u64,
        Err(NeuronError::NotFound(_)) => 0,
        Err(error) => {
            tracing::debug!(%neuron, %error, "count the changes that wait");
            0
        }
    }
}
