//! What the client lends: its files, with what is not saved yet, and its terminals.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use agent_client_protocol_schema::v1::{
    ClientCapabilities, CreateTerminalRequest, CreateTerminalResponse, EnvVariable,
    KillTerminalRequest, KillTerminalResponse, ReadTextFileRequest, ReadTextFileResponse,
    ReleaseTerminalRequest, ReleaseTerminalResponse, TerminalExitStatus, TerminalId,
    TerminalOutputRequest, TerminalOutputResponse, WaitForTerminalExitRequest,
    WaitForTerminalExitResponse, WriteTextFileRequest, WriteTextFileResponse,
};
use async_trait::async_trait;
use protocol::SessionId;
use runtime_api::{ExitStatus, LendError, Lender, Lends, LentCommand, LentOutput, LentTerminal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connection::Connection;
use crate::outlet::{AskError, Outlet};

/// How long the client may take over a file or a terminal's state: it asks nobody.
const CLIENT_WAIT: Duration = Duration::from_mins(1);

/// The client of a connection, as the runtime borrows from it.
#[derive(Debug)]
pub(crate) struct Client {
    outlet: Outlet,
    lends: Lends,
    /// Weak: the sessions that borrow are kept by the connection.
    connection: Weak<Connection>,
}

impl Client {
    /// Tells what the client lends; none where it lends nothing.
    pub(crate) fn of(
        connection: &Arc<Connection>,
        capabilities: &ClientCapabilities,
    ) -> Option<Self> {
        let lends = Lends {
            reads_files: capabilities.fs.read_text_file,
            writes_files: capabilities.fs.write_text_file,
            runs_commands: capabilities.terminal,
        };
        (lends != Lends::default()).then(|| Self {
            outlet: connection.outlet().clone(),
            lends,
            connection: Arc::downgrade(connection),
        })
    }
}

/// Asks the client for something that it does at once.
async fn ask<T: DeserializeOwned>(
    outlet: &Outlet,
    method: &str,
    params: &impl Serialize,
) -> Result<T, LendError> {
    match tokio::time::timeout(CLIENT_WAIT, outlet.ask(method, params)).await {
        Ok(answer) => answer.map_err(refused),
        Err(_) => Err(LendError::Gone),
    }
}

fn refused(error: AskError) -> LendError {
    match error {
        AskError::Gone => LendError::Gone,
        AskError::Refused(error) if i32::from(error.code) == NOT_FOUND => {
            LendError::NotFound("the file".to_owned())
        }
        AskError::Refused(error) => LendError::Refused(error.message),
        AskError::Odd(what) => LendError::Refused(what),
    }
}

/// The protocol's code for a file that is not there.
const NOT_FOUND: i32 = -32002;

fn text(session: &SessionId) -> String {
    session.as_str().to_owned()
}

#[async_trait]
impl Lender for Client {
    fn lends(&self) -> Lends {
        self.lends
    }

    async fn read_text(&self, session: &SessionId, path: &Path) -> Result<String, LendError> {
        let wanted = ReadTextFileRequest::new(text(session), path);
        let read: Result<ReadTextFileResponse, _> =
            ask(&self.outlet, "fs/read_text_file", &wanted).await;
        match read {
            Ok(answer) => Ok(answer.content),
            Err(LendError::NotFound(_)) => Err(LendError::NotFound(path.display().to_string())),
            Err(error) => Err(error),
        }
    }

    async fn write_text(
        &self,
        session: &SessionId,
        path: &Path,
        content: &str,
    ) -> Result<(), LendError> {
        let wanted = WriteTextFileRequest::new(text(session), path, content);
        let WriteTextFileResponse { .. } = ask(&self.outlet, "fs/write_text_file", &wanted).await?;
        Ok(())
    }

    async fn run(
        &self,
        session: &SessionId,
        command: LentCommand,
    ) -> Result<Arc<dyn LentTerminal>, LendError> {
        let LentCommand { argv, cwd, env, output_max } = command;
        let Some((program, args)) = argv.split_first() else {
            return Err(LendError::Refused("there is no command".to_owned()));
        };
        let env = env.into_iter().map(|(name, value)| EnvVariable::new(name, value)).collect();
        let wanted = CreateTerminalRequest::new(text(session), program.clone())
            .args(args.to_vec())
            .env(env)
            .cwd(cwd)
            .output_byte_limit(output_max);
        let CreateTerminalResponse { terminal_id, .. } =
            ask(&self.outlet, "terminal/create", &wanted).await?;
        let live = self.connection.upgrade().and_then(|it| it.find(session));
        if let Some(live) = live {
            live.show_terminal(&argv, &terminal_id).await;
        }
        Ok(Arc::new(ClientTerminal {
            outlet: self.outlet.clone(),
            session: session.clone(),
            id: terminal_id,
        }))
    }
}

/// A command in a terminal of the client.
#[derive(Debug)]
struct ClientTerminal {
    outlet: Outlet,
    session: SessionId,
    id: TerminalId,
}

#[async_trait]
impl LentTerminal for ClientTerminal {
    async fn output(&self) -> Result<LentOutput, LendError> {
        let wanted = TerminalOutputRequest::new(text(&self.session), self.id.clone());
        let shown: TerminalOutputResponse = ask(&self.outlet, "terminal/output", &wanted).await?;
        let exit = shown.exit_status.as_ref().map(exit_of);
        Ok(LentOutput { text: shown.output, is_truncated: shown.truncated, exit })
    }

    async fn wait(&self) -> Result<ExitStatus, LendError> {
        let wanted = WaitForTerminalExitRequest::new(text(&self.session), self.id.clone());
        // As long as the command takes: whoever runs it has a limit of time and drops this.
        let ended: WaitForTerminalExitResponse =
            self.outlet.ask("terminal/wait_for_exit", &wanted).await.map_err(refused)?;
        Ok(exit_of(&ended.exit_status))
    }

    async fn kill(&self) -> Result<(), LendError> {
        let wanted = KillTerminalRequest::new(text(&self.session), self.id.clone());
        let KillTerminalResponse { .. } = ask(&self.outlet, "terminal/kill", &wanted).await?;
        Ok(())
    }

    async fn release(&self) -> Result<(), LendError> {
        let wanted = ReleaseTerminalRequest::new(text(&self.session), self.id.clone());
        let ReleaseTerminalResponse { .. } = ask(&self.outlet, "terminal/release", &wanted).await?;
        Ok(())
    }
}

/// Signals by name, as clients write them.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
];

/// Reads how a command ended. One of which the client says neither code nor signal was ended by
/// it: that is a kill.
fn exit_of(status: &TerminalExitStatus) -> ExitStatus {
    const KILL: i32 = 9;
    if let Some(signal) = &status.signal {
        let name = signal.trim().trim_start_matches("SIG");
        let known = SIGNALS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let number = known.map(|(_, number)| *number).or_else(|| name.parse().ok());
        return ExitStatus::Signal(number.unwrap_or(KILL));
    }
    match status.exit_code {
        // A code beyond what fits was made of a negative one.
        Some(code) => ExitStatus::Code(code.cast_signed()),
        None => ExitStatus::Signal(KILL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_in_any_spelling() {
        let ended = |code: Option<u32>, signal: Option<&str>| {
            exit_of(&TerminalExitStatus::new().exit_code(code).signal(signal.map(str::to_owned)))
        };
        assert_eq!(ended(Some(3), None), ExitStatus::Code(3));
        assert_eq!(ended(None, Some("SIGTERM")), ExitStatus::Signal(15));
        assert_eq!(ended(None, Some("term")), ExitStatus::Signal(15));
        assert_eq!(ended(None, Some("11")), ExitStatus::Signal(11));
        assert_eq!(ended(None, None), ExitStatus::Signal(9));
        assert_eq!(ended(Some(u32::MAX), None), ExitStatus::Code(-1));
    }
}
