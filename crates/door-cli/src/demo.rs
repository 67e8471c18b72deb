//! `narthex demo`: the main job with no key and no network.

use protocol::event::Display;
use protocol::{EventBody, Mode};
use runtime_api::{Overflow, Position, Prompt};
use terminal::{Attendance, Exit, Failure, Form, TextForm, Watch, diff, escape};

use crate::args::Globals;
use crate::door::{Room, print};
use crate::machine::{DemoProject, House, Machine, Need};
use crate::session;

/// How many lines of the change are shown; the demo's is far shorter.
const DIFF_LINES: usize = 400;
/// The largest file of the demo that is compared.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Runs the demo. Succeeds only when the project's own tests passed at its end.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
) -> Result<Exit, Failure> {
    let project = room.machine.demo()?;
    let mut globals = globals.clone();
    globals.cwd = Some(project.folder.clone());
    globals.model = Some("demo".to_owned());
    globals.mode = Some(Mode::FullAuto);
    let house = session::house(room, &globals, Need::Demo).await?;
    introduce(room, &project);
    let form = Form::Text(TextForm::pictured());
    let agent = house.agent.clone();
    let seat = (form, Attendance::Nobody);
    let mut watch = session::create(room, &house, agent, seat).await?;
    let exit = watch.turn(Prompt::text(project.prompt.clone()), &mut room.desk).await?;
    let has_passed = passed(&watch, &project).await?;
    conclude(room, &house, &watch, &project, has_passed)?;
    Ok(match (exit, has_passed) {
        (Exit::Done, true) => Exit::Done,
        (Exit::Done, false) => Exit::Failed,
        (other, _) => other,
    })
}

fn introduce<M>(room: &mut Room<'_, M>, project: &DemoProject) {
    let console = &mut room.desk.console;
    let paint = console.paint();
    let folder = project.folder.display();
    console.say(&paint.bold("A small project with a failing test, and an agent that mends it."));
    console.say(&paint.dim(
        "The model is scripted (no key, no network, no cost); tools, log and rules are the real \
         ones.",
    ));
    console.say(&format!("folder: {folder}"));
    console.say(&format!("prompt: {}\n", escape::line(&project.prompt, 400)));
}

/// Tells from the session's log whether the last run of the project's tests succeeded.
async fn passed(watch: &Watch, project: &DemoProject) -> Result<bool, Failure> {
    let from = Position::From(protocol::Seq(1));
    let id = &watch.info.id;
    let mut events = watch.handle.subscribe(id, from, Overflow::Pace(64)).await?;
    let mut proof = None;
    let mut has_passed = false;
    while let Some(event) = events.next_event().await {
        match &event.body {
            EventBody::ToolCall(call) if call.target.summary.contains(&project.proof) => {
                proof = Some(call.tool_call_id.clone());
            }
            EventBody::ToolResult(result) if Some(&result.tool_call_id) == proof.as_ref() => {
                has_passed = matches!(&result.display, Some(Display::Exit { code: Some(0), .. }));
            }
            EventBody::PromptFinished(_) => break,
            _ => {}
        }
    }
    Ok(has_passed)
}

fn conclude<M>(
    room: &mut Room<'_, M>,
    house: &House,
    watch: &Watch,
    project: &DemoProject,
    has_passed: bool,
) -> Result<(), Failure> {
    let changes: String = project
        .files
        .iter()
        .filter_map(|(name, old)| {
            let path = project.folder.join(name);
            let is_small = std::fs::metadata(&path).is_ok_and(|stat| stat.len() <= FILE_BYTES_MAX);
            let new = if is_small { std::fs::read_to_string(&path).ok()? } else { return None };
            (new != *old).then(|| diff::between(name, old, &new))
        })
        .collect();
    let console = &mut room.desk.console;
    let paint = console.data_paint();
    let (folder, id) = (project.folder.display(), &watch.info.id);
    let home = house.home.display();
    let verdict = if has_passed {
        paint.good("The tests pass.")
    } else {
        paint.bad("The tests do not pass.")
    };
    let text = format!(
        "\nThe change:\n{}\n\n{verdict} The project is in {folder}; the whole session is kept in \
         {home}.\n\nNext:\n  narthex sessions show {id}\n  \
         export ANTHROPIC_API_KEY=…   (or OPENAI_API_KEY, GEMINI_API_KEY, or a local Ollama)\n  \
         cd your/project && narthex run \"make the tests pass\"\n",
        diff::shown(&changes, DIFF_LINES, paint)
    );
    print(console, &text).map(|_| ())
}
