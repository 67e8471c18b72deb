//! A conversation line by line: `narthex` and `narthex resume`.

mod picker;
mod slash;

use std::time::{Duration, Instant};

use protocol::{Block, EventKind, Role, Seq};

use self::slash::Slash;
use crate::args::{Globals, OutputFormat, RunOptions};
use crate::console::Console;
use crate::door::Room;
use crate::escape;
use crate::exit::{Exit, Failure};
use crate::input::{Ask, Heard, Input};
use crate::machine::{House, Machine, Need};
use crate::session::{self, Which};
use crate::show::Form;
use crate::terminal::Kept;
use crate::watch::{Attendance, Watch};

/// Two Ctrl-C within this time leave the conversation.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
/// How many rows of the log are looked at for the last answer.
const TAIL_ROWS: u64 = 60;
/// How many lines of the last answer are shown again.
const TAIL_LINES: usize = 20;

/// Starts a conversation, or goes on with one where the options say so.
pub(crate) async fn start<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    options: &RunOptions,
) -> Result<Exit, Failure> {
    let which = match (&options.resume, options.continue_last) {
        (Some(id), _) => Which::Id(id.clone()),
        (None, true) => Which::Newest,
        (None, false) => Which::New,
    };
    talk(room, globals, which).await
}

/// Goes on with a stored conversation: the given one, a chosen one, or the newest.
pub(crate) async fn resume<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    id: Option<String>,
) -> Result<Exit, Failure> {
    talk(room, globals, id.map_or(Which::Newest, Which::Id)).await
}

async fn talk<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    mut which: Which,
) -> Result<Exit, Failure> {
    let facts = *room.desk.console.facts();
    let is_person = facts.input_is_terminal && facts.err_is_terminal;
    let is_new = which == Which::New;
    let need = if is_new { Need::NewSession } else { Need::StoredSessions };
    let house = session::house(room, globals, need).await?;
    let is_edited = is_person && facts.has_line_editor;
    let _kept = is_edited.then(Kept::around_editor);
    if is_edited {
        room.desk.input = Input::editor(Some(house.home.join("history")));
    }
    if is_person && which == Which::Newest {
        match picker::pick(room, &house).await? {
            Some(id) => which = Which::Id(id),
            None => return Ok(Exit::Done),
        }
    }
    let attendance = if is_person { Attendance::Person } else { Attendance::Nobody };
    let seat = (Form::new(OutputFormat::Text), attendance);
    let watch = session::open_in(room, globals, &house, which, seat).await?;
    greet(&watch, &mut room.desk.console);
    if is_person && !is_new {
        show_tail(&watch, room).await;
    }
    let mut talk = Talk { room, house, watch, attendance, last_interrupt: None };
    talk.lines().await
}

struct Talk<'a, 'b, M> {
    room: &'a mut Room<'b, M>,
    house: House,
    watch: Watch,
    attendance: Attendance,
    last_interrupt: Option<Instant>,
}

impl<M: Machine> Talk<'_, '_, M> {
    /// Takes lines until there are no more.
    async fn lines(&mut self) -> Result<Exit, Failure> {
        let is_person = self.attendance == Attendance::Person;
        let mut exit = Exit::Done;
        loop {
            let desk = &mut self.room.desk;
            desk.console.rest();
            let heard = tokio::select! {
                biased;
                _ = desk.stops.next() => return Ok(Exit::Interrupted),
                heard = desk.input.next(Ask::Line("› ".to_owned())) => heard,
            };
            let line = match heard {
                Heard::Line(line) => line,
                Heard::Interrupted if self.leaves() => return Ok(Exit::Interrupted),
                Heard::Interrupted => continue,
                Heard::End if is_person => return Ok(Exit::Done),
                Heard::End => return Ok(exit),
                Heard::TooLong => {
                    return Err(Failure::usage("the line is longer than 32 MiB"));
                }
                Heard::Failed(error) => {
                    return Err(Failure::failed(format!("read standard input: {error}")));
                }
            };
            match self.line(&line).await {
                Ok(Next::Leave) => return Ok(exit),
                Ok(Next::Go(Exit::Interrupted)) if !is_person => return Ok(Exit::Interrupted),
                Ok(Next::Go(turn)) => exit = exit.then(turn),
                Err(failure) if failure.exit == Exit::Interrupted => return Err(failure),
                Err(failure) if is_person => {
                    let words = format!("narthex: {}", escape::text(&failure.message));
                    self.room.desk.console.say(&words);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Tells whether this Ctrl-C is the second in a short time.
    fn leaves(&mut self) -> bool {
        let now = Instant::now();
        let before = self.last_interrupt.replace(now);
        if before.is_some_and(|before| now.duration_since(before) < LEAVE_WITHIN) {
            return true;
        }
        self.room.desk.console.say("(Ctrl-C again, or Ctrl-D, leaves)");
        false
    }

    async fn line(&mut self, line: &str) -> Result<Next, Failure> {
        if line.trim().is_empty() {
            return Ok(Next::Go(Exit::Done));
        }
        match slash::read(line) {
            Ok(None) => {
                let prompt = runtime_api::Prompt::text(line);
                self.watch.turn(prompt, &mut self.room.desk).await.map(Next::Go)
            }
            Ok(Some(Slash::Quit)) => Ok(Next::Leave),
            Ok(Some(command)) => {
                self.obey(command).await?;
                Ok(Next::Go(Exit::Done))
            }
            Err(problem) => Err(Failure::usage(problem)),
        }
    }

    async fn obey(&mut self, command: Slash) -> Result<(), Failure> {
        let id = self.watch.info.id.clone();
        let handle = self.watch.handle.clone();
        let desk = &mut self.room.desk;
        match command {
            Slash::Help => desk.console.say(slash::HELP),
            Slash::Mode(None) => {
                let words = format!("mode is {}", self.watch.info.mode);
                desk.console.say(&words);
            }
            Slash::Mode(Some(mode)) => {
                desk.stops.guard(handle.set_mode(&id, mode)).await?;
                if mode != self.watch.info.mode {
                    self.watch.info.mode = mode;
                    self.watch.until(EventKind::ModeChanged, desk).await?;
                }
            }
            Slash::Model(None) => {
                let words = format!("model is {}", escape::line(&self.watch.info.model, 128));
                desk.console.say(&words);
            }
            Slash::Model(Some(model)) => {
                desk.stops.guard(handle.set_model(&id, &model)).await?;
                let info = desk.stops.guard(handle.info(&id)).await?;
                if info.model != self.watch.info.model {
                    self.watch.info.model = info.model;
                    self.watch.until(EventKind::ModelChanged, desk).await?;
                }
            }
            Slash::New => self.renew().await?,
            Slash::Session => {
                let info = desk.stops.guard(handle.info(&id)).await?;
                let prompts = stdx::plural(info.prompts, "prompt");
                let cost = crate::show::dollars(info.cost_usd);
                desk.console.say(&format!("{} · {prompts} · {cost}", facts(&self.watch)));
            }
            Slash::Quit => {}
        }
        Ok(())
    }

    /// Puts the session away and starts another with its model and mode.
    async fn renew(&mut self) -> Result<(), Failure> {
        let old = self.watch.info.clone();
        let close = self.watch.handle.close(&old.id);
        self.room.desk.stops.guard(close).await?;
        self.house.model = Some(old.model);
        self.house.mode = old.mode;
        let mut agent = self.house.agent.clone();
        agent.is_attended = self.attendance == Attendance::Person;
        let seat = (Form::new(OutputFormat::Text), self.attendance);
        self.watch = session::create(self.room, &self.house, agent, seat).await?;
        greet(&self.watch, &mut self.room.desk.console);
        Ok(())
    }
}

enum Next {
    Go(Exit),
    Leave,
}

fn facts(watch: &Watch) -> String {
    let info = &watch.info;
    format!(
        "{} · mode {} · {} · session {}",
        escape::line(&info.model, 128),
        info.mode,
        escape::line(&info.cwd, 400),
        info.id
    )
}

fn greet(watch: &Watch, console: &mut Console) {
    let paint = console.paint();
    let name = paint.bold("narthex");
    console.say(&format!("{name} {}", facts(watch)));
    if console.facts().input_is_terminal && console.facts().err_is_terminal {
        console.say(&paint.dim("/help shows commands · Ctrl-C stops a turn · Ctrl-D leaves"));
    }
}

/// Shows the end of the last answer again, so that one sees where one was.
async fn show_tail<M>(watch: &Watch, room: &mut Room<'_, M>) {
    let after = Seq(watch.info.last_seq.saturating_sub(TAIL_ROWS));
    let limit = usize::try_from(TAIL_ROWS).unwrap_or(usize::MAX);
    // A transcript that cannot be read now is no reason not to go on.
    let Ok(messages) = watch.handle.messages(&watch.info.id, after, limit).await else { return };
    let Some(last) = messages.iter().rev().find(|message| message.role == Role::Assistant) else {
        return;
    };
    let texts = last.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let text = escape::text(texts.collect::<Vec<_>>().join("\n").trim());
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default();
    let console = &mut room.desk.console;
    let paint = console.paint();
    let prompts = stdx::plural(watch.info.prompts, "earlier prompt");
    let id = &watch.info.id;
    console.say(&paint.dim(&format!("… {prompts} · narthex sessions show {id}")));
    if !shown.is_empty() {
        console.say(&shown.join("\n"));
    }
}
