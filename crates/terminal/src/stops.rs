//! Stops: Ctrl-C and the like, as a stream that a test can drive.

use std::future::Future;

use tokio::sync::mpsc;

use crate::exit::Failure;

/// How many stops may wait. More than two mean nothing more than two.
pub const STOPS_WAITING: usize = 4;

/// What a person or the system wants to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// What runs now (SIGINT).
    Interrupt,
    /// The program (SIGTERM, SIGHUP).
    Terminate,
}

/// The receiving end. `app` sends into it what the operating system signals.
#[derive(Debug)]
pub struct Stops(mpsc::Receiver<Stop>);

impl Stops {
    /// Makes both ends.
    pub fn channel() -> (mpsc::Sender<Stop>, Self) {
        let (sender, receiver) = mpsc::channel(STOPS_WAITING);
        (sender, Self(receiver))
    }

    /// Waits for the next stop; for ever when nobody can send one. Cancel-safe.
    pub async fn next(&mut self) -> Stop {
        match self.0.recv().await {
            Some(stop) => stop,
            None => std::future::pending().await,
        }
    }

    /// Runs work that a stop ends at once.
    pub async fn guard<T, E: Into<Failure>>(
        &mut self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            _ = self.next() => Err(Failure::stopped()),
            done = work => done.map_err(Into::into),
        }
    }
}
