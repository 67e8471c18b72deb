//! A queue that costs nothing before it is used.

use tokio::sync::mpsc;

/// A bounded queue that is made for its first sender: most sessions that are open do nothing.
#[derive(Debug)]
pub(super) struct Queue<T> {
    room: usize,
    ends: Option<(mpsc::Sender<T>, mpsc::Receiver<T>)>,
}

impl<T> Queue<T> {
    /// Makes a queue that holds so many.
    pub(super) const fn new(room: usize) -> Self {
        Self { room, ends: None }
    }

    /// Returns a way in.
    pub(super) fn sender(&mut self) -> mpsc::Sender<T> {
        self.ends.get_or_insert_with(|| mpsc::channel(self.room)).0.clone()
    }

    /// Waits for the next; for ever where nobody may send. Cancel-safe.
    pub(super) async fn next(&mut self) -> T {
        if let Some((_, receiver)) = &mut self.ends
            && let Some(next) = receiver.recv().await
        {
            return next;
        }
        std::future::pending().await
    }

    /// Takes the next if it is there.
    pub(super) fn take(&mut self) -> Option<T> {
        self.ends.as_mut()?.1.try_recv().ok()
    }
}
