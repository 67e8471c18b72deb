//! Completion scripts and manual pages, made from the grammar itself.

use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use terminal::{Exit, Failure};

use crate::args::Cli;
use crate::door::{Room, print};

/// Prints a completion script.
pub(crate) fn completions<M>(room: &mut Room<'_, M>, shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "narthex", &mut script);
    print(&mut room.desk.console, &String::from_utf8_lossy(&script))
}

/// Prints the manual page, or writes one page per command into a folder.
pub(crate) fn pages<M>(room: &mut Room<'_, M>, out: Option<&Path>) -> Result<Exit, Failure> {
    let mut command = Cli::command();
    command.build();
    let Some(folder) = out else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(|error| problem(&error))?;
        return print(&mut room.desk.console, &String::from_utf8_lossy(&page));
    };
    std::fs::create_dir_all(folder).map_err(|error| problem(&error))?;
    let mut count = 0;
    write_pages(&command, "narthex", folder, &mut count).map_err(|error| problem(&error))?;
    let pages = stdx::plural(count, "page");
    room.desk.console.say(&format!("wrote {pages} to {}", folder.display()));
    Ok(Exit::Done)
}

fn write_pages(
    command: &clap::Command,
    name: &str,
    folder: &Path,
    count: &mut u64,
) -> io::Result<()> {
    let mut page = Vec::new();
    Man::new(command.clone().display_name(name.to_owned())).title(name).render(&mut page)?;
    std::fs::write(folder.join(format!("{name}.1")), page)?;
    *count += 1;
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    for inner in shown.filter(|inner| inner.get_name() != "help") {
        write_pages(inner, &format!("{name}-{}", inner.get_name()), folder, count)?;
    }
    Ok(())
}

fn problem(error: &io::Error) -> Failure {
    Failure::failed(format!("write manual pages: {error}"))
}
