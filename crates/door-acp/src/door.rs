//! The loop: lines of one client, until it is gone.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::v1::{
    CancelNotification, CancelRequestNotification, Error, RequestId,
};
use protocol::SessionId;
use runtime_api::AgentSettings;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::connection::Connection;
use crate::line::{self, Line, Message};
use crate::method;
use crate::outlet::Outlet;

/// How long turns may take to end once the client is gone: longer than the 15 s that the runtime
/// gives a stopped turn.
const END_WAIT: Duration = Duration::from_secs(20);

/// What the door is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version of the program.
    pub version: &'static str,
    /// The agent of every session; whether somebody answers is the door's to say.
    pub agent: AgentSettings,
}

/// Speaks with a client until its input ends, its output breaks or `stop` is called. When it is
/// gone, its turns are stopped and have ended, and answers that were made are written. On `stop`
/// turns go on: whoever shuts the runtime down decides what becomes of them.
///
/// # Errors
/// When the input cannot be read, or the output not written before the input's end.
pub async fn serve<R, W>(
    options: Options,
    access: Arc<dyn Access>,
    (input, output): (R, W),
    stop: CancellationToken,
) -> io::Result<()>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (outlet, pending) = Outlet::new();
    let connection = Connection::new(options, access, outlet.clone());
    let finish = CancellationToken::new();
    let writing = connection.tasks().spawn(pending.write(output, finish.clone()));
    let read = tokio::select! {
        read = read(&connection, input) => read,
        () = outlet.gone() => Ok(()),
        () = stop.cancelled() => Ok(()),
    };
    // Nobody answers any more; what waits for an answer is decided by what happens next.
    outlet.give_up();
    if !stop.is_cancelled() {
        leave(&connection).await;
    }
    for live in connection.all() {
        live.let_go();
    }
    finish.cancel();
    let written = writing.await.map_err(io::Error::other).flatten();
    connection.tasks().close();
    if tokio::time::timeout(END_WAIT, connection.tasks().wait()).await.is_err() {
        tracing::warn!("sessions are not let go of");
    }
    read.and(written)
}

/// Stops the turns of a client that is gone, and answers what it waited for: it may still read.
async fn leave(connection: &Arc<Connection>) {
    connection.cancel_all();
    connection.answering().close();
    let ended = async {
        for live in connection.all() {
            live.interrupt().await;
        }
        connection.answering().wait().await;
    };
    if tokio::time::timeout(END_WAIT, ended).await.is_err() {
        tracing::warn!("turns do not end");
    }
}

async fn read<R: AsyncRead + Unpin>(connection: &Arc<Connection>, input: R) -> io::Result<()> {
    let mut input = BufReader::new(input);
    while let Some(line) = line::next(&mut input).await? {
        match line {
            Line::Text(text) => take(connection, &text).await,
            Line::Wrong(what) => {
                let error = Error::new(-32600, what);
                connection.outlet().answer::<()>(&RequestId::Null, &Err(error)).await;
            }
        }
    }
    Ok(())
}

async fn take(connection: &Arc<Connection>, text: &str) {
    match line::parse(text) {
        Ok(Message::Request { id, method, params }) => {
            let prompts = prompted(&method, &params);
            match connection.begin(&id, prompts) {
                Ok(cancel) => {
                    let own = Arc::clone(connection);
                    connection.answering().spawn(async move {
                        Box::pin(method::answer(&own, &id, (&method, &params), &cancel)).await;
                    });
                }
                Err(error) => connection.outlet().answer::<()>(&id, &Err(error)).await,
            }
        }
        Ok(Message::Notification { method, params }) => told(connection, &method, &params),
        Ok(Message::Response { id, result }) => connection.outlet().answered(&id, result),
        Err(wrong) => {
            let (id, error) = *wrong;
            connection.outlet().answer::<()>(&id, &Err(error)).await;
        }
    }
}

/// Returns the session that a request prompts: a cancellation that comes right behind it finds it.
fn prompted(method: &str, params: &RawValue) -> Option<SessionId> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Prompted {
        session_id: String,
    }
    if method != "session/prompt" {
        return None;
    }
    let prompted: Prompted = serde_json::from_str(params.get()).ok()?;
    Some(SessionId::new(prompted.session_id))
}

/// Takes a notification. One that cannot be read is told to the log alone: it has no answer.
fn told(connection: &Arc<Connection>, method: &str, params: &RawValue) {
    match method {
        "session/cancel" => match line::params::<CancelNotification>(params) {
            Ok(wanted) => cancel(connection, &SessionId::new(&*wanted.session_id.0)),
            Err(error) => tracing::warn!("session/cancel: {}", error.message),
        },
        "$/cancel_request" => match line::params::<CancelRequestNotification>(params) {
            Ok(wanted) => connection.cancel_request(&wanted.request_id),
            Err(error) => tracing::warn!("$/cancel_request: {}", error.message),
        },
        _ => tracing::debug!("a notification that nobody waits for"),
    }
}

/// Stops what runs in a session, and what was just sent to it.
fn cancel(connection: &Arc<Connection>, session: &SessionId) {
    connection.cancel_prompts(session);
    if let Some(live) = connection.find(session) {
        connection.tasks().spawn(async move { live.interrupt().await });
    }
}
