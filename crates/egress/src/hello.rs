//! The first message of TLS: whom a client means to talk to.

use std::collections::HashSet;
use std::time::Duration;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::refusal::{Refusal, shown};
use crate::target::{Place, Target};

#[cfg(test)]
mod tests;

/// Bytes of a hello with its framing: the largest in use, with keys for quantum computers, has
/// two thousand.
const HELLO_BYTES_MAX: usize = 16 << 10;

/// Bytes of most hellos.
const HELLO_BYTES_USUAL: usize = 2 << 10;

/// Longest fragment of a record.
const FRAGMENT_BYTES_MAX: usize = 1 << 14;

/// Why a tunnel does not carry what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is not TLS. Holds the first byte.
    NotTls(u8),
    /// It is TLS, but no hello that has one reading.
    Odd(&'static str),
    /// The name is hidden.
    Hidden,
    /// It names another host, or none.
    OtherName(Option<String>),
    /// It does not end.
    TooLong,
    /// The client left.
    Ended,
    /// It did not come in time.
    Late,
}

impl Unfit {
    pub(crate) fn refusal(&self, target: &Target) -> Refusal {
        let reason = match self {
            Unfit::NotTls(_) => {
                format!("a tunnel to {target} is for TLS alone; ask for http:// without a tunnel")
            }
            Unfit::Odd(what) => format!("the TLS hello to {target} is not understood: {what}"),
            Unfit::Hidden => format!(
                "the TLS hello to {target} is encrypted (ECH): switch that off in the client"
            ),
            Unfit::OtherName(Some(name)) => {
                format!("a tunnel to {target} is not for {:?}, which its TLS names", shown(name))
            }
            Unfit::OtherName(None) => format!("the TLS to {target} names no host (SNI)"),
            Unfit::TooLong => {
                format!("the TLS hello to {target} has more than {HELLO_BYTES_MAX} bytes")
            }
            Unfit::Ended => format!("the tunnel to {target} was closed before its TLS began"),
            Unfit::Late => format!("the TLS hello to {target} did not come in time"),
        };
        Refusal::forbidden(reason)
    }

    /// Says so to the client, in the language it speaks.
    pub(crate) async fn tell<S: AsyncWrite + Unpin>(&self, stream: &mut S, target: &Target) {
        let alert = |code: u8| vec![0x15, 3, 3, 0, 2, 2, code];
        let said = match self {
            Unfit::NotTls(first) if first.is_ascii_uppercase() => {
                self.refusal(target).raw().into_bytes()
            }
            Unfit::NotTls(_) | Unfit::Ended | Unfit::Late => return,
            Unfit::Odd(_) | Unfit::TooLong => alert(DECODE_ERROR),
            Unfit::Hidden => alert(ACCESS_DENIED),
            Unfit::OtherName(_) => alert(UNRECOGNIZED_NAME),
        };
        // The client may have left; there is nobody else to tell.
        if stream.write_all(&said).await.is_ok() {
            drop(stream.shutdown().await);
        }
    }
}

const ACCESS_DENIED: u8 = 49;
const DECODE_ERROR: u8 = 50;
const UNRECOGNIZED_NAME: u8 = 112;

/// Reads a hello and checks that it is for the target. Returns all that was read.
pub(crate) async fn expect<S>(
    stream: &mut S,
    target: &Target,
    limit: Duration,
) -> Result<Vec<u8>, Unfit>
where
    S: AsyncRead + Unpin,
{
    let (bytes, name) = timeout(limit, read(stream)).await.map_err(|_| Unfit::Late)??;
    let named = name.as_deref().map(Place::parse);
    let fits = match (named, &target.place) {
        (Some(Ok(named)), Place::Name(_)) => named == target.place,
        // Addresses are not named in TLS.
        (None, Place::Address(_)) => true,
        _ => false,
    };
    if fits { Ok(bytes) } else { Err(Unfit::OtherName(name)) }
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<(Vec<u8>, Option<String>), Unfit> {
    let mut bytes = Vec::with_capacity(HELLO_BYTES_USUAL);
    loop {
        if let Some(name) = parse(&bytes)? {
            // Two readers have to agree, so that a third one behind us does, too.
            return if second_opinion(&bytes).as_ref() == Some(&name) {
                Ok((bytes, name))
            } else {
                Err(Unfit::Odd("it has more than one reading"))
            };
        }
        let room = HELLO_BYTES_MAX.saturating_sub(bytes.len());
        if room == 0 {
            return Err(Unfit::TooLong);
        }
        let mut piece = (&mut *stream).take(u64::try_from(room).unwrap_or(0));
        match piece.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return Err(Unfit::Ended),
            Ok(_) => {}
        }
    }
}

/// Reads the name out of the first records of a stream; none while there is more to come.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Option<String>>, Unfit> {
    match bytes.first() {
        None => return Ok(None),
        Some(&HANDSHAKE) => {}
        Some(&first) => return Err(Unfit::NotTls(first)),
    }
    let mut message = Vec::new();
    let mut rest = bytes;
    while let Some((&[kind, major, _, high, low], tail)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != 3 || length == 0 || length > FRAGMENT_BYTES_MAX {
            return Err(Unfit::Odd("it is not framed as a hello"));
        }
        let Some((fragment, tail)) = tail.split_at_checked(length) else { break };
        message.extend_from_slice(fragment);
        rest = tail;
        let Some((&[kind, high, middle, low], body)) = message.split_first_chunk() else {
            continue;
        };
        if kind != CLIENT_HELLO {
            return Err(Unfit::Odd("it is another message"));
        }
        let length = u32::from_be_bytes([0, high, middle, low]);
        match usize::try_from(length).map(|length| body.len().cmp(&length)) {
            Ok(std::cmp::Ordering::Less) => {}
            Ok(std::cmp::Ordering::Equal) => return name(body).map(Some),
            _ => return Err(Unfit::Odd("its record goes on behind it")),
        }
    }
    Ok(None)
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// Encrypted hellos, and the encrypted names that came before them.
const HIDING: [u16; 2] = [0xfe0d, 0xffce];

/// Reads the body of a hello.
fn name(body: &[u8]) -> Result<Option<String>, Unfit> {
    const SHORT: Unfit = Unfit::Odd("it is cut short");
    let mut body = Cursor(body);
    // Version and random number; session; ciphers; compressions.
    body.take(2 + 32).ok_or(SHORT)?;
    body.short_vector().ok_or(SHORT)?;
    body.vector().ok_or(SHORT)?;
    body.short_vector().ok_or(SHORT)?;
    if body.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = Cursor(body.vector().ok_or(SHORT)?);
    if !body.0.is_empty() {
        return Err(Unfit::Odd("something stands behind its extensions"));
    }
    let (mut name, mut seen) = (None, HashSet::new());
    while !extensions.0.is_empty() {
        let kind = extensions.number().ok_or(SHORT)?;
        let data = extensions.vector().ok_or(SHORT)?;
        if HIDING.contains(&kind) {
            return Err(Unfit::Hidden);
        }
        if !seen.insert(kind) {
            return Err(Unfit::Odd("an extension comes twice"));
        }
        if kind == SERVER_NAME {
            name = Some(only_name(data).ok_or(Unfit::Odd("it names no host, or several"))?);
        }
    }
    Ok(name)
}

fn only_name(data: &[u8]) -> Option<String> {
    let mut data = Cursor(data);
    let mut list = Cursor(data.vector()?);
    let kind = list.byte()?;
    let name = list.vector()?;
    let is_all = data.0.is_empty() && list.0.is_empty() && kind == HOST_NAME;
    (is_all && name.is_ascii()).then(|| String::from_utf8_lossy(name).to_ascii_lowercase())
}

/// What the library that speaks TLS itself reads; none where it reads nothing.
pub(crate) fn second_opinion(bytes: &[u8]) -> Option<Option<String>> {
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        acceptor.read_tls(&mut rest).ok()?;
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                return Some(accepted.client_hello().server_name().map(str::to_ascii_lowercase));
            }
            Ok(None) => {}
            Err(_) => return None,
        }
    }
    None
}

/// What is left to read.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u16> {
        let bytes = self.take(2)?.first_chunk()?;
        Some(u16::from_be_bytes(*bytes))
    }

    /// Bytes behind a length of one byte.
    fn short_vector(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(usize::from(length))
    }

    /// Bytes behind a length of two bytes.
    fn vector(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::from(length))
    }
}
