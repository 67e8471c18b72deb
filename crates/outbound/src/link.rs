//! A checked connection with nothing on it: for whoever hands on what others say.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::error::{Error, root};
use crate::guard::Guard;
use crate::resolve::{Dial, Resolve, connect_first};

/// A connection, and the address that it was made to.
#[derive(Debug)]
pub struct Link {
    /// The connection.
    pub stream: TcpStream,
    /// The address that was checked and dialled.
    pub address: SocketAddr,
}

/// Connects to a host, given as in a url, and a port. All addresses of the host are checked, and
/// one of those is dialled. There is no limit of time but the caller's.
///
/// # Errors
/// As [`Guard::addresses`], and [`Error::Connect`].
pub async fn connect(
    (host, port): (&str, u16),
    guard: &Guard,
    resolver: &dyn Resolve,
    dial: &dyn Dial,
) -> Result<Link, Error> {
    let addresses = guard.addresses(host, port, resolver).await?;
    let dialled = connect_first(dial, &addresses).await;
    let (stream, address) = dialled.map_err(|error| Error::Connect {
        place: format!("{host}:{port}"),
        reason: root(&error),
    })?;
    Ok(Link { stream, address })
}
