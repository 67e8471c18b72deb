//! The remote policy, seen to before anything runs.

use door_cli::Failure;
use narthex::LayerName;
use narthex::governed::{GovernError, Standing};

use crate::settings::{Origin, Settings};

/// Sees to it that the remote policy holds before anything runs: waits for it where none is kept,
/// else fetches a newer one beside the run.
///
/// # Errors
/// A failure of configuration when the policy is required and there is none.
pub(crate) async fn ensure(settings: &mut Settings) -> Result<(), Failure> {
    if let Some(standing) = hold(settings).await? {
        #[allow(clippy::disallowed_methods, reason = "lives as long as the program itself")]
        tokio::spawn(standing.keep_fresh());
    }
    Ok(())
}

/// Sees to it that the remote policy holds before anything runs, and returns what keeps it fresh.
///
/// # Errors
/// As [`ensure`].
pub(crate) async fn hold(settings: &mut Settings) -> Result<Option<Standing>, Failure> {
    let Some(mut remote) = settings.remote.take() else { return Ok(None) };
    let held = remote.hold(&settings.policy).await.map_err(failure)?;
    if let Some(layer) = &held.fetched {
        let origin = Origin::File(LayerName::Remote, remote.file().to_owned());
        settings.govern(layer.clone(), &origin);
    }
    settings.notices.extend(held.notice.clone());
    let standing = remote.standing(&held, settings.policy.clone());
    settings.remote = Some(remote);
    Ok(Some(standing))
}

/// Turns what is wrong with what governs into a failure of the command.
pub(crate) fn failure(error: GovernError) -> Failure {
    match error {
        GovernError::Wrong(message) => Failure::usage(message),
        other => Failure::failed(other.to_string()),
    }
}
