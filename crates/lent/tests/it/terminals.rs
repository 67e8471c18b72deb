//! Commands in the client's terminals.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use driver_api::{ExitStatus, LendError, Lends, Output, Process, Spawn, WorkspaceError};
use tokio::sync::mpsc;

use crate::stand::Stand;

const TERMINALS: Lends = Lends { reads_files: false, writes_files: false, runs_commands: true };

fn command(stdin: &[u8]) -> Spawn {
    Spawn {
        argv: vec!["bash".to_owned(), "-c".to_owned(), "make".to_owned()],
        cwd: PathBuf::from("/top"),
        env: vec![("TERM".to_owned(), Some("dumb".to_owned())), ("KEY".to_owned(), None)],
        stdin: stdin.to_vec(),
    }
}

async fn start(stand: &Stand) -> (Box<dyn Process>, mpsc::Receiver<Output>) {
    let (sender, pieces) = mpsc::channel(4);
    let process = stand.workspace.spawn(command(b""), sender).await;
    (process.unwrap_or_else(|error| panic!("{error}")), pieces)
}

fn text(piece: Option<Output>) -> Option<Bytes> {
    piece.map(|piece| match piece {
        Output::Stdout(bytes) | Output::Stderr(bytes) => bytes,
    })
}

#[tokio::test(start_paused = true)]
async fn output_comes_as_it_is_shown_and_the_end_is_true() {
    let stand = Stand::new(TERMINALS);
    let (mut process, mut pieces) = start(&stand).await;
    let commands = stand.client.commands.lock().unwrap().clone();
    assert_eq!(commands[0].argv, ["bash", "-c", "make"]);
    assert_eq!(commands[0].env, [("TERM".to_owned(), "dumb".to_owned())]);
    let screen = &stand.client.screen;
    screen.shows("one\n");
    assert_eq!(text(pieces.recv().await).unwrap(), "one\n");
    screen.shows("one\ntwo\n");
    assert_eq!(text(pieces.recv().await).unwrap(), "two\n");
    screen.shows("one\ntwo\nlast");
    screen.ends(Ok(ExitStatus::Code(3)));
    let exit = process.wait().await.unwrap();
    assert_eq!((exit.status, exit.killed), (ExitStatus::Code(3), false));
    assert_eq!(text(pieces.recv().await).unwrap(), "last");
    assert!(pieces.recv().await.is_none());
    assert_eq!(*screen.calls.lock().unwrap(), ["release"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_command_also_while_nobody_takes_its_output() {
    let stand = Stand::new(TERMINALS);
    let (mut process, mut pieces) = start(&stand).await;
    // More than the queue holds, of which nothing is taken.
    stand.client.screen.shows(&"x".repeat(1 << 20));
    tokio::time::sleep(Duration::from_secs(5)).await;
    process.kill(Duration::ZERO);
    let taking = async {
        let mut bytes = 0;
        while let Some(piece) = text(pieces.recv().await) {
            bytes += piece.len();
        }
        bytes
    };
    let (exit, bytes) = tokio::join!(process.wait(), taking);
    let exit = exit.unwrap();
    assert_eq!((exit.status, exit.killed), (ExitStatus::Signal(9), true));
    assert_eq!(bytes, 1 << 20, "nothing of the output is lost");
    assert_eq!(*stand.client.screen.calls.lock().unwrap(), ["kill", "release"]);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_dropped_is_ended_and_its_terminal_given_back() {
    let stand = Stand::new(TERMINALS);
    let (process, pieces) = start(&stand).await;
    drop((process, pieces));
    let screen = &stand.client.screen;
    while screen.calls.lock().unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(*screen.calls.lock().unwrap(), ["kill", "release"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_went_away_is_an_error_and_no_end() {
    let stand = Stand::new(TERMINALS);
    let (mut process, _pieces) = start(&stand).await;
    stand.client.screen.ends(Err(LendError::Gone));
    let error = process.wait().await.unwrap_err().to_string();
    assert!(error.contains("does not answer"), "{error}");
}

#[tokio::test]
async fn what_no_terminal_takes_and_what_is_not_lent_runs_here() {
    let (sender, _pieces) = mpsc::channel(4);
    let stand = Stand::new(TERMINALS);
    stand.workspace.spawn(command(b"input"), sender.clone()).await.unwrap_err();
    assert_eq!(stand.disk.started.lock().unwrap().len(), 1);
    let stand = Stand::new(Lends { reads_files: true, ..Lends::default() });
    stand.workspace.spawn(command(b""), sender.clone()).await.unwrap_err();
    assert_eq!(stand.disk.started.lock().unwrap().len(), 1);
    for (refusal, is_missing) in
        [(LendError::NotFound("bash".to_owned()), true), (LendError::Gone, false)]
    {
        let stand = Stand::new(TERMINALS);
        stand.refuses(refusal);
        let error = stand.workspace.spawn(command(b""), sender.clone()).await.unwrap_err();
        assert_eq!(matches!(error, WorkspaceError::NotFound(_)), is_missing, "{error}");
        assert!(stand.disk.started.lock().unwrap().is_empty(), "a no is not worked around");
    }
}
