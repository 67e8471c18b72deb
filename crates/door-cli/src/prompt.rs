//! `narthex run`: one prompt, then the exit code that tells the truth about it.

use std::time::Duration;

use protocol::Mode;
use runtime_api::{Prompt, PromptPart};
use terminal::{Ask, Attendance, Desk, Exit, Failure, Form, Heard, Reading, escape, image};

use crate::args::{Globals, InputFormat, RunOptions};
use crate::door::Room;
use crate::machine::Machine;
use crate::session::{self, Which};

/// After this long a person is told that the program waits for standard input.
const STDIN_SILENCE: Duration = Duration::from_secs(2);

/// How long the first byte of piped input may take where the prompt is an argument. Whoever starts
/// the program may have left it an input that never ends; on the other hand what is piped may come
/// from a command that takes a while, and an answer without it would be worse than a short wait.
const CONTEXT_WAIT: Duration = Duration::from_secs(3);

/// Runs one prompt, or all that a program sends.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    prompt: Option<String>,
    options: RunOptions,
) -> Result<Exit, Failure> {
    let form = Form::new(options.output_format.into());
    let which = match (&options.resume, options.continue_last) {
        (Some(id), _) => Which::Id(id.clone()),
        (None, true) => Which::Newest,
        (None, false) => Which::New,
    };
    let images = images(&options)?;
    if options.input_format == InputFormat::StreamJson {
        let first = match prompt.filter(|text| text != "-") {
            Some(text) => Some(assemble(text, images)),
            None if images.is_empty() => None,
            None => return Err(Failure::usage("--image needs a PROMPT argument here")),
        };
        let need = session::need_of(&which);
        let house = session::house(room, globals, need).await?;
        if which == Which::New && first.is_none() {
            await_line(&mut room.desk).await?;
        }
        let seat = (form, Attendance::Program);
        let mut watch = session::open_in(room, &house, which, seat).await?;
        return watch.converse(first, &mut room.desk).await;
    }
    let text = prompt_text(prompt, &mut room.desk).await?;
    let facts = *room.desk.console.facts();
    let attendance = Attendance::of(&facts);
    let _kept = session::edits(room, attendance);
    let need = session::need_of(&which);
    let house = session::house(room, globals, need).await?;
    let mut watch = session::open_in(room, &house, which, (form, attendance)).await?;
    let sandbox = session::sandbox_words(&watch.info);
    if facts.err_is_terminal && (watch.info.mode != Mode::Ask || sandbox.is_some()) {
        let folder = escape::line(&watch.info.cwd, 400);
        let apart = sandbox.map_or_else(String::new, |words| format!(" · {words}"));
        let console = &mut room.desk.console;
        console.say(&console.paint().dim(&format!("mode {} · {folder}{apart}", watch.info.mode)));
    }
    let exit = watch.turn(assemble(text, images), &mut room.desk).await;
    session::say_what_waits(&house, &watch.info, &mut room.desk.console).await;
    exit
}

/// Waits until a program says something, before a session is made for it: one that says nothing
/// leaves none behind.
async fn await_line(desk: &mut Desk) -> Result<(), Failure> {
    loop {
        let heard = tokio::select! {
            biased;
            _ = desk.stops.next() => return Err(Failure::stopped()),
            heard = desk.input.next(Ask::Line(String::new())) => heard,
        };
        match heard {
            Heard::Line(text) if text.trim().is_empty() => {}
            Heard::End => return Err(Failure::usage("standard input held no prompt")),
            heard => {
                desk.input.give_back(heard);
                return Ok(());
            }
        }
    }
}

fn images(options: &RunOptions) -> Result<Vec<PromptPart>, Failure> {
    if options.image.len() > image::ATTACHMENTS_MAX {
        let limit = image::ATTACHMENTS_MAX;
        return Err(Failure::usage(format!("--image: more than {limit} images")));
    }
    let read = options.image.iter().map(|path| image::read(path).map(PromptPart::Image));
    read.collect::<Result<_, _>>().map_err(Failure::usage)
}

fn assemble(text: String, images: Vec<PromptPart>) -> Prompt {
    let mut parts = vec![PromptPart::Text(text)];
    parts.extend(images);
    Prompt { parts, ..Prompt::default() }
}

/// Finds the prompt: the argument, standard input, or the argument with piped input as context.
async fn prompt_text(prompt: Option<String>, desk: &mut Desk) -> Result<String, Failure> {
    let is_terminal = desk.console.facts().input_is_terminal;
    let text = match prompt.as_deref() {
        Some("-") => read_input(desk).await?,
        Some(text) if is_terminal => text.to_owned(),
        Some(text) => match read_context(desk).await?.trim() {
            "" => text.to_owned(),
            context => format!("{text}\n\n<standard-input>\n{context}\n</standard-input>"),
        },
        None if is_terminal => {
            return Err(Failure::usage(
                "no prompt: narthex run \"what to do\", or pipe it into standard input",
            ));
        }
        None => read_input(desk).await?,
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty: narthex run \"what to do\""));
    }
    Ok(text)
}

fn unread(error: &std::io::Error) -> Failure {
    Failure::usage(format!("read standard input: {error}"))
}

/// Reads piped input that stands beside a prompt; nothing where nothing comes.
async fn read_context(desk: &mut Desk) -> Result<String, Failure> {
    let mut reading = desk.input.reading().map_err(|error| unread(&error))?;
    let begun = tokio::select! {
        biased;
        _ = desk.stops.next() => return Err(Failure::stopped()),
        begun = tokio::time::timeout(CONTEXT_WAIT, reading.begun()) => begun,
    };
    if begun.is_err() {
        let waited = stdx::duration(CONTEXT_WAIT);
        desk.console.say(&format!(
            "narthex: nothing came from standard input within {waited}; going on without it \
             (</dev/null spares the wait; a prompt that is piped itself is waited for)"
        ));
        return Ok(String::new());
    }
    read_to_end(reading, desk).await
}

async fn read_input(desk: &mut Desk) -> Result<String, Failure> {
    let reading = desk.input.reading().map_err(|error| unread(&error))?;
    read_to_end(reading, desk).await
}

async fn read_to_end(reading: Reading, desk: &mut Desk) -> Result<String, Failure> {
    let Desk { console, stops, .. } = desk;
    let mut read = std::pin::pin!(reading.whole());
    let silence = tokio::time::sleep(STDIN_SILENCE);
    let first = tokio::select! {
        biased;
        _ = stops.next() => return Err(Failure::stopped()),
        text = &mut read => Some(text),
        () = silence => None,
    };
    let text = match first {
        Some(text) => text,
        None => {
            console.say("narthex: reading standard input to its end (</dev/null gives none)");
            tokio::select! {
                biased;
                _ = stops.next() => return Err(Failure::stopped()),
                text = &mut read => text,
            }
        }
    };
    text.map_err(|error| unread(&error))
}
