//! Native tools: files, search, edits, commands, questions.
//!
//! **What**: [`native`], the tools that need no network and no other session, [`chosen`], those
//! that only sessions have which choose them, and [`limit_output`], the cut of what a model reads.
//! **Knows** `driver-api`, `protocol`, `stdx`.
//! **Never** judges a call, starts a process itself, or keeps anything between two calls but the
//! files of long outputs and the processes of `process_start`.

mod apply_patch;
mod arguments;
mod ask_question;
mod change;
mod edit_file;
mod elevated;
mod exit_plan;
mod file_kind;
mod glob;
mod grep;
mod limit;
mod list_dir;
mod place;
mod processes;
mod read_file;
mod run_shell;
mod seen;
mod survey;
mod text_file;
mod walk;
mod words;
mod write_file;

use std::sync::Arc;

use driver_api::Tool;

pub use limit::{OUTPUT_CHARS_MAX, limit_output};

/// Returns the native tools in the fixed order in which they go out with each request.
pub fn native() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read_file::ReadFile::default()),
        Arc::new(list_dir::ListDir::default()),
        Arc::new(glob::Glob::default()),
        Arc::new(grep::Grep::default()),
        Arc::new(write_file::WriteFile::default()),
        Arc::new(edit_file::EditFile::default()),
        Arc::new(apply_patch::ApplyPatch::default()),
        Arc::new(run_shell::RunShell::default()),
        Arc::new(ask_question::AskQuestion::default()),
        Arc::new(exit_plan::ExitPlan::default()),
    ]
}

/// Returns the tools that only sessions have which choose them by name, in a fixed order: processes
/// in the background, and commands that a person has to approve. All that one call returns share
/// their processes.
pub fn chosen() -> Vec<Arc<dyn Tool>> {
    let processes = processes::tools();
    processes
        .into_iter()
        .chain([Arc::new(elevated::Elevated::default()) as Arc<dyn Tool>])
        .collect()
}
