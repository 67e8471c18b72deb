//! A stream of events of a server, with a limit for each.

use futures_util::{Stream, StreamExt as _, stream};
use outbound::Response;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

/// Largest event: a protocol line's limit.
pub(super) const EVENT_BYTES_MAX: usize = 16 << 20;

/// An event is over its limit.
#[derive(Debug, thiserror::Error)]
#[error("an event has more than the limit of {}", stdx::bytes(*.0 as u64))]
struct TooLong(usize);

/// Why bytes end.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error(transparent)]
    TooLong(#[from] TooLong),
    #[error(transparent)]
    Outbound(#[from] outbound::Error),
}

/// Reads the events of an answer. The decoder keeps what an event has so far, so that the bytes
/// are counted before they reach it.
pub(super) fn stream(
    response: Response,
    event_bytes_max: usize,
) -> impl Stream<Item = Result<Sse, SseError>> + Send {
    let start = (Some(response), Measure::new(event_bytes_max));
    let bytes = stream::unfold(start, async |(response, mut measure)| {
        let mut response = response?;
        match response.chunk().await {
            Ok(None) => None,
            Ok(Some(bytes)) => match measure.take(&bytes) {
                Ok(()) => Some((Ok(bytes), (Some(response), measure))),
                Err(error) => Some((Err(Cut::from(error)), (None, measure))),
            },
            Err(error) => Some((Err(Cut::from(error)), (None, measure))),
        }
    });
    SseStream::from_bytes_stream(bytes.boxed())
}

/// Counts the bytes since the last blank line.
#[derive(Debug)]
struct Measure {
    bytes_max: usize,
    event_bytes: usize,
    /// Whether nothing came since the last line end.
    is_line_start: bool,
}

impl Measure {
    fn new(bytes_max: usize) -> Self {
        Self { bytes_max, event_bytes: 0, is_line_start: true }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        for byte in bytes {
            match byte {
                b'\n' if self.is_line_start => self.event_bytes = 0,
                b'\n' => self.is_line_start = true,
                // Before a line feed it belongs to the line end.
                b'\r' => {}
                _ => self.is_line_start = false,
            }
            self.event_bytes += 1;
            if self.event_bytes > self.bytes_max {
                return Err(TooLong(self.bytes_max));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_begin_the_count_anew() {
        for (text, expected) in [
            ("data: 1\n\ndata: 2\n\n", true),
            ("data: 1\r\n\r\ndata: 2\r\n\r\n", true),
            ("data: 12345\n\n", false),
            ("data: 1\ndata: 2\n\n", false),
        ] {
            assert_eq!(Measure::new(11).take(text.as_bytes()).is_ok(), expected, "{text}");
        }
    }
}
