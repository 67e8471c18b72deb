//! What a server asks of a person while it works on a call: field by field, as questions of the
//! session.

mod field;
#[cfg(test)]
mod tests;

use driver_api::Asks;
use outbound::Url;
use protocol::event::{Answer, QuestionOption};
use serde_json::{Map, Value, json};

use crate::in_flight::Running;
use crate::words::cut;
use field::{Field, Given};

/// Most fields of one form: a person answers each by itself.
const FIELDS_MAX: usize = 20;

/// Most characters of a server's words that a person is shown.
const MESSAGE_CHARS_MAX: usize = 4_000;

/// How often a field is asked for when the answer does not fit.
const ATTEMPTS_MAX: usize = 3;

/// The option that says no.
const DECLINE: &str = "decline";

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Elicited {
    /// The person answered; the fields of a form.
    Accepted(Map<String, Value>),
    /// The person said no.
    Declined,
    /// Nobody answered.
    Cancelled,
}

impl Elicited {
    /// Returns the result as it stands on the wire.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Accepted(content) => json!({"action": "accept", "content": content}),
            Self::Declined => json!({"action": "decline"}),
            Self::Cancelled => json!({"action": "cancel"}),
        }
    }
}

/// Asks the person behind a call what a server wants to know. `params` are those of
/// `elicitation/create`. What cannot be asked is declined, never guessed.
pub(crate) async fn elicit(server: &str, params: &Value, call: &Running) -> Elicited {
    let text = |key: &str| params.get(key).and_then(Value::as_str);
    let message = cut(text("message").unwrap_or_default().trim(), MESSAGE_CHARS_MAX);
    match text("mode") {
        None | Some("form") => form(server, &message, params, call).await,
        Some("url") => visit(server, &message, text("url").unwrap_or_default(), call).await,
        Some(_) => Elicited::Declined,
    }
}

async fn form(server: &str, message: &str, params: &Value, call: &Running) -> Elicited {
    let Ok(fields) = Field::read_all(params.get("requestedSchema").unwrap_or(&Value::Null)) else {
        return Elicited::Declined;
    };
    if fields.len() > FIELDS_MAX {
        return Elicited::Declined;
    }
    if fields.is_empty() {
        return confirm(format!("{server} asks: {message}"), "Yes", call).await;
    }
    let mut content = Map::new();
    for (index, field) in fields.iter().enumerate() {
        let place = if fields.len() == 1 {
            String::new()
        } else {
            format!(" ({} of {})", index + 1, fields.len())
        };
        let about = format!("{server} asks{place}: {message}\n\n{}", field.question());
        match ask_field(&about, field, call).await {
            Ok(Some(value)) => drop(content.insert(field.name.clone(), value)),
            Ok(None) => {}
            Err(end) => return end,
        }
    }
    Elicited::Accepted(content)
}

/// Asks for one field until the answer fits.
async fn ask_field(about: &str, field: &Field, call: &Running) -> Result<Option<Value>, Elicited> {
    let mut question = about.to_owned();
    for _ in 0..ATTEMPTS_MAX {
        let answer = call.ask(field.asks(question)).await;
        let (answers, other) = match answer {
            Some(Answer::Chosen { answers, other }) => (answers, other),
            _ => return Err(Elicited::Cancelled),
        };
        match field.read(&answers, other.as_deref()) {
            Ok(Given::Value(value)) => return Ok(Some(value)),
            Ok(Given::Nothing) => return Ok(None),
            Ok(Given::Declined) => return Err(Elicited::Declined),
            Err(reason) => question = format!("{about}\n\nThat does not fit: {reason}."),
        }
    }
    Err(Elicited::Cancelled)
}

/// Asks a person to open an address. Nothing here opens it: it is for their eyes, and the server
/// learns there what it wants to know.
async fn visit(server: &str, message: &str, url: &str, call: &Running) -> Elicited {
    let Some((url, host)) = visitable(url) else {
        return Elicited::Declined;
    };
    let question = format!(
        "{server} asks you to open an address on {host}: {message}\n\n{url}\n\nOpen it only if \
         you trust {host}."
    );
    confirm(question, "I have opened it", call).await
}

/// Reads an address that may be shown: encrypted, or on this machine.
fn visitable(url: &str) -> Option<(Url, String)> {
    if url.chars().count() > MESSAGE_CHARS_MAX {
        return None;
    }
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?.to_owned();
    // What stands before the at sign reads like a host and is none.
    let is_plain = url.username().is_empty() && url.password().is_none();
    let is_here = matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]");
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_here);
    (is_plain && is_safe).then_some((url, host))
}

async fn confirm(question: String, yes: &str, call: &Running) -> Elicited {
    let options = vec![option("accept", yes, None), decline()];
    let asks = Asks::Question { question, options, multi_select: false, allow_other: false };
    match call.ask(asks).await {
        Some(Answer::Chosen { answers, .. }) if answers == ["accept"] => {
            Elicited::Accepted(Map::new())
        }
        Some(Answer::Chosen { .. }) => Elicited::Declined,
        _ => Elicited::Cancelled,
    }
}

fn decline() -> QuestionOption {
    option(DECLINE, "Do not answer", None)
}

fn option(id: &str, label: &str, description: Option<&str>) -> QuestionOption {
    let description = description.map(ToOwned::to_owned);
    QuestionOption { id: id.to_owned(), label: label.to_owned(), description }
}
