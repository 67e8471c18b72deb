//! Streams whose bytes are noticed, so that those that stand still can be ended.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// When a byte last moved on any of the streams that belong together.
#[derive(Debug)]
pub(crate) struct Pulse(Mutex<Instant>);

impl Pulse {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing has moved for so long.
    pub(crate) async fn quiet(&self, limit: Duration) {
        loop {
            let due = self.last() + limit;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}

/// A stream that tells a pulse of its bytes.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    inner: S,
    pulse: Arc<Pulse>,
}

impl<S> Wire<S> {
    pub(crate) fn new(inner: S, pulse: &Arc<Pulse>) -> Self {
        Self { inner, pulse: Arc::clone(pulse) }
    }

    fn moved(&self, bytes: usize) {
        if bytes > 0 {
            self.pulse.beat();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.moved(buffer.filled().len() - before);
        done
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.moved(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, pieces))?;
        self.moved(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A stream of which some bytes were read before.
#[derive(Debug)]
pub(crate) struct Reread<S> {
    before: io::Cursor<Vec<u8>>,
    inner: S,
}

impl<S> Reread<S> {
    pub(crate) fn new(before: Vec<u8>, inner: S) -> Self {
        Self { before: io::Cursor::new(before), inner }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Reread<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.before).poll_read(cx, buffer))?;
        if buffer.filled().len() > before || buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Reread<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn quiet_is_counted_from_the_last_byte() {
        let began = Instant::now();
        let pulse = Arc::new(Pulse::new());
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut ours = Wire::new(ours, &pulse);
        let talking = async {
            tokio::time::sleep(Duration::from_secs(40)).await;
            ours.write_all(b"x").await.unwrap();
            tokio::time::sleep(Duration::from_secs(40)).await;
            theirs.write_all(b"y").await.unwrap();
            ours.read_u8().await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = talking => {}
            () = pulse.quiet(Duration::from_secs(60)) => {}
        }
        assert_eq!(began.elapsed().as_secs(), 140);
    }

    #[tokio::test]
    async fn what_was_read_before_comes_first() {
        let mut stream = Reread::new(b"ab".to_vec(), &b"cd"[..]);
        assert_eq!(stream.read_u8().await.unwrap(), b'a');
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "bcd");
    }
}
