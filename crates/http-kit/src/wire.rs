//! One TCP connection: dead peers are found, and peers that take nothing are cut.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::connection::Pulse;

/// Bytes that the system may hold for a peer that does not read. Left alone it takes megabytes
/// per viewer; this is enough for a fast link, and what is beyond waits at its source.
const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// Bytes that may wait in the system unsent. Without this limit a socket counts as full until the
/// peer has taken a third of the buffer above, and a reader that is narrow and steady would look
/// like one that takes nothing.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 16 * 1024;

/// Bytes that are handed to the system at a time: what a peer takes within the time for a stall is
/// noticed once it is more than this.
const PIECE_BYTES_MAX: usize = 8 * 1024;

/// How many probes a silent peer may leave unanswered; with `stall_max` they share one time.
const PROBES_MAX: u32 = 3;

/// A stream that fails with `TimedOut` once its peer has taken no byte for `stall_max`.
pub(crate) struct Wire {
    stream: TcpStream,
    stall_max: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Whether the system looks for dead peers; while something waits for room we do.
    is_watched: bool,
    pulse: Arc<Pulse>,
}

impl Wire {
    /// Sets the connection up. What the system refuses to set is a limit less, not a failure.
    pub(crate) fn new(stream: TcpStream, stall_max: Duration, pulse: Arc<Pulse>) -> Self {
        if let Err(error) = set_up(&stream, stall_max) {
            tracing::debug!(%error, "a connection kept the system's settings");
        }
        Self { stream, stall_max, stalled: None, is_watched: true, pulse }
    }

    /// Lets the system cut a peer that acknowledges nothing for `stall_max`, or not. It would also
    /// cut one that acknowledges and whose window, however often it opens, is never as wide as the
    /// next packet: a narrow reader of much.
    fn let_system_watch(&mut self, is_watched: bool) {
        if self.is_watched == is_watched {
            return;
        }
        self.is_watched = is_watched;
        #[cfg(target_os = "linux")]
        {
            let limit = is_watched.then_some(self.stall_max);
            if let Err(error) = SockRef::from(&self.stream).set_tcp_user_timeout(limit) {
                tracing::debug!(%error, "a connection kept the system's settings");
            }
        }
    }

    /// The end of what we say.
    pub(crate) fn end_writing(&self) -> io::Result<()> {
        SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write)
    }

    /// Waits until the system takes more. It would take more than it should where it can fill up
    /// its newest packet, so it is asked before each piece.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            let asked = self.stream.try_io(Interest::WRITABLE, || {
                let mut asked = [PollFd::new(&self.stream, PollFlags::OUT)];
                let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
                // A socket that failed answers as well: the write says how.
                match poll(&mut asked, Some(&at_once))? {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                }
            });
            match asked {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return Poll::Ready(other),
            }
        }
    }

    /// Writes a piece as soon as there is room.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let written = loop {
            match self.poll_room(cx) {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
            match write(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => break Poll::Ready(written),
            }
        };
        self.watch(cx, written)
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            self.pulse.wrote();
            return done;
        }
        self.let_system_watch(false);
        let stall_max = self.stall_max;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall_max)));
        ready!(stalled.as_mut().poll(cx));
        let message = "the peer takes nothing of what waits for it";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

/// A peer that vanished without a word is found after `stall_max`: by what it does not
/// acknowledge, or by probes when nothing is on its way.
fn set_up(stream: &TcpStream, stall_max: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    // The system counts these in whole seconds.
    let every = (stall_max / PROBES_MAX).max(Duration::from_secs(1));
    let probes = TcpKeepalive::new().with_time(every).with_interval(every);
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
        socket.set_tcp_keepalive(&probes.with_retries(PROBES_MAX))?;
        socket.set_tcp_user_timeout(Some(stall_max))
    }
    #[cfg(not(target_os = "linux"))]
    socket.set_tcp_keepalive(&probes)
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.pulse.heard();
        }
        done
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let piece = bytes.get(..PIECE_BYTES_MAX).unwrap_or(bytes);
        self.poll_piece(cx, |stream| stream.try_write(piece))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let whole = whole_pieces(pieces);
        if !whole.is_empty() {
            return self.poll_piece(cx, |stream| stream.try_write_vectored(whole));
        }
        let first = pieces.iter().find(|piece| !piece.is_empty());
        self.poll_write(cx, first.map_or(&[], |piece| piece))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Everything is with the system now.
        self.let_system_watch(true);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Returns the pieces from the first with something in it on that make one piece together; none
/// where the first alone is too large.
fn whole_pieces<'a, 'b>(pieces: &'a [io::IoSlice<'b>]) -> &'a [io::IoSlice<'b>] {
    let first = pieces.iter().position(|piece| !piece.is_empty()).unwrap_or(pieces.len());
    let pieces = pieces.get(first..).unwrap_or_default();
    let mut bytes = 0;
    let fits = |piece: &&io::IoSlice<'_>| {
        bytes += piece.len();
        bytes <= PIECE_BYTES_MAX
    };
    let count = pieces.iter().take_while(fits).count();
    pieces.get(..count).unwrap_or_default()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use socket2::SockRef;
    use tokio::net::{TcpListener, TcpStream};

    use super::{PIECE_BYTES_MAX, UNSENT_BYTES_MAX, set_up, whole_pieces};

    #[test]
    fn what_is_written_at_once_is_one_piece_and_never_nothing() {
        let sizes = |all: &[usize]| {
            let bytes: Vec<Vec<u8>> = all.iter().map(|size| vec![0; *size]).collect();
            let slices: Vec<_> = bytes.iter().map(|bytes| std::io::IoSlice::new(bytes)).collect();
            whole_pieces(&slices).iter().map(|piece| piece.len()).collect::<Vec<_>>()
        };
        let most = PIECE_BYTES_MAX;
        assert_eq!(sizes(&[0, 10, most - 10, 1]), [10, most - 10]);
        assert_eq!(sizes(&[0, 0, most + 1, 3]), [] as [usize; 0]);
        assert_eq!(sizes(&[0, 0]), [] as [usize; 0]);
    }

    #[tokio::test]
    async fn the_system_finds_a_dead_peer_within_the_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        set_up(&stream, Duration::from_secs(45)).unwrap();
        let socket = SockRef::from(&stream);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(45)));
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(15));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(15));
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), UNSENT_BYTES_MAX);
        assert!(stream.nodelay().unwrap() && socket.keepalive().unwrap());
    }
}
