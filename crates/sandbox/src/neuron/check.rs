//! What a neuron may be asked to be.

use std::path::Path;

use driver_api::{IsolationLevel, NeuronDriver, NeuronError, NeuronLimits, NeuronSpec, Writes};
use protocol::NeuronId;

use super::home::is_id;

/// How many variables a neuron may have: doors allow 64, and egress adds a few.
const VARIABLES_MAX: usize = 128;

/// How many bytes a variable's value may have: what doors allow is a sixteenth of it.
const VALUE_LEN_MAX: usize = 64 << 10;

/// The least memory with which the first process and a shell start.
const MEMORY_MIN: u64 = 16 << 20;

/// The fewest processes: the first one, its connections, and a command that starts another.
const PIDS_MIN: u32 = 16;

/// The least processor time: with less, nothing answers in time.
const CPU_MILLIS_MIN: u32 = 10;

/// The least disk: the folders themselves take some of it.
const DISK_MIN: u64 = 1 << 20;

/// Refuses a text that is no id, before anything is looked for under it.
pub(super) fn id(id: &NeuronId) -> Result<(), NeuronError> {
    if is_id(id.as_str()) {
        return Ok(());
    }
    Err(NeuronError::Invalid(format!(
        "id {:?} is none: it has 1 to 64 letters, digits, _ and -",
        id.as_str()
    )))
}

/// Refuses what no driver could do. `home` is narthex's own folder.
pub(super) fn spec(spec: &NeuronSpec, home: &Path) -> Result<(), NeuronError> {
    id(&spec.id)?;
    variables(&spec.env)?;
    limits(spec.limits)?;
    folder(spec, home)?;
    match spec.driver {
        NeuronDriver::Namespace => Ok(()),
        NeuronDriver::Host => host(spec),
    }
}

fn invalid(text: impl Into<String>) -> NeuronError {
    NeuronError::Invalid(text.into())
}

fn variables(env: &[(String, String)]) -> Result<(), NeuronError> {
    if env.len() > VARIABLES_MAX {
        let text = format!("env has {} variables, at most {VARIABLES_MAX} may be", env.len());
        return Err(invalid(text));
    }
    for (name, value) in env {
        let mut bytes = name.bytes();
        let is_name = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            let text = format!("env.{name:?} is no name: letters, digits and _, not a digit first");
            return Err(invalid(text));
        }
        if value.len() > VALUE_LEN_MAX || value.contains('\0') {
            let text = format!("env.{name} has a NUL byte or more than {VALUE_LEN_MAX} bytes");
            return Err(invalid(text));
        }
    }
    Ok(())
}

fn limits(limits: NeuronLimits) -> Result<(), NeuronError> {
    let NeuronLimits { memory_bytes, pids, cpu_millis, disk_bytes } = limits;
    let given = [
        ("memory_bytes", memory_bytes, MEMORY_MIN),
        ("pids", pids.map(u64::from), u64::from(PIDS_MIN)),
        ("cpu_millis", cpu_millis.map(u64::from), u64::from(CPU_MILLIS_MIN)),
        ("disk_bytes", disk_bytes, DISK_MIN),
    ];
    for (name, value, least) in given {
        if let Some(value) = value.filter(|value| *value < least) {
            return Err(invalid(format!("limits.{name} is {value}, at least {least} is needed")));
        }
    }
    Ok(())
}

fn folder(spec: &NeuronSpec, home: &Path) -> Result<(), NeuronError> {
    let Some(folder) = &spec.folder else { return Ok(()) };
    let shown = folder.display();
    if folder.to_str().is_none() {
        return Err(invalid(format!("folder {shown} is not UTF-8")));
    }
    match folder.canonicalize() {
        Ok(real) if real == *folder && folder.is_dir() => {}
        Ok(real) if real.is_dir() => {
            let text = format!("folder {shown} is not real and absolute: it is {}", real.display());
            return Err(invalid(text));
        }
        Ok(_) => return Err(invalid(format!("folder {shown} is not a folder"))),
        Err(error) => return Err(invalid(format!("folder {shown} cannot be entered: {error}"))),
    }
    // The settings, secrets and sessions of narthex, and every other neuron, lie there.
    let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    if folder.starts_with(&home) || home.starts_with(folder) {
        let text = format!(
            "folder {shown} holds narthex's own files or lies among them ({})",
            home.display()
        );
        return Err(invalid(text));
    }
    Ok(())
}

/// What only a driver that keeps a neuron apart can do.
fn host(spec: &NeuronSpec) -> Result<(), NeuronError> {
    let unsupported = |text: &str| Err(NeuronError::NotSupported(text.to_owned()));
    if spec.isolation > IsolationLevel::None {
        return unsupported("driver host keeps nothing apart: use driver namespace");
    }
    if spec.folder.is_some() && spec.writes == Writes::Overlay {
        return unsupported(
            "driver host has no layer of its own: let writes go to the folder, or use driver \
             namespace",
        );
    }
    if spec.limits != NeuronLimits::default() {
        return unsupported(
            "driver host limits nothing: leave limits out, or use driver namespace",
        );
    }
    if !spec.egress.credentials.is_empty() {
        return unsupported(
            "driver host cannot keep credentials out of a neuron: use driver namespace",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use driver_api::Egress;

    use super::*;

    fn plain(driver: NeuronDriver) -> NeuronSpec {
        NeuronSpec {
            id: NeuronId::new("n"),
            driver,
            isolation: IsolationLevel::None,
            folder: None,
            writes: Writes::Overlay,
            env: Vec::new(),
            limits: NeuronLimits::default(),
            egress: Egress::default(),
        }
    }

    fn checked(change: impl FnOnce(&mut NeuronSpec)) -> String {
        let mut wanted = plain(NeuronDriver::Namespace);
        change(&mut wanted);
        match spec(&wanted, Path::new("/no/such/home")) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let env = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        assert_eq!(checked(|_| ()), "fine");
        assert_eq!(checked(|spec| spec.env = env("_A9", "x y")), "fine");
        assert!(checked(|spec| spec.id = NeuronId::new("../x")).contains("id \"../x\""));
        assert!(checked(|spec| spec.env = env("9A", "")).contains("\"9A\""));
        assert!(checked(|spec| spec.env = env("A", "\0")).contains("env.A"));
        assert!(checked(|spec| spec.limits.pids = Some(0)).contains("limits.pids"));
        assert!(checked(|spec| spec.limits.memory_bytes = Some(1)).contains("memory_bytes"));
        assert!(checked(|spec| spec.folder = Some("/none".into())).contains("/none"));
        assert!(checked(|spec| spec.folder = Some("relative".into())).contains("relative"));
        assert!(checked(|spec| spec.folder = Some("/dev/null".into())).contains("/dev/null"));
        assert!(checked(|spec| spec.folder = Some("/usr/".into())).contains("fine"));
        assert!(checked(|spec| spec.folder = Some("/proc/self".into())).contains("not real"));
    }

    #[test]
    fn no_neuron_sees_the_files_of_narthex() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let home = base.join("user/.narthex");
        std::fs::create_dir_all(home.join("neurons/a")).unwrap();
        std::fs::create_dir_all(base.join("user/project")).unwrap();
        for (name, is_fine) in [
            ("", false),
            ("user", false),
            ("user/.narthex", false),
            ("user/.narthex/neurons/a", false),
            ("user/project", true),
        ] {
            let mut wanted = plain(NeuronDriver::Namespace);
            wanted.folder = Some(if name.is_empty() { base.clone() } else { base.join(name) });
            assert_eq!(spec(&wanted, &home).is_ok(), is_fine, "{name}");
        }
    }

    #[test]
    fn a_host_neuron_promises_nothing_that_it_cannot_keep() {
        let refused = |change: fn(&mut NeuronSpec)| {
            let mut wanted = plain(NeuronDriver::Host);
            change(&mut wanted);
            matches!(spec(&wanted, Path::new("/none")), Err(NeuronError::NotSupported(_)))
        };
        assert!(!refused(|_| ()));
        assert!(refused(|spec| spec.isolation = IsolationLevel::Partial));
        assert!(refused(|spec| spec.folder = Some("/usr".into())));
        assert!(refused(|spec| spec.limits.pids = Some(100)));
    }
}
