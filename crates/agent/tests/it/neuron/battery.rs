//! Ways out that have worked elsewhere, tried from inside, by name.
//!
//! The test binary itself is shown to a neuron and run there. It does nothing unless it can prove
//! where it is; see [`place::Place::prove`]. Some attempts are judged from outside: [`drills`].
//!
//! All of them run against a whole neuron, and then once with each layer switched off. An attempt
//! that succeeds only then is caught by that layer alone; one that never does is caught by two or
//! more. The outcome is a table, which stands in `docs/neurons.md` and must stay true.
//!
//! JUSTIFICATION: a battery has to make exactly the calls that safe libraries do not offer.

mod attempt;
mod drills;
mod files;
mod kernel;
mod machine;
mod network;
mod place;
mod processes;
mod proxy;
mod rights;
mod table;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use agent::neuron::Layer;

use self::attempt::{Attempt, Told};
use self::machine::Machine;
use self::place::{Place, VARIABLE};
use super::house::{Who, everybody};

/// Where the marker and the binary are shown inside.
const MARKER: &str = "/run/narthex/battery-marker";
const BINARY: &str = "/run/narthex/battery";

/// How many attempts there must be, so that none is lost unseen.
const COUNT_MIN: usize = 150;

/// How many neurons are tried at once: most of the time they wait.
const LANES: usize = 4;

/// What was told of each attempt.
type Verdicts = BTreeMap<String, Told>;

/// The attempts that are made inside, in this order: those that use something up come last.
fn attempts() -> impl Iterator<Item = Attempt> {
    let lists =
        [kernel::LIST, rights::LIST, files::LIST, network::PAST, network::THROUGH, processes::LIST];
    lists.into_iter().flatten().copied()
}

#[test]
fn attempts_from_inside() {
    let Some(place) = Place::prove() else {
        // Not the place for it.
        return;
    };
    std::env::set_current_dir(place.path("work")).unwrap();
    let mut count = 0;
    for (name, attempt) in attempts() {
        let told = catch_unwind(AssertUnwindSafe(|| attempt(&place)));
        let told = told.unwrap_or_else(|_| Told::absent("it could not be tried"));
        println!("{}", told.line(name));
        count += 1;
    }
    println!("attempts made: {count}");
}

#[test]
fn outside_of_a_neuron_nothing_is_tried() {
    assert!(Place::prove().is_none());
    // A marker alone proves nothing: here every namespace is that of the machine.
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("marker");
    let own = place::NAMESPACES
        .map(|(name, _)| format!("namespace.{name}={}\n", place::namespace(name).unwrap()));
    for off in ["none", "mount", "user"] {
        std::fs::write(&marker, format!("off={off}\n{}", own.concat())).unwrap();
        let own = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "neuron::battery::attempts_from_inside", "--nocapture"])
            .env(VARIABLE, &marker)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&own.stdout).into_owned();
        assert!(said.contains("1 passed") && !said.contains("attempt\t"), "{said}");
    }
}

/// Makes all attempts in a neuron, without one of the layers if that is said. Returns why there is
/// no such neuron where it cannot be made.
fn run(machine: &Machine, off: Option<Layer>) -> Result<Verdicts, String> {
    let since = std::time::Instant::now();
    let mut stage = machine.stage(off);
    let outside = stage
        .site
        .plan
        .egress
        .as_ref()
        .map(|egress| proxy::Outside::open(&egress.folder, &egress.socket));
    let site = std::mem::replace(&mut stage.site, super::house::Site::new(machine.who));
    let neuron = site.try_start().map_err(|failure| {
        println!("{:?} without {off:?}: {failure}", machine.who);
        failure.to_string()
    })?;
    let script = format!(
        "cd /; {VARIABLE}={} RUST_BACKTRACE=0 {} --exact neuron::battery::attempts_from_inside \
         --nocapture --test-threads 1; echo code $?",
        stage.marker.display(),
        stage.binary.display()
    );
    let said = neuron.run(&script);
    let made: Verdicts = said.lines().filter_map(Told::parse).collect();
    let is_whole = said.contains(&format!("attempts made: {}", made.len())) && !made.is_empty();
    assert!(is_whole, "{:?} without {off:?}: {said}", machine.who);
    let mut verdicts = made;
    let changed = machine.changed_base(&neuron.site.plan.name);
    let names = ["a file made in a folder of the base", "a file of the base changed"];
    for (name, is_changed) in names.into_iter().zip(changed) {
        let told = verdicts.get_mut(name).unwrap();
        if *told != Told::absent("it could not be tried") {
            *told = Told::open_if(is_changed, "the machine's file is as it was");
        }
    }
    for (name, told) in drills::all(machine, &neuron, &stage.project, off) {
        assert!(verdicts.insert(name.to_owned(), told).is_none(), "{name} is there twice");
    }
    let strayed = outside.map(|outside| outside.strayed()).unwrap_or_default();
    assert!(strayed.is_empty(), "{:?} without {off:?}: {strayed:?}", machine.who);
    let is_alive = stage.victim.try_wait().unwrap().is_none();
    assert!(is_alive, "{:?} without {off:?}: {} was ended", machine.who, stage.word);
    println!("{:?} without {off:?}: {:?}", machine.who, since.elapsed());
    Ok(verdicts)
}

/// The whole battery for one kind of user.
fn run_all(who: Who) -> table::Outcome {
    let machine = Machine::new(who);
    let whole = run(&machine, None).expect("expected a whole neuron");
    println!("{who:?} with all layers:");
    whole.iter().for_each(|(name, told)| println!("{}", told.line(name)));
    let open: Vec<_> = whole.iter().filter(|(_, told)| matches!(told, Told::Open(_))).collect();
    assert!(open.is_empty(), "{who:?}: {open:#?}");
    let made = whole.values().filter(|told| matches!(told, Told::Held(_))).count();
    assert!(made >= COUNT_MIN, "{who:?}: only {made} attempts could be made: {whole:#?}");
    let todo = Mutex::new(Layer::ALL.into_iter().filter(|layer| machine.can(*layer)));
    let without = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let Some(layer) = todo.lock().unwrap().next() else { return };
                    let verdicts = catch_unwind(AssertUnwindSafe(|| run(&machine, Some(layer))));
                    let verdicts = verdicts.unwrap_or_else(|_| panic!("{who:?} without {layer:?}"));
                    without.lock().unwrap().insert(layer, verdicts);
                }
            });
        }
    });
    let order = attempts().map(|(name, _)| name.to_owned());
    let rest = whole.keys().filter(|name| !attempts().any(|(own, _)| own == *name)).cloned();
    let order = order.chain(rest).collect();
    table::Outcome { order, whole, without: without.into_inner().unwrap() }
}

#[test]
fn every_attempt_fails_and_every_layer_is_worth_something() {
    let outcomes: Vec<_> = everybody().into_iter().map(|who| (who, run_all(who))).collect();
    let table = table::Table::of(&outcomes);
    println!("{table}");
    table.check();
}
