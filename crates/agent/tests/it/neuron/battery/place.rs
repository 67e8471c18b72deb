//! Where the battery runs: it does nothing unless it can prove that it is inside of the neuron that
//! was made for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use agent::neuron::Layer;

/// The variable with the path of the marker, which names the neuron and the machine around it.
pub(super) const VARIABLE: &str = "NARTHEX_BATTERY";

/// The namespaces of a process, and the layer that each belongs to.
pub(super) const NAMESPACES: [(&str, Layer); 7] = [
    ("user", Layer::User),
    ("mnt", Layer::Mount),
    ("pid", Layer::Pid),
    ("net", Layer::Network),
    ("ipc", Layer::Ipc),
    ("uts", Layer::Uts),
    ("cgroup", Layer::CgroupView),
];

/// What the marker says.
#[derive(Debug)]
pub(super) struct Place(BTreeMap<String, String>);

impl Place {
    /// Reads the marker and compares it with what the kernel says of this process. Returns nothing
    /// where there is no marker, or where this could be the machine that it was written on: each
    /// namespace must be another one, but for that of the layer which is switched off.
    pub(super) fn prove() -> Option<Self> {
        let marker = fs::read_to_string(std::env::var_os(VARIABLE)?).ok()?;
        let pairs = marker.lines().filter_map(|line| line.split_once('='));
        let place = Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
        let is_proven = NAMESPACES.iter().all(|(name, layer)| {
            let outside = place.0.get(&format!("namespace.{name}"));
            place.is_off(*layer)
                || outside.zip(namespace(name)).is_some_and(|(outside, own)| *outside != own)
        });
        is_proven.then_some(place)
    }

    pub(super) fn text(&self, key: &str) -> &str {
        self.0.get(key).map(String::as_str).unwrap_or_else(|| panic!("the marker has no {key}"))
    }

    pub(super) fn path(&self, key: &str) -> PathBuf {
        self.text(key).into()
    }

    pub(super) fn number(&self, key: &str) -> i64 {
        self.text(key).parse().unwrap()
    }

    pub(super) fn is_off(&self, layer: Layer) -> bool {
        self.0.get("off").is_some_and(|off| off == layer.as_str())
    }

    /// Whether a layer that needs something of the machine is in force.
    pub(super) fn has(&self, layer: Layer) -> bool {
        self.text("layers").split(',').any(|name| name == layer.as_str())
    }
}

/// The identity of a namespace of this process.
pub(super) fn namespace(name: &str) -> Option<String> {
    let link = fs::read_link(Path::new("/proc/self/ns").join(name)).ok()?;
    link.to_str().map(str::to_owned)
}
