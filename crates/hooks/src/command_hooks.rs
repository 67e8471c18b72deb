//! The hooks of all settings layers, run as commands in the session's workspace.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{Happening, HookAnswer, HookPlace, Hooks, Moment, Spawn, WorkspaceError};
use futures_util::{FutureExt, StreamExt, stream};

use crate::answer::{self, Said};
use crate::back;
use crate::layer::{HookLayer, Origin};
use crate::matcher::Matcher;
use crate::names::{self, View};
use crate::payload;
use crate::runner::{self, Ran};
use crate::settings::HookSetError;
use crate::site::Site;
use crate::tally::{Heard, tally};

/// How many hooks of a moment run at once. Each is a shell and what it starts.
const SIDE_BY_SIDE: usize = 8;

/// How many characters of a command a message shows.
const NAME_CHARS_MAX: usize = 80;

#[derive(Debug)]
struct Hook {
    origin: Origin,
    /// The project's folder, for a hook of a project.
    folder: Option<PathBuf>,
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
    /// Which of the moment's hooks it is: one is told of a patch several times.
    number: usize,
    /// Where it runs.
    site: Site,
    /// The call, at moments with one, or why it cannot be told.
    view: Result<Option<View>, String>,
}

impl CommandHooks {
    /// Puts the sets of all layers together, the most binding first, and compiles their matchers.
    ///
    /// # Errors
    /// A matcher that does not compile; sets that were read by [`crate::HookSet`] have none.
    pub fn new<L: Into<HookLayer>>(layers: Vec<L>) -> Result<Self, HookSetError> {
        let mut layers: Vec<HookLayer> = layers.into_iter().map(Into::into).collect();
        layers.sort_by_key(|layer| layer.origin);
        let mut hooks = Self::default();
        for (moment, list) in Moment::ALL.into_iter().zip(&mut hooks.moments) {
            for HookLayer { origin, set, folder } in &layers {
                for (place, group) in set.groups(moment).iter().enumerate() {
                    let at = format!("hooks.{}[{place}].matcher", moment.as_str());
                    let matcher = Matcher::compile(&group.matcher)
                        .map_err(|why| HookSetError::new(&at, why))?;
                    if has_tool(moment) && !names::fits_any(&matcher, &group.matcher) {
                        let (text, whose) = (&group.matcher, origin.whose());
                        let doubt =
                            format!("{at}: '{text}' fits no tool that is known (in {whose})");
                        if !hooks.doubts.contains(&doubt) {
                            hooks.doubts.push(doubt);
                        }
                    }
                    list.extend(group.hooks.iter().map(|hook| Hook {
                        origin: *origin,
                        folder: folder.clone(),
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

    /// Lists who is told, where and in which words. The same command is told the same at the same
    /// place only once.
    fn jobs(&self, happening: &Happening, session: &Site) -> Vec<Job<'_>> {
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for (number, hook) in self.of(happening.moment()).iter().enumerate() {
            let site = session.of_hook(hook.folder.as_deref());
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
                let is_same = |job: &Job<'_>| {
                    job.hook.command == hook.command && job.site == site && job.view == view
                };
                if !jobs.iter().any(is_same) {
                    jobs.push(Job { hook, number, site: site.clone(), view });
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
        if self.of(moment).is_empty() {
            return HookAnswer::default();
        }
        let session = Site::of_session(place.workspace).await;
        let jobs = self.jobs(happening, &session).into_iter();
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
    let (origin, hook, name) = (job.hook.origin, job.number, name(&job.hook.command));
    Heard { origin, hook, name, said: ask(job, happening, place).await }
}

async fn ask(job: Job<'_>, happening: &Happening, place: HookPlace<'_>) -> Result<Said, String> {
    let moment = happening.moment();
    let Job { hook, site, view, .. } = job;
    let view = view?;
    let told = payload::build(happening, place, view.as_ref())?;
    let ran = run(hook, &site, told, place).await.map_err(|error| error.to_string())?;
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

async fn run(
    hook: &Hook,
    site: &Site,
    told: Vec<u8>,
    place: HookPlace<'_>,
) -> Result<Ran, runner::Error> {
    let spawn = |shell: &str, stdin| Spawn {
        argv: [shell, "-c", &hook.command].map(str::to_owned).to_vec(),
        cwd: site.folder.clone(),
        env: site.variables(),
        stdin,
    };
    match runner::run(place.workspace, spawn("bash", told.clone()), hook.limit).await {
        // A machine without bash has the shell of the standard.
        Err(runner::Error::Start(WorkspaceError::NotFound(_))) => {
            runner::run(place.workspace, spawn("sh", told), hook.limit).await
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
