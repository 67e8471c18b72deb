//! What a host lends its sessions: files, terminals, and tokens.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use jsonrpc::{CallError, ErrorObject, Peer};
use protocol::{SessionId, Timestamp};
use runtime_api::{ExitStatus, LendError, Lender, Lends, LentCommand, LentOutput, LentTerminal};
use serde_json::{Value, json};
use stdx::Secret;

use crate::door::Inner;
use crate::surroundings::{MintError, Minted, TokenReason, TokenSource};

/// How long a host may take to read or write a file, or to do something with a terminal: it is on
/// this machine, and may ask a person.
const LEND_WAIT: Duration = Duration::from_secs(60);

/// How long a host may take to mint a token: it may ask a server.
const TOKEN_WAIT: Duration = Duration::from_secs(30);

/// Bytes of a token: it stands in a header.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// The code that hosts and editors tell a missing file with.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// A host that lends.
#[derive(Debug)]
pub(crate) struct HostLender {
    pub(crate) peer: Peer,
    pub(crate) lends: Lends,
}

impl HostLender {
    async fn ask(&self, method: &str, params: Value, path: &str) -> Result<Value, LendError> {
        let asked = self.peer.call(method, &params, Some(LEND_WAIT)).await;
        asked.map_err(|error| told(error, path))
    }
}

#[async_trait]
impl Lender for HostLender {
    fn lends(&self) -> Lends {
        self.lends
    }

    async fn read_text(&self, session: &SessionId, path: &Path) -> Result<String, LendError> {
        let path = shown(path)?;
        let params = json!({"sessionId": session, "path": path});
        let answer = self.ask("fs/read_text_file", params, &path).await?;
        text(&answer, "content")
    }

    async fn write_text(
        &self,
        session: &SessionId,
        path: &Path,
        text: &str,
    ) -> Result<(), LendError> {
        let path = shown(path)?;
        let params = json!({"sessionId": session, "path": path, "content": text});
        self.ask("fs/write_text_file", params, &path).await.map(drop)
    }

    async fn run(
        &self,
        session: &SessionId,
        command: LentCommand,
    ) -> Result<Arc<dyn LentTerminal>, LendError> {
        let LentCommand { argv, cwd, env, output_max } = command;
        let (program, arguments) = argv
            .split_first()
            .ok_or_else(|| LendError::Refused("the command is empty".to_owned()))?;
        let env: Vec<Value> =
            env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let params = json!({
            "sessionId": session, "command": program, "args": arguments, "cwd": shown(&cwd)?,
            "env": env, "outputByteLimit": output_max
        });
        let answer = self.ask("terminal/create", params, program).await?;
        let id = text(&answer, "terminalId")?;
        let at = json!({"sessionId": session, "terminalId": id});
        Ok(Arc::new(Terminal { peer: self.peer.clone(), at }))
    }
}

/// A terminal of a host.
#[derive(Debug)]
struct Terminal {
    peer: Peer,
    /// What names it.
    at: Value,
}

impl Terminal {
    async fn ask(&self, method: &str, limit: Option<Duration>) -> Result<Value, LendError> {
        let asked = self.peer.call(method, &self.at, limit).await;
        asked.map_err(|error| told(error, "the terminal"))
    }
}

#[async_trait]
impl LentTerminal for Terminal {
    async fn output(&self) -> Result<LentOutput, LendError> {
        let answer = self.ask("terminal/output", Some(LEND_WAIT)).await?;
        Ok(LentOutput {
            text: text(&answer, "output")?,
            is_truncated: answer.get("truncated") == Some(&Value::Bool(true)),
            exit: answer.get("exitStatus").filter(|exit| !exit.is_null()).and_then(exit_status),
        })
    }

    async fn wait(&self) -> Result<ExitStatus, LendError> {
        // A command takes as long as it takes; whoever waits has a limit.
        let answer = self.ask("terminal/wait_for_exit", None).await?;
        exit_status(&answer).ok_or_else(|| {
            LendError::Refused("terminal/wait_for_exit: neither exitCode nor signal".to_owned())
        })
    }

    async fn kill(&self) -> Result<(), LendError> {
        self.ask("terminal/kill", Some(LEND_WAIT)).await.map(drop)
    }

    async fn release(&self) -> Result<(), LendError> {
        self.ask("terminal/release", Some(LEND_WAIT)).await.map(drop)
    }
}

/// Reads how a command ended: `{exitCode, signal?}`.
fn exit_status(answer: &Value) -> Option<ExitStatus> {
    let code = answer.get("exitCode").and_then(Value::as_i64);
    let code = code.and_then(|code| i32::try_from(code).ok());
    let signal = match answer.get("signal") {
        Some(Value::String(name)) => signal_number(name),
        Some(Value::Number(number)) => number.as_i64().and_then(|it| i32::try_from(it).ok()),
        _ => None,
    };
    signal.map(ExitStatus::Signal).or(code.map(ExitStatus::Code))
}

fn signal_number(name: &str) -> Option<i32> {
    const SIGNALS: [(&str, i32); 15] = [
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
    let name = name.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let known = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    known.or_else(|| name.parse().ok())
}

fn shown(path: &Path) -> Result<String, LendError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        LendError::Refused(format!("{} is not UTF-8 text and cannot be told", path.display()))
    })
}

fn text(answer: &Value, field: &str) -> Result<String, LendError> {
    let text = answer.get(field).and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| LendError::Refused(format!("its answer has no text {field}")))
}

fn told(error: CallError, what: &str) -> LendError {
    match error {
        CallError::Refused(ErrorObject { code: RESOURCE_NOT_FOUND, .. }) => {
            LendError::NotFound(what.to_owned())
        }
        CallError::Refused(ErrorObject { message, .. }) => LendError::Refused(message),
        CallError::Gone | CallError::Late => LendError::Gone,
    }
}

/// Asks whichever host supplies models now for tokens.
#[derive(Debug)]
pub(crate) struct HostTokens {
    pub(crate) door: Weak<Inner>,
    /// The connection that declared the endpoint.
    pub(crate) connection: u64,
}

#[async_trait]
impl TokenSource for HostTokens {
    async fn token(&self, audience: &str, reason: TokenReason) -> Result<Minted, MintError> {
        let door = self.door.upgrade().ok_or(MintError::Gone)?;
        let host = door.host(self.connection).ok_or(MintError::Gone)?;
        let reason = match reason {
            TokenReason::Initial => "initial",
            TokenReason::Expired => "expired",
            TokenReason::Rejected => "rejected",
        };
        let params = json!({"audience": audience, "reason": reason});
        let answer = match host.peer.call("auth/token", &params, Some(TOKEN_WAIT)).await {
            Ok(answer) => answer,
            Err(CallError::Refused(error)) => return Err(MintError::Refused(error.message)),
            Err(CallError::Gone | CallError::Late) => return Err(MintError::Gone),
        };
        let token = answer.get("token").and_then(Value::as_str);
        let token = token.filter(|token| (1..=TOKEN_BYTES_MAX).contains(&token.len()));
        let Some(token) = token else {
            let what = format!("token: expected a text of 1 to {TOKEN_BYTES_MAX} bytes");
            return Err(MintError::Refused(what));
        };
        let expires_at = match answer.get("expiresAt") {
            None | Some(Value::Null) => None,
            Some(value) => Some(expiry(value)?),
        };
        Ok(Minted { secret: Secret::new(token.to_owned()), expires_at })
    }
}

fn expiry(value: &Value) -> Result<Timestamp, MintError> {
    let time = value.as_str().and_then(|text| text.parse().ok());
    time.ok_or_else(|| {
        let what = "expiresAt: expected a time such as 2026-11-30T12:00:00Z";
        MintError::Refused(what.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_commands_are_read() {
        for (answer, expected) in [
            (json!({"exitCode": 0}), Some(ExitStatus::Code(0))),
            (json!({"exitCode": 3, "signal": null}), Some(ExitStatus::Code(3))),
            (json!({"exitCode": null, "signal": "SIGKILL"}), Some(ExitStatus::Signal(9))),
            (json!({"signal": "term"}), Some(ExitStatus::Signal(15))),
            (json!({"exitCode": 137, "signal": 9}), Some(ExitStatus::Signal(9))),
            (json!({}), None),
            (json!(null), None),
        ] {
            assert_eq!(exit_status(&answer), expected, "{answer}");
        }
    }
}
