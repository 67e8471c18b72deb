//! The card of a question: the model's own, or the runtime's about the turn.

use protocol::event::{Answer, PauseKind, QuestionRequest};

use super::{Look, begin, end, pause_name, put};
use crate::{Paint, escape};

/// How many characters of a question are shown.
const QUESTION_CHARS: usize = 10_000;
/// How many characters of an option, or of what is said about it, are shown.
const OPTION_CHARS: usize = 400;

/// The option of a pause that lets the turn go on.
const GO_ON: &str = "go_on";

/// Draws what is asked.
pub(super) fn body(card: &mut String, request: &QuestionRequest, look: Look) {
    let paint = look.paint;
    let name = request.about.map_or("a question", pause_name);
    begin(card, name, &[], look);
    let text = escape::text(&escape::cut(request.question.trim(), QUESTION_CHARS));
    put(card, &format!("    {}", text.replace('\n', "\n    ")));
    if request.about.is_none() {
        for (place, option) in request.options.iter().enumerate() {
            let label = escape::line(&option.label, OPTION_CHARS);
            let number = paint.mark(&format!("{:>2}", place + 1));
            let more = match option.description.as_deref().filter(|text| !text.trim().is_empty()) {
                Some(text) => paint.dim(&format!(" — {}", escape::line(text, OPTION_CHARS))),
                None => String::new(),
            };
            put(card, &format!("    {number}  {label}{more}"));
        }
    }
    let silence = match request.about {
        None => "dismisses it",
        Some(PauseKind::Budget | PauseKind::Repetition) => "ends the turn",
    };
    end(card, request.expires_at, silence, look);
}

/// Says what one can answer.
pub(super) fn keys(card: &mut String, request: &QuestionRequest, _: Paint) {
    if request.about.is_some() {
        return put(card, "    y go on · n end the turn");
    }
    let mut ways = Vec::new();
    match (request.options.len(), request.multi_select) {
        (0, _) => {}
        (1, _) => ways.push("1 takes it".to_owned()),
        (count, false) => ways.push(format!("1 to {count}")),
        (count, true) => ways.push(format!("one or more of 1 to {count}, with commas")),
    }
    if request.allow_other {
        let own = if request.options.is_empty() { "your answer" } else { "your own words" };
        ways.push(own.to_owned());
    }
    ways.push("- dismisses".to_owned());
    put(card, &format!("    {}", ways.join(" · ")));
}

/// Reads what was said to the runtime's own question; none when it is neither yes nor no.
pub(super) fn read_pause(said: &str, request: &QuestionRequest) -> Option<Answer> {
    let by_id = |id: &str| request.options.iter().find(|option| option.id == id);
    let go_on = by_id(GO_ON).or(request.options.first())?;
    let stop = request.options.iter().find(|option| option.id != go_on.id);
    match said.to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(Answer::Chosen { answers: vec![go_on.id.clone()], other: None }),
        "n" | "no" => Some(match stop {
            Some(option) => Answer::Chosen { answers: vec![option.id.clone()], other: None },
            None => Answer::Dismissed,
        }),
        "-" => Some(Answer::Dismissed),
        _ => None,
    }
}

/// Reads what was said to a question of the model.
///
/// # Errors
/// A sentence for the person when it answers nothing.
pub(super) fn read(said: &str, request: &QuestionRequest) -> Result<Answer, String> {
    if said == "-" {
        return Ok(Answer::Dismissed);
    }
    let named = request.options.iter().find(|it| it.label.trim().eq_ignore_ascii_case(said));
    if let Some(option) = named {
        return Ok(Answer::Chosen { answers: vec![option.id.clone()], other: None });
    }
    if let Some(answers) = numbers(said, request)? {
        return Ok(Answer::Chosen { answers, other: None });
    }
    // `2: but with tests` takes an option and adds words.
    if let Some((before, words)) = said.split_once(':')
        && request.allow_other
        && let Ok(Some(answers)) = numbers(before.trim(), request)
        && !words.trim().is_empty()
    {
        return Ok(Answer::Chosen { answers, other: Some(words.trim().to_owned()) });
    }
    if request.allow_other {
        return Ok(Answer::Chosen { answers: Vec::new(), other: Some(said.to_owned()) });
    }
    Err(expected(request))
}

fn expected(request: &QuestionRequest) -> String {
    match (request.options.len(), request.multi_select) {
        (0, _) => "there is nothing to choose here; - dismisses the question".to_owned(),
        (1, _) => "1, or - to dismiss the question".to_owned(),
        (count, false) => format!("a number from 1 to {count}, or - to dismiss the question"),
        (count, true) => {
            format!("numbers from 1 to {count} with commas, or - to dismiss the question")
        }
    }
}

/// Reads numbers of options; none where the words are no numbers, or there are no options.
fn numbers(said: &str, request: &QuestionRequest) -> Result<Option<Vec<String>>, String> {
    if request.options.is_empty() {
        return Ok(None);
    }
    let mut answers: Vec<String> = Vec::new();
    let mut count = 0;
    for word in said.split([',', ' ']).filter(|word| !word.is_empty()) {
        let Ok(number) = word.parse::<usize>() else { return Ok(None) };
        let option = number.checked_sub(1).and_then(|place| request.options.get(place));
        let Some(option) = option else { return Err(expected(request)) };
        count += 1;
        if !answers.contains(&option.id) {
            answers.push(option.id.clone());
        }
    }
    if count > 1 && !request.multi_select {
        return Err(format!("only one can be chosen: {}", expected(request)));
    }
    Ok((count > 0).then_some(answers))
}
