//! A place in an answer where the server waits for the test.

use std::sync::Arc;

use tokio::sync::watch;

/// Where in an answer something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Before the first byte, status line included.
    Start,
    /// After the status line and the events that open the stream.
    Head,
    /// After the first piece of text.
    Text,
    /// Before the first tool call.
    Calls,
    /// Before the events that end the stream.
    End,
}

/// Holds an answer back until the test opens it. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    reached: Arc<watch::Sender<bool>>,
    open: Arc<watch::Sender<bool>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            reached: Arc::new(watch::Sender::new(false)),
            open: Arc::new(watch::Sender::new(false)),
        }
    }
}

impl Gate {
    /// Makes a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until an answer stands at the gate. The test owns the time limit.
    pub async fn reached(&self) {
        hold(&self.reached).await;
    }

    /// Tells whether an answer has come to the gate.
    pub fn is_reached(&self) -> bool {
        *self.reached.borrow()
    }

    /// Lets this answer and all later ones pass.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Reports the arrival of an answer and waits until the gate is open.
    pub(super) async fn pass(&self) {
        self.reached.send_replace(true);
        hold(&self.open).await;
    }
}

async fn hold(flag: &watch::Sender<bool>) {
    // The sender lives as long as this borrow, so that the wait cannot fail.
    let _ = flag.subscribe().wait_for(|value| *value).await.is_ok();
}
