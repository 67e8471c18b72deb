//! A running command: the task that follows it, and the handle that others hold.

use std::time::Duration;

use ::agent::wire::{self, FRAME_COST, Request, Step, WINDOW};
use async_trait::async_trait;
use driver_api::{Exit, ExitStatus, Fault, Output, Process, WorkspaceError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::link::{Event, Requests};

/// The time between SIGTERM and SIGKILL for a command that nobody waits for any more.
const DROP_GRACE: Duration = Duration::from_millis(200);

/// From how much taken output on the agent is told. Rarely enough to cost nothing, often enough
/// that the window never runs dry in between.
const CREDIT_STEP: u32 = WINDOW / 4;

/// How long a killed command's output waits for a reader that does not read. Its end must not
/// depend on somebody who has lost interest.
const KILLED_STALL: Duration = Duration::from_secs(1);

/// How long the agent may take to take a request: it reads them at once.
const SEND_TIME: Duration = Duration::from_secs(30);

/// How long after the grace of a kill the agent may take to say that the command has ended. It
/// repeats SIGKILL for five seconds, and waits as long for who minds the command; a machine that
/// swaps may need more.
const END_TIME: Duration = Duration::from_secs(20);

/// How a command ended.
#[derive(Clone, Debug)]
enum End {
    Exit(Exit),
    Fault(String),
}

/// The handle of a running command.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    /// The grace of a kill that was asked for. Dropping it asks as well.
    asked: watch::Sender<Option<Duration>>,
    end: watch::Receiver<Option<End>>,
}

#[async_trait]
impl Process for AgentProcess {
    async fn wait(&mut self) -> Result<Exit, WorkspaceError> {
        let end = self.end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        match end {
            Some(End::Exit(exit)) => Ok(exit),
            Some(End::Fault(text)) => Err(Fault::new(text).into()),
            None => Err(Fault::new("the task that follows the command is gone").into()),
        }
    }

    fn kill(&self, grace: Duration) {
        self.asked.send_if_modified(|asked| {
            let is_sooner = asked.is_none_or(|earlier| grace < earlier);
            if is_sooner {
                *asked = Some(grace);
            }
            is_sooner
        });
    }
}

/// The task that follows a command: hands on its output, and kills and credit the other way.
#[derive(Debug)]
pub(crate) struct Pump {
    id: u32,
    requests: Requests,
    /// Cancelled where the agent does not answer.
    silent: CancellationToken,
    events: mpsc::Receiver<Event>,
    /// Absent once nobody reads.
    output: Option<mpsc::Sender<Output>>,
    asked: watch::Receiver<Option<Duration>>,
    /// Whether the handle lives, so that more can be asked.
    is_held: bool,
    is_killed: bool,
    /// When a command that is being killed must be over.
    due: Option<Instant>,
    /// What was taken and not told yet.
    taken: u32,
    end: watch::Sender<Option<End>>,
}

impl Pump {
    pub(crate) fn new(
        id: u32,
        (requests, silent): (Requests, CancellationToken),
        events: mpsc::Receiver<Event>,
        output: mpsc::Sender<Output>,
    ) -> (Self, AgentProcess) {
        let (ask, asked) = watch::channel(None);
        let (end, ended) = watch::channel(None);
        let pump = Self {
            id,
            requests,
            silent,
            events,
            output: Some(output),
            asked,
            is_held: true,
            is_killed: false,
            due: None,
            taken: 0,
            end,
        };
        (pump, AgentProcess { asked: ask, end: ended })
    }

    /// Sends the request and follows the command to its end.
    pub(crate) async fn run(
        mut self,
        spawn: Vec<u8>,
        started: oneshot::Sender<Result<(), (Step, i32)>>,
    ) {
        self.send(spawn).await;
        let mut started = Some(started);
        let end = loop {
            tokio::select! {
                biased;
                changed = self.asked.changed(), if self.is_held => {
                    self.pass_kill(changed.is_ok()).await;
                }
                event = self.events.recv() => match event {
                    Some(Event::Started) => {
                        // A spawn that was given up has dropped the handle too.
                        let _heard = started.take().map(|started| started.send(Ok(())));
                    }
                    Some(Event::Failed(step, errno)) => {
                        let _heard = started.take().map(|started| started.send(Err((step, errno))));
                        break End::Fault("the command was never started".to_owned());
                    }
                    Some(Event::Output(piece)) => self.deliver(piece).await,
                    Some(Event::Ended(ended)) => break end_of(ended),
                    Some(Event::Lost) => {
                        let text = "the process that minded the command died; its tree was ended";
                        break End::Fault(text.to_owned());
                    }
                    None => break End::Fault("agent died while the command ran".to_owned()),
                },
                () = reached(self.due) => {
                    // Somebody stopped it, or who minds the command.
                    self.silent.cancel();
                    let text = "agent did not say in time that the killed command had ended";
                    break End::Fault(text.to_owned());
                }
            }
        };
        self.end.send_replace(Some(end));
    }

    async fn pass_kill(&mut self, is_held: bool) {
        self.is_held = is_held;
        let grace = match *self.asked.borrow_and_update() {
            Some(grace) if is_held => grace,
            Some(grace) => grace.min(DROP_GRACE),
            None => DROP_GRACE,
        };
        self.is_killed = true;
        let due = Instant::now() + grace + END_TIME;
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        self.ask(&Request::Kill { grace_ms }).await;
    }

    async fn ask(&self, request: &Request) {
        let mut frame = Vec::new();
        let encoded = request.encode(self.id, &mut frame);
        debug_assert!(encoded.is_ok(), "these frames have four bytes");
        self.send(frame).await;
    }

    /// Hands a request over. Where the agent is dead, the queue of events ends, here and at any
    /// later time.
    async fn send(&self, frame: Vec<u8>) {
        if tokio::time::timeout(SEND_TIME, self.requests.send(frame)).await.is_err() {
            self.silent.cancel();
        }
    }

    /// Hands a piece to the reader and waits until there is room, which makes the command wait.
    async fn deliver(&mut self, piece: Output) {
        let len = match &piece {
            Output::Stdout(bytes) | Output::Stderr(bytes) => bytes.len(),
        };
        while let Some(output) = self.output.clone() {
            tokio::select! {
                biased;
                changed = self.asked.changed(), if self.is_held => {
                    self.pass_kill(changed.is_ok()).await;
                }
                room = output.reserve() => {
                    match room {
                        Ok(room) => {
                            room.send(piece);
                            break;
                        }
                        Err(_) => self.output = None,
                    }
                }
                () = tokio::time::sleep(KILLED_STALL), if self.is_killed => self.output = None,
            }
        }
        let cost = u32::try_from(len).unwrap_or(u32::MAX).saturating_add(FRAME_COST);
        self.taken = self.taken.saturating_add(cost);
        if self.taken >= CREDIT_STEP {
            let bytes = std::mem::take(&mut self.taken);
            self.ask(&Request::Credit { bytes }).await;
        }
    }
}

/// Waits for a time; for ever where there is none.
async fn reached(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn end_of(ended: wire::Ended) -> End {
    if ended.survivors > 0 {
        let text = format!("{} processes of the command could not be ended", ended.survivors);
        return End::Fault(text);
    }
    let status = match ended.status {
        wire::Status::Code(code) => ExitStatus::Code(code),
        wire::Status::Signal(signal) => ExitStatus::Signal(signal),
    };
    End::Exit(Exit { status, leftovers: ended.leftovers, killed: ended.killed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_kill_that_is_not_answered_ends_the_waiting_and_gives_the_agent_up() {
        let (requests, mut asked) = mpsc::channel(4);
        let (events, followed) = mpsc::channel(4);
        let (output, _pieces) = mpsc::channel(4);
        let silent = CancellationToken::new();
        let (pump, mut process) = Pump::new(7, (requests, silent.clone()), followed, output);
        let (started, is_started) = oneshot::channel();
        let running = pump.run(b"spawn".to_vec(), started);
        let ending = async {
            events.send(Event::Started).await.unwrap();
            is_started.await.unwrap().unwrap();
            let day = Duration::from_secs(24 * 60 * 60);
            assert!(tokio::time::timeout(day, process.wait()).await.is_err(), "nobody kills it");
            assert!(!silent.is_cancelled());
            process.kill(Duration::from_secs(2));
            let ended = tokio::time::timeout(Duration::from_secs(60), process.wait()).await;
            ended.expect("it is waited for without an end").unwrap_err()
        };
        let ((), error) = tokio::join!(running, ending);
        assert!(error.to_string().contains("did not say in time"), "{error}");
        assert!(silent.is_cancelled());
        assert_eq!(asked.recv().await.unwrap(), b"spawn");
        assert!(asked.recv().await.is_some(), "the kill");
        drop(events);
    }
}
