//! A conversation line by line: `narthex` and `narthex resume`.

mod picker;
mod slash;

use std::time::{Duration, Instant};

use protocol::event::SessionEnd;
use protocol::{Block, EventKind, NeuronDriver, Role, Seq};
use runtime_api::{MessagesAfter, SessionFilter, SlashCommand};
use terminal::tty::Kept;
use terminal::{Ask, Attendance, Console, Exit, Failure, Form, Heard, Watch, Words, escape};

use self::slash::Slash;
use crate::args::{Globals, RunOptions};
use crate::door::Room;
use crate::machine::{House, Machine};
use crate::session::{self, Which};

/// Two Ctrl-C within this time leave the conversation.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
/// From how full a context window on, in percent, the prompt line tells it.
const CONTEXT_TOLD_FROM: u8 = 50;
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
    let house = session::house(room, globals, session::need_of(&which)).await?;
    let is_edited = is_person && facts.has_line_editor;
    let _kept = is_edited.then(Kept::around_editor);
    let words = Words::default();
    words.set(slash::words(&[]));
    if is_edited {
        room.desk.input.edit(Some(house.home.join("history")), words.clone());
    }
    if is_person && which == Which::Newest {
        match picker::pick(room, &house).await? {
            Some(id) => which = Which::Id(id),
            None => return Ok(Exit::Done),
        }
    }
    let attendance = if is_person { Attendance::Person } else { Attendance::Nobody };
    let seat = (Form::new(terminal::OutputFormat::Text), attendance);
    // A new session is made with its first prompt, so that looking in leaves nothing behind.
    let watch = match which {
        Which::New => None,
        which => Some(session::open_in(room, &house, which, seat).await?),
    };
    greet(&house, watch.as_ref(), &mut room.desk.console);
    if let Some(watch) = watch.as_ref().filter(|_| is_person) {
        show_tail(watch, room).await;
    }
    let mut talk =
        Talk { room, house, watch, attendance, commands: Vec::new(), words, last_interrupt: None };
    talk.learn().await?;
    let exit = talk.lines().await;
    if let Some(watch) = &talk.watch {
        session::say_what_waits(&talk.house, &watch.info, &mut talk.room.desk.console).await;
    }
    exit
}

struct Talk<'a, 'b, M> {
    room: &'a mut Room<'b, M>,
    house: House,
    /// None until the first prompt of a new session.
    watch: Option<Watch>,
    attendance: Attendance,
    /// The slash commands that the runtime obeys; empty until there is a session.
    commands: Vec<SlashCommand>,
    /// What the line editor completes.
    words: Words,
    last_interrupt: Option<Instant>,
}

impl<M: Machine> Talk<'_, '_, M> {
    /// Takes lines until there are no more.
    async fn lines(&mut self) -> Result<Exit, Failure> {
        let is_person = self.attendance == Attendance::Person;
        let mut exit = Exit::Done;
        loop {
            let full = self.watch.as_ref().and_then(|watch| watch.info.context_percent());
            let desk = &mut self.room.desk;
            desk.console.rest();
            let heard = tokio::select! {
                biased;
                _ = desk.stops.next() => return Ok(Exit::Interrupted),
                heard = desk.input.next(Ask::Line(sign(full))) => heard,
            };
            let line = match heard {
                Heard::Line(line) => line,
                Heard::Stale => continue,
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
            Ok(None) => match self.slip(line).await? {
                Some(words) => {
                    self.room.desk.console.say(&words);
                    Ok(Next::Go(Exit::Done))
                }
                None => self.prompt(line).await,
            },
            // The runtime's own commands are prompts that it obeys.
            Ok(Some(command)) if self.is_runtimes(&command) => self.prompt(line).await,
            Ok(Some(Slash::Quit)) => Ok(Next::Leave),
            Ok(Some(command)) => {
                self.obey(command).await?;
                Ok(Next::Go(Exit::Done))
            }
            Err(problem) => Err(Failure::usage(problem)),
        }
    }

    /// Says what a person may have meant with a line that is nearly a command. Lines that are
    /// piped are sent as they are.
    async fn slip(&mut self, line: &str) -> Result<Option<String>, Failure> {
        if self.attendance != Attendance::Person || !line.starts_with('/') {
            return Ok(None);
        }
        self.learn_early().await?;
        Ok(slash::meant(line, &self.commands).map(|(word, name)| {
            format!(
                "no command /{}; did you mean /{}? to send it as text, begin with a space",
                escape::line(&word, 40),
                escape::line(&name, 40)
            )
        }))
    }

    fn is_runtimes(&self, command: &Slash) -> bool {
        let name = command.name_if_shared().filter(|_| self.watch.is_some());
        name.is_some_and(|name| slash::is_listed(&self.commands, name))
    }

    async fn prompt(&mut self, line: &str) -> Result<Next, Failure> {
        if self.watch.is_none() {
            self.watch = Some(self.create().await?);
            self.learn().await?;
        }
        let Some(watch) = &mut self.watch else { return Ok(Next::Go(Exit::Done)) };
        let prompt = runtime_api::Prompt::text(line);
        let exit = watch.turn(prompt, &mut self.room.desk).await?;
        // How full the model's window is stands beside the next prompt; that it cannot be told
        // now is no reason to stop.
        if let Ok(info) = watch.handle.info(&watch.info.id).await {
            watch.info.context_tokens = info.context_tokens;
            watch.info.context_window = info.context_window;
        }
        // What a command changed holds for a session that is begun anew.
        self.house.mode = watch.info.mode;
        Ok(Next::Go(exit))
    }

    /// Learns which slash commands the runtime obeys.
    async fn learn(&mut self) -> Result<(), Failure> {
        if let Some(watch) = &self.watch {
            let work = watch.handle.commands(&watch.info.id);
            self.commands = self.room.desk.stops.guard(work).await?;
            self.words.set(slash::words(&self.commands));
        }
        Ok(())
    }

    /// Says which commands there are.
    async fn help(&mut self) -> Result<(), Failure> {
        self.learn_early().await?;
        self.room.desk.console.say(&slash::help(&self.commands));
        Ok(())
    }

    /// Learns the runtime's commands before there is a session: any stored one knows them.
    async fn learn_early(&mut self) -> Result<(), Failure> {
        if self.commands.is_empty() && self.watch.is_none() {
            let handle = self.house.handle.clone();
            let filter = SessionFilter { cwd: None, before: None, limit: 1 };
            let stops = &mut self.room.desk.stops;
            if let Some(info) = stops.guard(handle.list(filter)).await?.first() {
                self.commands = stops.guard(handle.commands(&info.id)).await?;
                self.words.set(slash::words(&self.commands));
            }
        }
        Ok(())
    }

    async fn create(&mut self) -> Result<Watch, Failure> {
        let agent = session::agent_of(&self.house, self.attendance);
        let seat = (Form::new(terminal::OutputFormat::Text), self.attendance);
        session::create(self.room, &self.house, agent, seat).await
    }

    async fn obey(&mut self, command: Slash) -> Result<(), Failure> {
        if command == Slash::Help {
            return self.help().await;
        }
        let Some(watch) = &mut self.watch else { return self.prepare(command) };
        let id = watch.info.id.clone();
        let handle = watch.handle.clone();
        let desk = &mut self.room.desk;
        match command {
            Slash::Mode(Some(mode)) => {
                desk.stops.guard(handle.set_mode(&id, mode)).await?;
                self.house.mode = mode;
                if mode != watch.info.mode {
                    watch.info.mode = mode;
                    watch.until(EventKind::ModeChanged, desk).await?;
                }
            }
            Slash::Model(Some(model)) => {
                desk.stops.guard(handle.set_model(&id, &model)).await?;
                let info = desk.stops.guard(handle.info(&id)).await?;
                if info.model != watch.info.model {
                    watch.info.model = info.model;
                    watch.until(EventKind::ModelChanged, desk).await?;
                }
            }
            Slash::New => {
                let old = watch.info.clone();
                desk.stops.guard(handle.close(&old.id, SessionEnd::Closed)).await?;
                self.watch = None;
                (self.house.model, self.house.mode) = (Some(old.model), old.mode);
                greet(&self.house, None, &mut desk.console);
            }
            Slash::Session => {
                let info = desk.stops.guard(handle.info(&id)).await?;
                let prompts = stdx::plural(info.prompts, "prompt");
                let cost = terminal::dollars(info.cost_usd);
                let context = match info.context_percent() {
                    Some(percent) => format!(" · context {percent} % full"),
                    None => String::new(),
                };
                let facts = facts(&self.house, Some(watch));
                desk.console.say(&format!("{facts} · {prompts} · {cost}{context}"));
                if let Some(words) = session::waiting_words(&info) {
                    desk.console.say(&words);
                }
            }
            Slash::Mode(None) | Slash::Model(None) | Slash::Help | Slash::Quit => {
                let (mode, model) = (watch.info.mode, watch.info.model.clone());
                tell(&command, mode, &model, &mut desk.console);
            }
        }
        Ok(())
    }

    /// Obeys while there is no session yet: what is set holds for the one that the first prompt
    /// makes, which also says whether it may be so.
    fn prepare(&mut self, command: Slash) -> Result<(), Failure> {
        let console = &mut self.room.desk.console;
        match command {
            Slash::Mode(Some(mode)) => {
                self.house.mode = mode;
                console.say(&console.paint().dim(&format!("mode is now {mode}")));
            }
            Slash::Model(Some(model)) => {
                let words = format!("model is now {}", escape::line(&model, 128));
                self.house.model = Some(model);
                console.say(&console.paint().dim(&words));
            }
            Slash::New | Slash::Session => console.say(&facts(&self.house, None)),
            Slash::Mode(None) | Slash::Model(None) | Slash::Help | Slash::Quit => {
                let model = self.house.model.clone().unwrap_or_default();
                tell(&command, self.house.mode, &model, console);
            }
        }
        Ok(())
    }
}

/// Answers a command that only asks.
fn tell(command: &Slash, mode: protocol::Mode, model: &str, console: &mut Console) {
    match command {
        Slash::Mode(_) => console.say(&format!("mode is {mode}")),
        Slash::Model(_) => console.say(&format!("model is {}", escape::line(model, 128))),
        Slash::Help | Slash::New | Slash::Session | Slash::Quit => {}
    }
}

/// Returns the sign before a line, with how full the model's window is once that matters.
fn sign(context_percent: Option<u8>) -> String {
    match context_percent {
        Some(percent) if percent >= CONTEXT_TOLD_FROM => format!("{percent} % › "),
        _ => "› ".to_owned(),
    }
}

enum Next {
    Go(Exit),
    Leave,
}

fn facts(house: &House, watch: Option<&Watch>) -> String {
    let line = |model: &str, mode: protocol::Mode, cwd: &str| {
        let (model, cwd) = (escape::line(model, 128), escape::line(cwd, 400));
        format!("{model} · mode {mode} · {cwd}")
    };
    match watch {
        Some(Watch { info, .. }) => {
            let apart = session::sandbox_words(info);
            let apart = apart.map_or_else(String::new, |words| format!(" · {words}"));
            format!("{}{apart} · session {}", line(&info.model, info.mode, &info.cwd), info.id)
        }
        None => {
            let model = house.model.as_deref().unwrap_or_default();
            let apart = house.sandbox.filter(|driver| *driver != NeuronDriver::Host);
            let apart = apart.map_or_else(String::new, |it| format!(" · sandbox {}", it.as_str()));
            format!("{}{apart} · new session", line(model, house.mode, &house.cwd))
        }
    }
}

fn greet(house: &House, watch: Option<&Watch>, console: &mut Console) {
    let paint = console.paint();
    let name = paint.bold("narthex");
    console.say(&format!("{name} {}", facts(house, watch)));
    if console.facts().input_is_terminal && console.facts().err_is_terminal {
        let keys = "/help shows commands · Ctrl-C stops a turn · Ctrl-D leaves (at a question it \
                    means no)";
        console.say(&paint.dim(keys));
    }
}

/// Shows the end of the last answer again, so that one sees where one was.
async fn show_tail<M>(watch: &Watch, room: &mut Room<'_, M>) {
    let after = MessagesAfter::Seq(Seq(watch.info.last_seq.saturating_sub(TAIL_ROWS)));
    let limit = usize::try_from(TAIL_ROWS).unwrap_or(usize::MAX);
    // A transcript that cannot be read now is no reason not to go on.
    let Ok(page) = watch.handle.messages(&watch.info.id, after, limit).await else { return };
    let Some(last) = page.messages.iter().rev().find(|message| message.role == Role::Assistant)
    else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_tells_a_context_that_fills_up() {
        let signs = [None, Some(49), Some(50), Some(97)].map(sign);
        assert_eq!(signs, ["› ", "› ", "50 % › ", "97 % › "]);
    }
}
