//! Modes and models, as an editor lets people choose them.

use agent_client_protocol_schema::v1::{
    Error, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption,
    SessionMode, SessionModeState,
};
use protocol::Mode;
use runtime_api::Handle;

use crate::error::invalid;

/// The id of the option for the mode.
pub(crate) const MODE: &str = "mode";
/// The id of the option for the model.
pub(crate) const MODEL: &str = "model";

/// What a session is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) mode: Mode,
    pub(crate) model: String,
}

/// Returns a mode's name and what it means, for people.
pub(crate) fn words_of(mode: Mode) -> (&'static str, &'static str) {
    match mode {
        Mode::Plan => ("Plan", "Only looks: edits and commands are refused"),
        Mode::Ask => ("Ask", "Reads run, everything else is asked for"),
        Mode::AutoEdit => ("Auto-edit", "Edits inside the folder run too, commands are asked for"),
        Mode::FullAuto => ("Full auto", "Everything runs that no rule forbids"),
    }
}

/// Lists the modes that policy lets a session take; the one that it has is among them.
pub(crate) fn modes(handle: &Handle, current: Mode) -> Vec<Mode> {
    let may = |mode: &Mode| *mode == current || handle.check_settings(Some(*mode), None).is_ok();
    Mode::ALL.into_iter().filter(may).collect()
}

/// Returns the modes as the protocol's own list of them.
pub(crate) fn mode_state(handle: &Handle, current: Mode) -> SessionModeState {
    let modes = modes(handle, current).into_iter().map(|mode| {
        let (name, meaning) = words_of(mode);
        SessionMode::new(mode.as_str(), name).description(meaning.to_owned())
    });
    SessionModeState::new(current.as_str(), modes.collect())
}

/// Returns everything that can be chosen for a session.
pub(crate) fn options(handle: &Handle, chosen: &Chosen) -> Vec<SessionConfigOption> {
    let modes = modes(handle, chosen.mode).into_iter().map(|mode| {
        let (name, meaning) = words_of(mode);
        SessionConfigSelectOption::new(mode.as_str(), name).description(meaning.to_owned())
    });
    let modes: Vec<SessionConfigSelectOption> = modes.collect();
    let mode = SessionConfigOption::select(MODE, "Mode", chosen.mode.as_str(), modes)
        .description("What runs without asking".to_owned())
        .category(SessionConfigOptionCategory::Mode);
    let mut names: Vec<String> = handle.models().into_iter().map(|model| model.id).collect();
    if !names.contains(&chosen.model) && !chosen.model.is_empty() {
        names.insert(0, chosen.model.clone());
    }
    if names.is_empty() {
        return vec![mode];
    }
    let models: Vec<SessionConfigSelectOption> = names
        .into_iter()
        .map(|id| {
            let name = id.split_once('/').map_or(id.as_str(), |(_, name)| name).to_owned();
            let provider = id.split_once('/').map(|(provider, _)| provider.to_owned());
            SessionConfigSelectOption::new(id, name).description(provider)
        })
        .collect();
    let model = SessionConfigOption::select(MODEL, "Model", chosen.model.clone(), models)
        .description("Which model answers".to_owned())
        .category(SessionConfigOptionCategory::Model);
    vec![mode, model]
}

/// Reads a mode.
///
/// # Errors
/// Names the field.
pub(crate) fn mode(field: &str, id: &str) -> Result<Mode, Error> {
    id.parse().map_err(|error| invalid(format!("{field}: {error}")))
}
