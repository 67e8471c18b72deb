//! What the settings say about neurons: `[neurons]`.

mod egress;

use std::num::NonZeroU32;

use door_cli::{Failure, Setting};
use driver_api::{
    Egress, EgressCredential, EgressRule, IsolationLevel, NeuronDriver, NeuronLimits, Writes,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use self::egress::{AllowTable, CredentialTable, EgressTable, RULES_MAX};
use super::cortex::Variables;
use super::document::Document;
use super::{Origin, Sourced};
use crate::environment::Environment;

/// Neurons of one home where nothing else is said: each is a process and some folders, and a
/// machine that holds more has somebody who says so.
const NEURONS: u32 = 256;
/// Neurons kept ready where nothing else is said: each is a process and a user of the machine for
/// as long as the server runs, and saves a few milliseconds of a start, which only whoever makes
/// many of them notices.
const WARM: u32 = 0;
/// The most that are kept ready: more are not used up before others are made.
const WARM_MAX: u32 = 64;
/// The least memory of a neuron in bytes: a shell and a small program.
const MEMORY_MIN: u64 = 16 << 20;
/// The fewest processes and threads of a neuron: the first one, a command and what it starts.
const PIDS_MIN: u32 = 16;
/// The least processor time of a neuron in thousandths of a core: with less nothing ends in time.
const CPU_MIN: u32 = 10;
/// The least disk of a neuron in bytes.
const DISK_MIN: u64 = 1 << 20;
/// Neurons: sandboxes with a life of their own. Not in a project's file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NeuronsTable {
    /// What keeps them apart: `namespace` (namespaces of Linux and more) where nothing is said,
    /// or `host` for nothing at all.
    pub(crate) driver: Option<DriverName>,
    /// The least isolation that will do: `full`, `partial` or `none`. `partial` where nothing is
    /// said, and `none` for the driver `host`.
    pub(crate) isolation: Option<LevelName>,
    /// Where writes to the folder of a session go that has a sandbox of its own: into the
    /// `folder` itself where nothing is said, or into an `overlay` of it, which `narthex sessions
    /// apply` brings over.
    pub(crate) writes: Option<WritesName>,
    /// How many may run at once; 256 where nothing is said.
    pub(crate) max: Option<NonZeroU32>,
    /// How many are kept ready once a first one was asked for, at most 64; none where nothing is
    /// said.
    #[serde(deserialize_with = "warm")]
    #[schemars(range(max = 64))]
    pub(crate) warm: Option<u32>,
    /// Memory of one, in bytes.
    #[serde(alias = "memoryBytes", deserialize_with = "memory")]
    #[schemars(range(min = 16_777_216))]
    pub(crate) memory_bytes: Option<u64>,
    /// Processes and threads of one.
    #[serde(deserialize_with = "pids")]
    #[schemars(range(min = 16))]
    pub(crate) pids: Option<u32>,
    /// Processor time of one, in thousandths of a core.
    #[serde(alias = "cpuMillis", deserialize_with = "cpu")]
    #[schemars(range(min = 10))]
    pub(crate) cpu_millis: Option<u32>,
    /// What one may write to its own disk, in bytes. Where no file system of its own can be mounted
    /// it is kept in memory and ends with the neuron.
    #[serde(alias = "diskBytes", deserialize_with = "disk")]
    #[schemars(range(min = 1_048_576))]
    pub(crate) disk_bytes: Option<u64>,
    /// What they may reach: nothing where nothing is said.
    pub(crate) egress: EgressTable,
}

/// A driver of neurons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DriverName {
    /// Namespaces of Linux and more.
    #[default]
    Namespace,
    /// Nothing: a folder and a process.
    Host,
}

/// Where writes to the folder of a session go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WritesName {
    /// Into the folder itself.
    #[default]
    Folder,
    /// Into a layer of the sandbox's own, until somebody applies or discards it.
    Overlay,
}

/// How far neurons are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LevelName {
    /// Every layer is in force.
    Full,
    /// Some layers are missing.
    Partial,
    /// Not at all.
    None,
}

fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    at_least(from, &MEMORY_MIN, "bytes of memory")
}

fn pids<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    at_least(from, &PIDS_MIN, "processes")
}

fn cpu<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    at_least(from, &CPU_MIN, "thousandths of a core")
}

fn disk<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    at_least(from, &DISK_MIN, "bytes of disk")
}

fn warm<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(from)? {
        Some(count) if count > WARM_MAX => {
            let text =
                format!("{count} neurons kept ready are too many: expected {WARM_MAX} at most");
            Err(serde::de::Error::custom(text))
        }
        count => Ok(count),
    }
}

fn at_least<'de, D, T>(from: D, least: &T, what: &str) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + PartialOrd + std::fmt::Display,
{
    match Option::<T>::deserialize(from)? {
        Some(count) if count < *least => {
            let text = format!("{count} {what} are too few: expected {least} or more");
            Err(serde::de::Error::custom(text))
        }
        count => Ok(count),
    }
}

/// Returns the variables that files name for secrets which no command may see.
pub(super) fn secret_variables(from_files: [(&Document, &Origin); 2]) -> Vec<String> {
    let all = from_files.into_iter().filter_map(|(document, _)| {
        let credentials = document.neurons.egress.credentials.as_ref();
        credentials.map(|credentials| credentials.iter().filter_map(|own| own.value_env.clone()))
    });
    all.flatten().collect()
}

/// The settings of neurons, each with where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct NeuronSettings {
    pub(crate) driver: Sourced<DriverName>,
    isolation: Sourced<Option<LevelName>>,
    writes: Sourced<WritesName>,
    pub(crate) max: Sourced<u32>,
    pub(crate) warm: Sourced<u32>,
    memory_bytes: Sourced<Option<u64>>,
    pids: Sourced<Option<u32>>,
    cpu_millis: Sourced<Option<u32>>,
    disk_bytes: Sourced<Option<u64>>,
    allow: Sourced<Vec<AllowTable>>,
    credentials: Sourced<Vec<CredentialTable>>,
    /// What is wrong with variables: it stops whoever wants neurons, and nobody else.
    pub(crate) mistakes: Vec<String>,
}

impl Default for NeuronSettings {
    fn default() -> Self {
        Self {
            driver: Sourced::built_in(DriverName::default()),
            isolation: Sourced::built_in(None),
            writes: Sourced::built_in(WritesName::default()),
            max: Sourced::built_in(NEURONS),
            warm: Sourced::built_in(WARM),
            memory_bytes: Sourced::built_in(None),
            pids: Sourced::built_in(None),
            cpu_millis: Sourced::built_in(None),
            disk_bytes: Sourced::built_in(None),
            allow: Sourced::built_in(Vec::new()),
            credentials: Sourced::built_in(Vec::new()),
            mistakes: Vec::new(),
        }
    }
}

impl NeuronSettings {
    /// Takes what a file says.
    ///
    /// # Errors
    /// Names the file, the key and what would be right.
    pub(super) fn take_document(
        &mut self,
        document: &Document,
        origin: &Origin,
    ) -> Result<(), Failure> {
        let table = document.neurons.clone();
        let wrong = |key: &str, problem: String| {
            Err(Failure::usage(format!("{origin}: neurons.{key}: {problem}")))
        };
        let credentials = table.egress.credentials.as_deref().unwrap_or_default();
        for (place, credential) in credentials.iter().enumerate() {
            if let Err(problem) = credential.check() {
                return wrong(&format!("egress.credentials[{place}]"), problem);
            }
        }
        let count = credentials.len().max(table.egress.allow.as_ref().map_or(0, Vec::len));
        if count > RULES_MAX {
            return wrong("egress", format!("{count} entries: expected {RULES_MAX} at most"));
        }
        self.driver.take(table.driver, origin);
        self.isolation.take_some(table.isolation.as_ref(), origin);
        self.writes.take(table.writes, origin);
        self.max.take(table.max.map(NonZeroU32::get), origin);
        self.warm.take(table.warm, origin);
        self.memory_bytes.take_some(table.memory_bytes.as_ref(), origin);
        self.pids.take_some(table.pids.as_ref(), origin);
        self.cpu_millis.take_some(table.cpu_millis.as_ref(), origin);
        self.disk_bytes.take_some(table.disk_bytes.as_ref(), origin);
        self.allow.take(table.egress.allow, origin);
        self.credentials.take(table.egress.credentials, origin);
        Ok(())
    }

    /// Takes what variables say. What is wrong with one is kept in `mistakes`.
    pub(super) fn take_environment(&mut self, environment: &Environment) {
        let mut read = Variables { environment, mistakes: Vec::new() };
        read.text("NSYS_CORTEX_MODE", &mut self.driver, |text| match text {
            "process" => Ok(DriverName::Namespace),
            "host" => Ok(DriverName::Host),
            "firecracker" => Err("there is no driver of microVMs in this version: expected \
                                  process (namespaces of Linux) or host (no isolation)"
                .to_owned()),
            _ => Err(format!("unknown mode '{text}': expected process or host")),
        });
        let mut max = Sourced::built_in(None::<NonZeroU32>);
        read.text("NSYS_CORTEX_MAX_NEURONS", &mut max, |text| {
            let count = text.trim().parse().map(Some);
            count.map_err(|_| format!("'{text}' is none: expected how many neurons, 1 or more"))
        });
        self.max.take(max.value.map(NonZeroU32::get), &max.origin);
        self.mistakes.append(&mut read.mistakes);
    }

    /// Takes the driver of a flag.
    pub(crate) fn take_flag(&mut self, driver: Option<DriverName>, flag: &str) {
        self.driver.take(driver, &Origin::Flag(flag.to_owned()));
    }

    /// Returns the driver.
    pub(crate) fn driver(&self) -> NeuronDriver {
        match self.driver.value {
            DriverName::Namespace => NeuronDriver::Namespace,
            DriverName::Host => NeuronDriver::Host,
        }
    }

    /// Returns the least isolation that will do.
    pub(crate) fn isolation(&self) -> IsolationLevel {
        match (self.isolation.value, self.driver.value) {
            (Some(LevelName::Full), _) => IsolationLevel::Full,
            (Some(LevelName::Partial), _) | (None, DriverName::Namespace) => {
                IsolationLevel::Partial
            }
            (Some(LevelName::None), _) | (None, DriverName::Host) => IsolationLevel::None,
        }
    }

    /// Returns where writes to the folder of a session go.
    pub(crate) fn writes(&self) -> Writes {
        match self.writes.value {
            WritesName::Folder => Writes::Folder,
            WritesName::Overlay => Writes::Overlay,
        }
    }

    /// Returns what one neuron may use.
    pub(crate) fn limits(&self) -> NeuronLimits {
        NeuronLimits {
            memory_bytes: self.memory_bytes.value,
            pids: self.pids.value,
            cpu_millis: self.cpu_millis.value,
            disk_bytes: self.disk_bytes.value,
        }
    }

    /// Returns what neurons may reach, with the secrets, which are read now.
    ///
    /// # Errors
    /// Names the setting that cannot be used, or the variable or file that holds no secret.
    pub(crate) fn egress(&self, environment: &Environment) -> Result<Egress, Failure> {
        let allow = self.allow.value.iter().map(|rule| EgressRule {
            host: rule.host.clone(),
            port: rule.port,
            methods: rule.methods.clone(),
            allows_private: rule.private,
        });
        let credential = |(place, table): (usize, &CredentialTable)| {
            let value = table.value(environment).map_err(|problem| {
                let origin = &self.credentials.origin;
                Failure::usage(format!("{origin}: neurons.egress.credentials[{place}].{problem}"))
            })?;
            Ok(EgressCredential {
                host: table.host.clone(),
                header: table.header.clone().unwrap_or_else(|| "authorization".to_owned()),
                prefix: table.prefix.clone().unwrap_or_default(),
                value,
                variable: table.variable.clone(),
            })
        };
        let credentials: Result<Vec<_>, Failure> =
            self.credentials.value.iter().enumerate().map(credential).collect();
        let egress = Egress { allow: allow.collect(), credentials: credentials? };
        narthex::check_egress(&egress).map_err(|error| {
            let mistake = error.to_string();
            let origin = match mistake.starts_with("egress.allow") {
                true => &self.allow.origin,
                false => &self.credentials.origin,
            };
            Failure::usage(format!("{origin}: neurons.{mistake}"))
        })?;
        Ok(egress)
    }

    /// Lists the settings.
    pub(super) fn list(&self) -> Vec<Setting> {
        let one = |key: &str, value: String, origin: &Origin| Setting {
            key: format!("neurons.{key}"),
            value,
            origin: origin.to_string(),
        };
        fn some<T: ToString>(value: &Option<T>) -> String {
            value.as_ref().map(ToString::to_string).unwrap_or_default()
        }
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let hosts: Vec<String> = self.allow.value.iter().map(AllowTable::shown).collect();
        let mut list = vec![
            one("driver", quoted(self.driver().as_str()), &self.driver.origin),
            one("isolation", quoted(self.isolation().as_str()), &self.isolation.origin),
            one("writes", quoted(self.writes().as_str()), &self.writes.origin),
            one("max", self.max.value.to_string(), &self.max.origin),
            one("warm", self.warm.value.to_string(), &self.warm.origin),
            one("memory_bytes", some(&self.memory_bytes.value), &self.memory_bytes.origin),
            one("pids", some(&self.pids.value), &self.pids.origin),
            one("cpu_millis", some(&self.cpu_millis.value), &self.cpu_millis.origin),
            one("disk_bytes", some(&self.disk_bytes.value), &self.disk_bytes.origin),
            one("egress.allow", super::show::texts(&hosts), &self.allow.origin),
        ];
        for credential in &self.credentials.value {
            let header = credential.header.as_deref().unwrap_or("authorization");
            let key = format!("egress.credentials.{}.{header}", credential.host);
            list.push(one(&key, credential.shown(), &self.credentials.origin));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<NeuronSettings, String> {
        let path = Path::new("c.toml");
        let document = Document::parse(text, path).map_err(|failure| failure.message)?;
        let origin = Origin::File(narthex::LayerName::User, path.to_owned());
        let mut settings = NeuronSettings::default();
        settings.take_document(&document, &origin).map_err(|failure| failure.message)?;
        settings.take_environment(&Environment::new(Path::new("/"), variables));
        Ok(settings)
    }

    #[test]
    fn without_a_word_they_are_kept_apart_and_reach_nothing() {
        let settings = read("", &[]).unwrap();
        assert_eq!(settings.driver(), NeuronDriver::Namespace);
        assert_eq!(settings.isolation(), IsolationLevel::Partial);
        assert_eq!(settings.limits(), NeuronLimits::default());
        assert_eq!(settings.writes(), Writes::Folder);
        let overlaid = read("[neurons]\nwrites = \"overlay\"\n", &[]).unwrap();
        assert_eq!(overlaid.writes(), Writes::Overlay);
        let environment = Environment::new(Path::new("/"), &[]);
        assert_eq!(settings.egress(&environment).unwrap(), Egress::default());
        let settings = read("", &[("NSYS_CORTEX_MODE", "host")]).unwrap();
        assert_eq!(
            (settings.driver(), settings.isolation()),
            (NeuronDriver::Host, IsolationLevel::None)
        );
    }

    #[test]
    fn a_file_says_what_they_may() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "of-the-file\n").unwrap();
        let text = format!(
            "[neurons]\ndriver = \"namespace\"\nisolation = \"full\"\nmax = 3\nwarm = 2\n\
             memoryBytes = 33554432\n\
             [neurons.egress]\nallow = [\"a.example\", \"*.b.example:8443\", \
             {{ host = \"c.example\", methods = [\"GET\"], private = true }}]\n\
             [[neurons.egress.credentials]]\nhost = \"a.example\"\nvalue_env = \"KEY\"\n\
             prefix = \"Bearer \"\nvariable = \"A_KEY\"\n\
             [[neurons.egress.credentials]]\nhost = \"c.example\"\nheader = \"x-key\"\n\
             valueFile = \"{}\"\n",
            file.display()
        );
        let settings = read(&text, &[]).unwrap();
        assert_eq!((settings.isolation(), settings.max.value), (IsolationLevel::Full, 3));
        assert_eq!(settings.warm.value, 2);
        let environment = Environment::new(Path::new("/"), &[("KEY", "of-the-variable")]);
        let egress = settings.egress(&environment).unwrap();
        let hosts: Vec<(&str, Option<u16>)> =
            egress.allow.iter().map(|rule| (rule.host.as_str(), rule.port)).collect();
        assert_eq!(hosts, [("a.example", None), ("*.b.example", Some(8443)), ("c.example", None)]);
        assert!(egress.allow[2].allows_private);
        let values: Vec<(&str, &String)> =
            egress.credentials.iter().map(|it| (it.prefix.as_str(), it.value.expose())).collect();
        let (variable, file) = ("of-the-variable".to_owned(), "of-the-file".to_owned());
        assert_eq!(values, [("Bearer ", &variable), ("", &file)]);
        let shown = format!("{:?}", settings.list());
        assert!(!shown.contains("of-the-") && shown.contains("(of $KEY)"), "{shown}");
        let bare = Environment::new(Path::new("/"), &[]);
        let problem = settings.egress(&bare).unwrap_err().message;
        assert!(problem.contains("credentials[0].value_env: the variable KEY"), "{problem}");
    }

    #[test]
    fn what_the_proxy_could_not_use_is_found_with_the_settings() {
        let environment = Environment::new(Path::new("/"), &[("KEY", "s3cr3t"), ("PIN", "1234")]);
        let one = "[[neurons.egress.credentials]]\nhost = \"a.example\"\n";
        for (text, part) in [
            (
                "neurons.egress.allow = [\"a.example\", \"*\"]".to_owned(),
                "c.toml: neurons.egress.allow[1].host: ",
            ),
            (
                format!("{one}value_env = \"KEY\"\nheader = \"content-length\""),
                "neurons.egress.credentials[0].header: ",
            ),
            (
                format!("{one}value_env = \"KEY\"\nvariable = \"HTTPS_PROXY\""),
                "HTTPS_PROXY is set by the proxy itself",
            ),
            (format!("{one}value_env = \"PIN\""), "credentials[0].value: it is empty or has fewer"),
        ] {
            let problem = read(&text, &[]).unwrap().egress(&environment).unwrap_err().message;
            assert!(problem.contains(part) && !problem.contains("1234"), "{problem}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("driver = \"vm\"", "neurons.driver: unknown variant `vm`"),
            ("writes = \"both\"", "neurons.writes: unknown variant `both`"),
            ("max = 0", "neurons.max"),
            ("warm = 65", "65 neurons kept ready are too many: expected 64 at most"),
            ("memory_bytes = 1", "1 bytes of memory are too few"),
            ("egress.allow = [\"a\", \":1\"]", "[1]: ':1' names no host"),
            ("egress.allow = [\"a:x\"]", "[0]: 'x' of 'a:x' is no port"),
            ("egress.allow = [{ host = \"a\", prot = 1 }]", "[0]: unknown field `prot`"),
            ("egress.credentials = [{ host = \"a\" }]", "credentials[0]: needs value_env"),
            ("egress.credentials = [{ host = \"a\", value = \"s3cret\" }]", "unknown field"),
        ] {
            let problem = read(&format!("[neurons]\n{text}\n"), &[]).unwrap_err();
            assert!(problem.contains(part), "{problem:?} should contain {part:?}");
            assert!(!problem.contains("s3cret"), "{problem:?}");
        }
        for (name, value) in [
            ("NSYS_CORTEX_MODE", "firecracker"),
            ("NSYS_CORTEX_MODE", "vm"),
            ("NSYS_CORTEX_MAX_NEURONS", "0"),
            ("NSYS_CORTEX_MAX_NEURONS", "many"),
        ] {
            let mistakes = read("", &[(name, value)]).unwrap().mistakes;
            assert!(mistakes.len() == 1 && mistakes[0].starts_with(name), "{mistakes:?}");
        }
    }
}
