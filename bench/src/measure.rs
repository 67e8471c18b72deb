//! The measurements, part by part.

mod run;
mod server;
mod session;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::arguments::{Options, Part};
use crate::model_server::ModelServer;
use crate::program::{Place, Ran, Subject, Want};
use crate::table::{self, Row};
use crate::{floor, machine, program};

/// What every measurement needs.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    options: &'a Options,
    server: ModelServer,
    /// Where homes are made.
    folder: PathBuf,
    /// The program; none with `--floor-only`.
    narthex: Option<Subject>,
}

impl Bench<'_> {
    /// Makes one run without further wishes.
    fn run(&self, subject: &Subject, place: &Place, steps: usize) -> Result<Ran> {
        self.run_with(subject, place, steps, &[])
    }

    fn run_with(
        &self,
        subject: &Subject,
        place: &Place,
        steps: usize,
        flags: &[&str],
    ) -> Result<Ran> {
        let want = Want { subject, place, steps, flags, watches: false, keeps_bodies: false };
        program::run(&self.server, want)
    }

    /// Makes a place with a home that was used once, and the requests of a run for the floor.
    fn warm_place(&self, steps: usize) -> Result<Place> {
        let place = Place::new(&self.folder)?;
        let bodies = match &self.narthex {
            Some(subject) => {
                let place = &place;
                let want =
                    Want { subject, place, steps, flags: &[], watches: false, keeps_bodies: true };
                program::run(&self.server, want)?.bodies
            }
            None => floor::invented(steps),
        };
        floor::record(&place.recording(), &bodies)?;
        Ok(place)
    }
}

/// Measures what was asked for and prints the table.
///
/// # Errors
/// The first run that does not do what the script asks for: a figure of a broken run is none.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let narthex = match (options.floor_only, &options.narthex) {
        (true, _) => None,
        (false, Some(path)) => Some(Subject::Narthex(found(path)?)),
        (false, None) => {
            let own = std::env::current_exe().context("find this program")?;
            Some(Subject::Narthex(found(&own.with_file_name("narthex"))?))
        }
    };
    let head = format!(
        "{} {} rounds; each cell: median (least–greatest).",
        machine::describe(&folder),
        options.rounds
    );
    let bench = Bench { options, server: ModelServer::start()?, folder, narthex };
    let mut rows: Vec<Row> = Vec::new();
    let mut others = String::new();
    for part in &options.parts {
        table::complain(&format!("measures {part:?} …"));
        rows.extend(match part {
            Part::Start => run::start(&bench)?,
            Part::Steps => run::steps(&bench)?,
            Part::Memory => run::memory(&bench)?,
            Part::Session => session::long(&bench)?,
            Part::Neurons => {
                others = neurons(&bench)?;
                Vec::new()
            }
            of_server => server::part(&bench, *of_server)?,
        });
    }
    if rows.is_empty() {
        return table::line(&format!("{head}\n\n{others}"));
    }
    table::print(&head, &rows)?;
    if others.is_empty() { Ok(()) } else { table::line(&others) }
}

/// Measures neurons, whose agent is the program beside this one.
fn neurons(bench: &Bench<'_>) -> Result<String> {
    if bench.narthex.is_none() {
        return Ok(String::new());
    }
    let own = std::env::current_exe().context("find this program")?;
    let agent = found(&own.with_file_name("narthex-agent"))?;
    crate::neurons::part(bench.options, &bench.folder, &agent)
}

fn found(path: &Path) -> Result<PathBuf> {
    let path = path.canonicalize().with_context(|| {
        format!("no program at {}: build it with cargo build --release", path.display())
    })?;
    if !path.is_file() {
        bail!("{} is no program", path.display());
    }
    Ok(path)
}
