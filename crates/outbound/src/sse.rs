//! Server-sent events, decoded from bytes.
//!
//! Our own, because the crates at hand keep no limit on a line and scan an unfinished event again
//! with each piece, which makes an argument of 10 MB that comes in small pieces cost minutes.

/// Longest line and longest event, in bytes: a protocol line's limit everywhere in Narthex.
pub const LINE_BYTES_MAX: usize = 32 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `id` field, where this event has one.
    pub id: Option<String>,
    /// The `event` field; empty where the server gave none.
    pub name: String,
    /// The `data` lines, joined by line feeds.
    pub data: String,
}

/// A line or an event is over [`LINE_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// The decoder. Takes bytes in any cut; line ends may be LF, CRLF or CR.
#[derive(Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    id: Option<Vec<u8>>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    started: bool,
}

impl Decoder {
    /// Takes bytes and appends the events that they complete.
    ///
    /// # Errors
    /// [`TooLong`]; what came before is appended.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some((&first, tail)) = rest.split_first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                rest = tail;
                continue;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.extend(rest);
            };
            let (line, tail) = rest.split_at(end);
            self.extend(line)?;
            self.after_cr = tail.first() == Some(&b'\r');
            rest = tail.get(1..).unwrap_or_default();
            self.end_line(events)?;
        }
        Ok(())
    }

    /// Returns what an end of the stream leaves: the event whose blank line never came. It may
    /// be cut anywhere; whoever reads it must not take it for broken.
    pub fn rest(&mut self) -> Option<Event> {
        let mut events = Vec::new();
        self.end_line(&mut events).ok()?;
        self.dispatch(&mut events);
        events.pop()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), TooLong> {
        let taken = std::mem::take(&mut self.line);
        let mut line = taken.as_slice();
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(events);
        } else {
            self.field(line)?;
        }
        // The buffer is kept, so that a stream of short lines allocates once.
        self.line = taken;
        self.line.clear();
        Ok(())
    }

    fn field(&mut self, line: &[u8]) -> Result<(), TooLong> {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.data.len() + value.len() >= LINE_BYTES_MAX {
                    return Err(TooLong);
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = value.to_vec(),
            // The standard passes over an id with a zero byte in it.
            b"id" if !value.contains(&0) => self.id = Some(value.to_vec()),
            // Comments (keep-alives) and retry times mean nothing here.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, events: &mut Vec<Event>) {
        let id = self.id.take();
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            events.push(Event { id: id.map(text), name: text(name), data: text(data) });
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<Event> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            decoder.push(piece, &mut events).unwrap();
        }
        events
    }

    fn event(name: &str, data: &str) -> Event {
        Event { id: None, name: name.into(), data: data.into() }
    }

    #[test]
    fn line_ends_comments_and_joined_data() {
        let stream = "\u{feff}: keep-alive\r\nevent: a\r\ndata: 1\r\ndata:2\r\n\r\n\
                      id: 7\nretry: 5\ndata: é\n\n\
                      event: nothing\n\ndata\rdata: x\r\r";
        let seventh = Event { id: Some("7".to_owned()), ..event("", "é") };
        let expected = vec![event("a", "1\n2"), seventh, event("", "\nx")];
        assert_eq!(decode(&[stream.as_bytes()]), expected);
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(decode(&bytes), expected, "in single bytes");
    }

    #[test]
    fn what_is_left_at_the_end_can_be_had() {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        decoder.push(b"event: e\ndata: [DONE]", &mut events).unwrap();
        assert!(events.is_empty());
        assert_eq!(decoder.rest(), Some(event("e", "[DONE]")));
        assert_eq!(decoder.rest(), None);
    }

    #[test]
    fn a_line_over_the_limit_is_refused() {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        let piece = vec![b'x'; LINE_BYTES_MAX / 2 + 1];
        decoder.push(&piece, &mut events).unwrap();
        assert_eq!(decoder.push(&piece, &mut events), Err(TooLong));
    }
}
