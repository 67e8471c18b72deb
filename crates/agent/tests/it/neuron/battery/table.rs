//! Which layer catches what: drawn up from the runs, and compared with `docs/neurons.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use agent::neuron::Layer;

use super::attempt::Told;
use super::{Verdicts, drills, network, processes};
use crate::neuron::house::Who;

/// What stands around the tables in the document.
const BEGIN: &str = "<!-- The battery writes this: see crates/agent/tests/it/neuron/battery.rs -->";
const END: &str = "<!-- End of what the battery writes -->";

/// Set it to write the tables into the document.
const WRITE: &str = "NARTHEX_BATTERY_WRITE";

/// Layers of which no attempt shows that it stands alone, and why.
const REASONS: [(Layer, &str); 4] = [
    (
        Layer::User,
        "as root an id of its own and no capabilities hold the same; for everybody else it is what \
         all others are built on",
    ),
    (Layer::IdMap, "it is comfort and no wall: files of root can be changed in the layer"),
    (
        Layer::NoNewPrivileges,
        "landlock and the filter of system calls are only let in force with it, and no mount of a \
         neuron lends rights",
    ),
    (Layer::Descriptors, "whatever serves a connection closes once more all that it does not need"),
];

/// What holds an attempt that no layer is about.
fn keeper(name: &str) -> Option<&'static str> {
    if network::THROUGH.iter().any(|(own, _)| *own == name) {
        return Some("the proxy");
    }
    if drills::OF_THE_AGENT.contains(&name) {
        return Some("the agent");
    }
    processes::OF_LIMITS.contains(&name).then_some("limits of each process")
}

/// All runs of one kind of user.
pub(super) struct Outcome {
    pub(super) order: Vec<String>,
    pub(super) whole: Verdicts,
    /// What happened without each layer, or why there is no neuron without it.
    pub(super) without: BTreeMap<Layer, Result<Verdicts, String>>,
}

impl Outcome {
    /// The layers without which an attempt succeeds; nothing where it was not made.
    fn alone(&self, name: &str) -> Option<Vec<Layer>> {
        if !matches!(self.whole.get(name), Some(Told::Held(_))) {
            return None;
        }
        let is_open = |verdicts: &Result<Verdicts, String>| {
            let told = verdicts.as_ref().ok().and_then(|verdicts| verdicts.get(name));
            matches!(told, Some(Told::Open(_)))
        };
        let open = self.without.iter().filter(|(_, verdicts)| is_open(verdicts));
        Some(open.map(|(layer, _)| *layer).collect())
    }
}

/// The rows: for each attempt, what catches it alone as root and as an ordinary user.
pub(super) struct Table {
    rows: Vec<(String, [Option<Vec<Layer>>; 2])>,
    layers: BTreeMap<Layer, [Worth; 2]>,
    has_root: bool,
}

/// What a layer is worth to one kind of user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// This kind of user cannot have it.
    Absent,
    /// No neuron can be made without it.
    Needed,
    /// So many attempts are caught by nothing else.
    Alone(usize),
}

impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Worth::Absent => f.write_str("not to be had"),
            Worth::Needed => f.write_str("no neuron without it"),
            Worth::Alone(0) => f.write_str("none"),
            Worth::Alone(count) => write!(f, "{count}"),
        }
    }
}

/// Why no attempt shows that a layer stands alone.
fn reason(layer: Layer) -> &'static str {
    REASONS.iter().find(|(own, _)| *own == layer).map_or("", |(_, reason)| *reason)
}

impl Table {
    pub(super) fn of(outcomes: &[(Who, Outcome)]) -> Self {
        let of = |who: Who| outcomes.iter().find(|(own, _)| *own == who).map(|(_, all)| all);
        let both = [of(Who::Root), of(Who::User)];
        let order = both.iter().flatten().next().unwrap().order.clone();
        let alone = |name: &str| both.map(|all| all.and_then(|all| all.alone(name)));
        let rows: Vec<_> = order.into_iter().map(|name| (name.clone(), alone(&name))).collect();
        let mut layers = BTreeMap::new();
        for layer in Layer::ALL {
            let worth = |column: usize| {
                let without = both[column].and_then(|all| all.without.get(&layer));
                let is_alone = |(_, alone): &&(String, [Option<Vec<Layer>>; 2])| {
                    alone[column].as_ref().is_some_and(|layers| layers.contains(&layer))
                };
                match without {
                    None => Worth::Absent,
                    Some(Err(_)) => Worth::Needed,
                    Some(Ok(_)) => Worth::Alone(rows.iter().filter(is_alone).count()),
                }
            };
            layers.insert(layer, [worth(0), worth(1)]);
        }
        Self { rows, layers, has_root: both[0].is_some() }
    }

    /// Compares with the document, or writes it.
    pub(super) fn check(&self) {
        for (layer, worth) in &self.layers {
            let is_shown = worth.iter().any(|worth| matches!(worth, Worth::Alone(1..)));
            let is_explained = !reason(*layer).is_empty();
            assert!(
                !self.has_root || is_shown != is_explained,
                "an attempt shows what {} is for, or a reason is given why none can: {worth:?}",
                layer.as_str()
            );
        }
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/neurons.md");
        let document = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = document.split_once(BEGIN).expect("the document has a place for it");
        let (written, after) = rest.split_once(END).expect("the place has an end");
        if std::env::var_os(WRITE).is_some() {
            assert!(self.has_root, "root has a column of its own: write it as root");
            std::fs::write(path, format!("{before}{BEGIN}\n\n{self}\n{END}{after}")).unwrap();
            return;
        }
        // What this machine, or this user, cannot try is not judged.
        let known: BTreeMap<&str, Vec<&str>> = written
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
            .map(|line| line.split(" | ").collect::<Vec<_>>())
            .filter_map(|cells| Some((*cells.first()?, cells.get(1..)?.to_vec())))
            .collect();
        let is_same_kernel = written.contains(&drawn_up());
        let mut wrong = Vec::new();
        for (name, alone) in &self.rows {
            let told = known.get(name.as_str());
            for (column, alone) in alone.iter().enumerate() {
                let Some(alone) = alone else { continue };
                let (own, other) =
                    (cell(name, Some(alone)), told.and_then(|cells| cells.get(column)));
                // Another kernel may lack what an attempt is about, and so hold it where this one
                // needs a layer; the other way round it is news.
                let is_less = |told: &&str| {
                    alone.iter().all(|own| told.split(", ").any(|name| name == own.as_str()))
                };
                let is_fine = !is_same_kernel && other.is_some_and(is_less);
                if other != Some(&own.as_str()) && !is_fine {
                    wrong.push(format!("{name}: {own}, in the document {other:?}"));
                }
            }
        }
        let names: BTreeSet<_> = self.rows.iter().map(|(name, _)| name.as_str()).collect();
        let layers: BTreeSet<_> = Layer::ALL.map(Layer::as_str).into();
        let is_known = |name: &&&str| {
            !names.contains(**name)
                && !layers.contains(**name)
                && !matches!(**name, "attempt" | "layer" | "---")
        };
        let gone: Vec<_> = known.keys().filter(is_known).collect();
        assert!(
            wrong.is_empty() && gone.is_empty(),
            "docs/neurons.md is not true any more (set {WRITE}=1 to write it): {wrong:#?}, and \
             these are no attempts: {gone:?}"
        );
    }
}

/// The kernel that the tables are about: its first two numbers.
fn drawn_up() -> String {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    let numbers: Vec<&str> = release.split('.').take(2).collect();
    format!("Drawn up on Linux {}.\n", numbers.join("."))
}

/// What stands in a cell of the table of attempts.
fn cell(name: &str, alone: Option<&Vec<Layer>>) -> String {
    match alone {
        None => "not tried".to_owned(),
        Some(layers) if layers.is_empty() => keeper(name).unwrap_or("two or more").to_owned(),
        Some(layers) => layers.iter().map(|layer| layer.as_str()).collect::<Vec<_>>().join(", "),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", drawn_up())?;
        writeln!(f, "| layer | as root | as an ordinary user | why none |")?;
        writeln!(f, "| --- | --- | --- | --- |")?;
        for (layer, [root, user]) in &self.layers {
            writeln!(f, "| {} | {root} | {user} | {} |", layer.as_str(), reason(*layer))?;
        }
        writeln!(f, "\n| attempt | caught, as root, by | as an ordinary user, by |")?;
        writeln!(f, "| --- | --- | --- |")?;
        for (name, alone) in &self.rows {
            let [root, user] = alone.each_ref().map(|alone| cell(name, alone.as_ref()));
            writeln!(f, "| {name} | {root} | {user} |")?;
        }
        Ok(())
    }
}
