//! What is written.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::peer::Shared;

/// How long what still waits is written once the connection is closed here.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The writing half of a connection.
pub struct Outbox<W> {
    writer: BufWriter<W>,
    waiting: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    pub(crate) fn new(writer: W, waiting: mpsc::Receiver<Vec<u8>>, shared: Arc<Shared>) -> Self {
        Self { writer: BufWriter::new(writer), waiting, shared }
    }

    /// Writes until the connection is closed here, or the other side reads no more.
    pub async fn run(mut self) {
        let closing = self.shared.closing.clone();
        let written = tokio::select! {
            written = self.write() => written,
            () = closing.cancelled() => {
                self.waiting.close();
                match timeout(LAST_WORDS, self.write()).await {
                    Ok(written) => written,
                    Err(_) => Err(io::ErrorKind::TimedOut.into()),
                }
            }
        };
        if let Err(error) = written {
            tracing::debug!(%error, "write to the connection");
        }
        self.shared.hang_up();
        drop(self.writer.shutdown().await);
    }

    async fn write(&mut self) -> io::Result<()> {
        // What a cut write left is in the buffer.
        self.writer.flush().await?;
        while let Some(line) = self.waiting.recv().await {
            self.writer.write_all(&line).await?;
            // Several in one write, as long as there are some.
            while let Ok(line) = self.waiting.try_recv() {
                self.writer.write_all(&line).await?;
            }
            self.writer.flush().await?;
        }
        Ok(())
    }
}

impl<W> fmt::Debug for Outbox<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}
