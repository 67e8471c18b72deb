//! The hooks of all settings layers, run as commands in the session's workspace.

use std::time::Duration;

use async_trait::async_trait;
use driver_api::{
    Happening, HookAnswer, HookPlace, Hooks, Moment, Spawn, Workspace, WorkspaceError,
};
use futures_util::{FutureExt, StreamExt, stream};

use crate::answer::{self, Said};
use crate::back;
use crate::matcher::Matcher;
use crate::names::{self, View};
use crate::payload;
use crate::runner::{self, Ran};
use crate::settings::{HookSet, HookSetError};
use crate::tally::{Heard, tally};

/// How many hooks of a moment run at once. Each is a shell and what it starts.
const SIDE_BY_SIDE: usize = 8;

/// How many characters of a command a message shows.
const NAME_CHARS_MAX: usize = 80;

/// The variables that tell a hook where the project is; existing hooks know the second one.
const PROJECT_VARIABLES: [&str; 2] = ["NARTHEX_PROJECT_DIR", "CLAUDE_PROJECT_DIR"];

/// Whose settings a set of hooks comes from, the most binding first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Settings that an administrator has set for the person.
    Managed,
    /// Settings of the machine.
    System,
    /// The person's own settings.
    User,
    /// A file of the folder that is worked in. Its hooks may deny and ask; their `allow` is no
    /// vote and they change no arguments, because a folder must never loosen what a person set.
    Project,
}

impl Origin {
    /// Tells whether hooks of this origin may allow calls and change their arguments.
    pub fn may_loosen(self) -> bool {
        self != Origin::Project
    }
}

#[derive(Debug)]
struct Hook {
    origin: Origin,
    matcher: Matcher,
    command: String,
    limit: Duration,
}

/// The hooks of all layers.
#[derive(Debug, Default)]
pub struct CommandHooks {
    /// By moment, in the order of [`Moment::ALL`]; the most binding origin first.
    moments: [Vec<Hook>; Moment::ALL.len()],
    doubts: Vec<String>,
}

/// A hook that is to be told of something, and in which words.
#[derive(Debug)]
struct Job<'a> {
    hook: &'a Hook,
    /// The call, at moments with one, or why it cannot be told.
    view: Result<Option<View>, String>,
}

impl CommandHooks {
    /// Puts the sets of all layers together, the most binding first, and compiles their matchers.
    ///
    /// # Errors
    /// A matcher that does not compile; sets that were read by [`HookSet`] have none.
    pub fn new(mut sets: Vec<(Origin, HookSet)>) -> Result<Self, HookSetError> {
        sets.sort_by_key(|(origin, _)| *origin);
        let mut hooks = Self::default();
        for (moment, list) in Moment::ALL.into_iter().zip(&mut hooks.moments) {
            for (origin, set) in &sets {
                for (place, group) in set.groups(moment).iter().enumerate() {
                    let at = format!("hooks.{}[{place}].matcher", moment.as_str());
                    let matcher = Matcher::compile(&group.matcher)
                        .map_err(|why| HookSetError::new(&at, why))?;
                    if has_tool(moment) && !names::fits_any(&matcher, &group.matcher) {
                        let text = &group.matcher;
                        hooks.doubts.push(format!("{at}: '{text}' fits no tool that is known"));
                    }
                    list.extend(group.hooks.iter().map(|hook| Hook {
                        origin: *origin,
                        matcher: matcher.clone(),
                        command: hook.command.clone(),
                        limit: Duration::from_secs(hook.timeout),
                    }));
                }
            }
        }
        Ok(hooks)
    }

    /// Returns what is probably not meant, one sentence each: matchers that fit no known tool, so
    /// that their hooks would never run.
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    fn of(&self, moment: Moment) -> &[Hook] {
        let mut lists = Moment::ALL.into_iter().zip(&self.moments);
        lists.find_map(|(other, list)| (other == moment).then_some(list.as_slice())).unwrap_or(&[])
    }

    /// Lists who is told and in which words. The same command is told the same only once.
    fn jobs(&self, happening: &Happening) -> Vec<Job<'_>> {
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for hook in self.of(happening.moment()) {
            let views = match payload::call(happening) {
                Some(call) => match names::views(&hook.matcher, call) {
                    Ok(views) => views.into_iter().map(|view| Ok(Some(view))).collect(),
                    Err(why) => vec![Err(why)],
                },
                None if payload::kind(happening).is_none_or(|kind| hook.matcher.fits(kind)) => {
                    vec![Ok(None)]
                }
                None => Vec::new(),
            };
            for view in views {
                let is_same = |job: &Job<'_>| job.hook.command == hook.command && job.view == view;
                if !jobs.iter().any(is_same) {
                    jobs.push(Job { hook, view });
                }
            }
        }
        jobs
    }
}

#[async_trait]
impl Hooks for CommandHooks {
    fn wants(&self, moment: Moment, tool: &str) -> bool {
        let is_wanted = |hook: &Hook| !has_tool(moment) || names::fits(&hook.matcher, tool);
        self.of(moment).iter().any(is_wanted)
    }

    async fn tell(&self, happening: &Happening, place: HookPlace<'_>) -> HookAnswer {
        let moment = happening.moment();
        let jobs = self.jobs(happening).into_iter();
        // Boxed one by one: the compiler cannot follow the lifetimes of a stream of closures.
        let asked = jobs.map(|job| hear(job, happening, place).boxed()).collect::<Vec<_>>();
        let heard = stream::iter(asked).buffered(SIDE_BY_SIDE).collect().await;
        tally(moment, heard)
    }
}

fn has_tool(moment: Moment) -> bool {
    matches!(moment, Moment::PreToolUse | Moment::PermissionRequest | Moment::PostToolUse)
}

async fn hear(job: Job<'_>, happening: &Happening, place: HookPlace<'_>) -> Heard {
    let Job { hook, view } = job;
    let said = ask(hook, view, happening, place).await;
    Heard { origin: hook.origin, name: name(&hook.command), said }
}

async fn ask(
    hook: &Hook,
    view: Result<Option<View>, String>,
    happening: &Happening,
    place: HookPlace<'_>,
) -> Result<Said, String> {
    let moment = happening.moment();
    let view = view?;
    let told = payload::build(happening, place, view.as_ref())?;
    let ran = run(hook, told, place.workspace).await.map_err(|error| error.to_string())?;
    let mut said = answer::read(moment, &ran)?;
    said.input = match (said.input.take(), &view, payload::call(happening)) {
        // Only a call that has not run has arguments to change.
        (Some(input), Some(view), Some(call)) if answer::is_before_call(moment) => Some(
            back::native(input, view, call).map_err(|why| format!("answered wrongly: {why}"))?,
        ),
        _ => None,
    };
    Ok(said)
}

async fn run(hook: &Hook, told: Vec<u8>, workspace: &dyn Workspace) -> Result<Ran, runner::Error> {
    let cwd = workspace.cwd();
    let project = cwd.to_string_lossy().into_owned();
    let spawn = |shell: &str, stdin| Spawn {
        argv: [shell, "-c", &hook.command].map(str::to_owned).to_vec(),
        cwd: cwd.to_owned(),
        env: PROJECT_VARIABLES.map(|name| (name.to_owned(), Some(project.clone()))).to_vec(),
        stdin,
    };
    match runner::run(workspace, spawn("bash", told.clone()), hook.limit).await {
        // A machine without bash has the shell of the standard.
        Err(runner::Error::Start(WorkspaceError::NotFound(_))) => {
            runner::run(workspace, spawn("sh", told), hook.limit).await
        }
        ran => ran,
    }
}

/// A command as a message shows it: its first line, cut.
fn name(command: &str) -> String {
    let line = command.trim().lines().next().unwrap_or_default();
    let short: String = line.chars().take(NAME_CHARS_MAX).collect();
    if short.len() < command.trim().len() { format!("{short}…") } else { short }
}
