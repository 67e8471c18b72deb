//! What a new neuron is to be: filled in, and checked before a driver hears of it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use driver_api::{
    Access, CallFacts, Egress, EgressCredential, EgressRule, Fault, Located, NeuronLimits,
    NeuronSpec, PathFact, Writes,
};
use protocol::{Effect, Refusal};
use runtime_api::Error;
use runtime_api::neuron::CreateNeuron;

use super::{House, check_id, invalid};

/// Variables that a creator may set: more than programs ask for, few enough for every command.
const VARIABLES_MAX: usize = 64;

/// Characters of a variable's name.
const NAME_CHARS_MAX: usize = 128;

/// Bytes of a variable's value: a key or a path fits, a file does not belong there.
const VALUE_BYTES_MAX: usize = 4_096;

/// Bytes of a secret with its prefix: what servers take of one header, and what the proxy sets.
const SECRET_BYTES_MAX: usize = 8 << 10;

/// Hosts that a neuron may be let to: each request is held against them.
const RULES_MAX: usize = 256;

/// Secrets that may be added: each ends TLS for its host.
const CREDENTIALS_MAX: usize = 64;

/// Characters of a host's name, as DNS has it.
const HOST_CHARS_MAX: usize = 253;

/// Bytes of memory: with less not even a shell starts.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// Bytes of memory and disk at most: no machine that this runs on has more.
const BYTES_MAX: u64 = 64 << 40;

/// Processes: the first one, a shell, and two of its own.
const PIDS_MIN: u64 = 4;

/// Thousandths of a core: with less a command does not come to its end.
const CPU_MILLIS_MIN: u64 = 10;

/// Bytes of disk: a file of a few lines and what a shell leaves.
const DISK_BYTES_MIN: u64 = 1 << 20;

impl House {
    /// Fills in and checks what a new neuron is to be.
    pub(super) async fn wanted(&self, neuron: CreateNeuron) -> Result<NeuronSpec, Error> {
        let defaults = &self.options.defaults;
        check_id("id", &neuron.id)?;
        check_env(&neuron.env)?;
        check_limits(&neuron.limits)?;
        if let Some(egress) = &neuron.egress {
            check_egress(egress)?;
        }
        if neuron.writes == Writes::Folder && neuron.folder.is_none() {
            return Err(invalid("writes: there is no folder to write into: name one").into());
        }
        let folder = match neuron.folder {
            Some(folder) => Some(self.folder(folder, neuron.writes).await?),
            None => None,
        };
        let is_replaced = |name: &String| neuron.env.iter().any(|(other, _)| other == name);
        let mut env: Vec<_> =
            defaults.env.iter().filter(|(name, _)| !is_replaced(name)).cloned().collect();
        env.extend(neuron.env);
        let (wanted, usual) = (neuron.limits, defaults.limits);
        Ok(NeuronSpec {
            id: neuron.id,
            driver: neuron.driver.unwrap_or(defaults.driver),
            isolation: neuron.isolation.unwrap_or(defaults.isolation),
            folder,
            writes: neuron.writes,
            env,
            limits: NeuronLimits {
                memory_bytes: wanted.memory_bytes.or(usual.memory_bytes),
                pids: wanted.pids.or(usual.pids),
                cpu_millis: wanted.cpu_millis.or(usual.cpu_millis),
                disk_bytes: wanted.disk_bytes.or(usual.disk_bytes),
            },
            egress: neuron.egress.unwrap_or_else(|| defaults.egress.clone()),
        })
    }

    /// Returns the real path of a folder that no layer of policy denies.
    async fn folder(&self, folder: PathBuf, writes: Writes) -> Result<PathBuf, Error> {
        let shown = folder.display().to_string();
        if !folder.is_absolute() {
            return Err(invalid(format!("folder: {shown} is not an absolute path")).into());
        }
        let found = tokio::task::spawn_blocking(move || {
            let real = folder.canonicalize()?;
            Ok::<_, std::io::Error>((real.is_dir(), real))
        });
        let found = found.await.map_err(|error| Fault::with("look a folder up", error))?;
        let real = match found {
            Ok((true, real)) => real,
            Ok((false, _)) => return Err(invalid(format!("folder: {shown} is no folder")).into()),
            Err(error) => return Err(invalid(format!("folder: {shown}: {error}")).into()),
        };
        if real.parent().is_none() {
            return Err(invalid("folder: the root of the machine cannot be one").into());
        }
        let policy = self.options.policies.current();
        if policy.hides(&real, self.options.user_home.as_deref(), &real) {
            let text = format!("folder: a rule keeps {shown} from being read");
            return Err(Refusal::new(protocol::RefusalCode::LockedByPolicy, text).into());
        }
        if writes == Writes::Folder {
            let root = Some(real.clone());
            let located = Located { real: real.clone(), root, stat: None };
            let facts = CallFacts {
                effect: Effect::Write,
                summary: shown,
                paths: vec![PathFact { located, access: Access::Write }],
                command: None,
            };
            self.pass(
                "write_file",
                &facts,
                (&real, self.options.user_home.as_deref().into()),
                &self.options.spill,
            )?;
        }
        Ok(real)
    }
}

fn check_env(env: &[(String, String)]) -> Result<(), Refusal> {
    if env.len() > VARIABLES_MAX {
        let count = env.len();
        return Err(invalid(format!("env: {count} variables are more than {VARIABLES_MAX}")));
    }
    let mut seen = BTreeSet::new();
    for (name, value) in env {
        check_name("env", name)?;
        if !seen.insert(name) {
            return Err(invalid(format!("env.{name}: it is there twice")));
        }
        if value.len() > VALUE_BYTES_MAX || value.contains('\0') {
            let text = format!("env.{name}: expected at most {VALUE_BYTES_MAX} bytes without NUL");
            return Err(invalid(text));
        }
    }
    Ok(())
}

/// Refuses what no shell takes for the name of a variable. It may be a value put in the wrong
/// place, so it is not repeated.
fn check_name(field: &str, name: &str) -> Result<(), Refusal> {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let fits = name.len() <= NAME_CHARS_MAX
        && name.bytes().next().is_some_and(is_letter)
        && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit());
    let text = format!(
        "{field}: a name is no variable's: expected at most {NAME_CHARS_MAX} letters, digits and \
         '_', not beginning with a digit"
    );
    if fits { Ok(()) } else { Err(invalid(text)) }
}

fn check_limits(limits: &NeuronLimits) -> Result<(), Refusal> {
    check_within("memory_bytes", limits.memory_bytes, MEMORY_BYTES_MIN, BYTES_MAX)?;
    check_within("pids", limits.pids.map(u64::from), PIDS_MIN, u32::MAX.into())?;
    check_within("cpu_millis", limits.cpu_millis.map(u64::from), CPU_MILLIS_MIN, u32::MAX.into())?;
    check_within("disk_bytes", limits.disk_bytes, DISK_BYTES_MIN, BYTES_MAX)
}

fn check_within(name: &str, value: Option<u64>, least: u64, most: u64) -> Result<(), Refusal> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(invalid(format!("limits.{name}: {value} is not within {least} to {most}")))
        }
        _ => Ok(()),
    }
}

fn check_egress(egress: &Egress) -> Result<(), Refusal> {
    for (name, count, most) in [
        ("allow", egress.allow.len(), RULES_MAX),
        ("credentials", egress.credentials.len(), CREDENTIALS_MAX),
    ] {
        if count > most {
            return Err(invalid(format!("egress.{name}: {count} are more than {most}")));
        }
    }
    for (index, rule) in egress.allow.iter().enumerate() {
        check_rule(&format!("egress.allow[{index}]"), rule)?;
    }
    for (index, credential) in egress.credentials.iter().enumerate() {
        check_credential(&format!("egress.credentials[{index}]"), credential)?;
    }
    Ok(())
}

fn check_rule(field: &str, rule: &EgressRule) -> Result<(), Refusal> {
    check_host(field, &rule.host)?;
    if rule.port == Some(0) {
        return Err(invalid(format!("{field}.port: expected 1 to 65535")));
    }
    let is_method = |method: &String| {
        (1..=32).contains(&method.len()) && method.bytes().all(|byte| byte.is_ascii_uppercase())
    };
    if !rule.methods.iter().all(is_method) {
        return Err(invalid(format!("{field}.methods: expected words such as GET and POST")));
    }
    Ok(())
}

fn check_credential(field: &str, credential: &EgressCredential) -> Result<(), Refusal> {
    check_host(field, &credential.host)?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let header = &credential.header;
    if header.is_empty() || header.len() > NAME_CHARS_MAX || !header.bytes().all(is_token) {
        return Err(invalid(format!("{field}.header: expected a name such as authorization")));
    }
    let value = credential.value.expose();
    let is_line = |letter: char| letter == '\t' || !letter.is_control();
    if !credential.prefix.chars().all(is_line) {
        return Err(invalid(format!("{field}.prefix: expected a part of one line")));
    }
    let len = credential.prefix.len().saturating_add(value.len());
    if value.is_empty() || len > SECRET_BYTES_MAX || !value.chars().all(is_line) {
        let text = format!(
            "{field}.value: expected one line of 1 to {SECRET_BYTES_MAX} bytes with its prefix"
        );
        return Err(invalid(text));
    }
    credential
        .variable
        .as_ref()
        .map_or(Ok(()), |name| check_name(&format!("{field}.variable"), name))
}

fn check_host(field: &str, host: &str) -> Result<(), Refusal> {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_plain);
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    if is_address || name.len() <= HOST_CHARS_MAX && name.split('.').all(is_label) {
        return Ok(());
    }
    let text = format!(
        "{field}.host: expected a name such as api.example.com, *.example.com, or an address, \
         without scheme, port or path"
    );
    Err(invalid(text))
}
