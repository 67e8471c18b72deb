//! The managed settings of a machine.

use std::path::{Path, PathBuf};

use governance::Managed;
use hooks::{HookLayer, HookSet, Origin};
use policy::{Layer, LayerName};
use protocol::Mode;

use super::{GovernError, read_text};

/// The folder of the machine's own settings. No variable moves it.
pub const SYSTEM_FOLDER: &str = "/etc/narthex";

/// The name of the managed settings in that folder.
pub const MANAGED_FILE: &str = "managed-settings.json";

/// The variables that name managed settings where the machine has none of its own. The second is
/// that of hosts that embed the program.
const VARIABLES: [&str; 2] = ["NARTHEX_MANAGED_SETTINGS", "NEURALINVERSE_MANAGED_SETTINGS"];

/// Finds the managed settings: the file in the machine's folder, else the one that a variable
/// names, relative to the working folder. The machine's own file is its administrator's, so that
/// no variable puts another in its place. A file that a variable names must be there, or it governs
/// nothing; variables that are empty name none.
pub fn managed_file(
    system: &Path,
    cwd: &Path,
    variable: impl Fn(&str) -> Option<PathBuf>,
) -> Option<PathBuf> {
    let path = system.join(MANAGED_FILE);
    // What cannot be looked at may be there all the same: then reading it fails loudly.
    if !matches!(path.try_exists(), Ok(false)) {
        return Some(path);
    }
    let named = VARIABLES.iter().filter_map(|name| variable(name));
    named.filter(|path| !path.as_os_str().is_empty()).map(|path| cwd.join(path)).next()
}

/// Reads managed settings. What cannot be read governs nothing, so nothing may run then.
///
/// # Errors
/// [`GovernError::Wrong`], with the file and the key.
pub fn managed(path: &Path) -> Result<Managed, GovernError> {
    let text = read_text(path).map_err(|error| GovernError::unreadable(path, &error))?;
    Managed::parse(&text)
        .map_err(|problem| GovernError::Wrong(format!("{}: {problem}", path.display())))
}

/// Returns the hooks of managed settings, where they have any.
///
/// # Errors
/// [`GovernError::Wrong`], with the file and what is wrong.
pub fn managed_hooks(managed: &Managed, path: &Path) -> Result<Option<HookLayer>, GovernError> {
    let Some(hooks) = &managed.hooks else { return Ok(None) };
    let set = HookSet::from_value(hooks)
        .map_err(|error| GovernError::Wrong(format!("{}: {error}", path.display())))?;
    Ok((!set.is_empty()).then(|| (Origin::Managed, set).into()))
}

/// Returns the mode to which one that nobody asked for gives way under a governing layer; none
/// where it stays. Only the machine's own file makes it wider: for a layer that came from outside
/// a person has to choose. A mode that somebody asked for is refused instead, so that nobody works
/// in another mode than they think.
#[must_use]
pub fn mode_under(layer: &Layer, mode: Mode) -> Option<Mode> {
    let is_local = layer.name == LayerName::Managed;
    match layer.locked_mode {
        Some(locked) if is_local || locked < mode => Some(locked),
        None if layer.disable_full_auto && mode == Mode::FullAuto => Some(Mode::Ask),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_own_file_comes_before_every_variable() {
        let system = tempfile::tempdir().unwrap();
        let cwd = Path::new("/usr");
        let find = |pairs: &[(&str, &str)]| {
            managed_file(system.path(), cwd, |name| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| PathBuf::from(value))
            })
        };
        let [own, hosts] = VARIABLES;
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[(own, "")]), None);
        assert_eq!(find(&[(hosts, "/h.json")]), Some("/h.json".into()));
        assert_eq!(find(&[(own, ""), (hosts, "/h.json")]), Some("/h.json".into()));
        assert_eq!(find(&[(hosts, "/h.json"), (own, "n.json")]), Some("/usr/n.json".into()));
        let file = system.path().join(MANAGED_FILE);
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(find(&[(own, "/n.json")]), Some(file));
    }

    #[test]
    fn a_mode_that_nobody_asked_for_gives_way() {
        let layer = |name, locked_mode, disable_full_auto| Layer {
            locked_mode,
            disable_full_auto,
            ..Layer::new(name)
        };
        let (own, remote) = (LayerName::Managed, LayerName::Remote);
        let table = [
            (layer(own, None, true), Mode::Ask, None),
            (layer(own, None, true), Mode::FullAuto, Some(Mode::Ask)),
            (layer(own, Some(Mode::Plan), false), Mode::Ask, Some(Mode::Plan)),
            (layer(own, Some(Mode::AutoEdit), false), Mode::Ask, Some(Mode::AutoEdit)),
            (layer(remote, Some(Mode::Plan), false), Mode::Ask, Some(Mode::Plan)),
            (layer(remote, Some(Mode::AutoEdit), false), Mode::Ask, None),
        ];
        for (layer, mode, expected) in table {
            assert_eq!(mode_under(&layer, mode), expected, "{layer:?} {mode}");
        }
    }
}
