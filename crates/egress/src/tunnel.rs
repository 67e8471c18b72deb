//! Tunnels: bytes that pass through, and TLS that ends here.

use std::sync::Arc;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::audit::Seen;
use crate::exchange::Next;
use crate::hello;
use crate::proxy::{Link, Proxy};
use crate::refusal::Refusal;
use crate::target::Target;
use crate::wire::{Pulse, Reread};

/// Bytes that a tunnel holds for each direction.
const BUFFER_BYTES: usize = 16 << 10;

/// The inside of a tunnel whose TLS ends here.
pub(crate) type Inner = TlsStream<Reread<TokioIo<Upgraded>>>;

/// Goes on with a connection whose requests are over. Returns the inside of a tunnel whose TLS
/// ends here, and the place that it is for.
pub(crate) async fn run(
    proxy: &Arc<Proxy>,
    pulse: &Arc<Pulse>,
    next: Next,
) -> Option<(Target, Inner)> {
    match next {
        Next::Through { target, client, server, seen } => {
            through(proxy, pulse, (target, *server, seen), client).await;
            None
        }
        Next::Inside { target, client, seen } => inside(proxy, (target, seen), client).await,
        Next::Joined { client, server, connection } => {
            let limit = proxy.options.limits.silence_max;
            let both = async { tokio::try_join!(client, server) };
            if let Ok(Ok((client, server))) = timeout(limit, both).await {
                splice(proxy, pulse, TokioIo::new(client), TokioIo::new(server)).await;
            }
            drop(connection);
            None
        }
    }
}

async fn through(
    proxy: &Proxy,
    pulse: &Pulse,
    (target, mut server, seen): (Target, Link, Seen),
    client: OnUpgrade,
) {
    let Ok(client) = client.await else { return };
    let mut client = TokioIo::new(client);
    let hello = match hello::expect(&mut client, &target, proxy.options.limits.hello_max).await {
        Ok(hello) => hello,
        Err(unfit) => {
            seen.refused(&unfit.refusal(&target));
            unfit.tell(&mut client, &target).await;
            return;
        }
    };
    seen.passed(None);
    // A server that is gone by now is noticed below: the client reads the end of its stream.
    if server.wire.write_all(&hello).await.is_ok() {
        splice(proxy, pulse, client, server.wire).await;
    }
}

async fn inside(
    proxy: &Proxy,
    (target, seen): (Target, Seen),
    client: OnUpgrade,
) -> Option<(Target, Inner)> {
    let limit = proxy.options.limits.hello_max;
    let mut client = TokioIo::new(client.await.ok()?);
    let hello = match hello::expect(&mut client, &target, limit).await {
        Ok(hello) => hello,
        Err(unfit) => {
            seen.refused(&unfit.refusal(&target));
            unfit.tell(&mut client, &target).await;
            return None;
        }
    };
    let now = proxy.options.clock.now();
    let authority = proxy.authority.as_ref()?;
    let config = match authority.config(&target.place, now) {
        Ok(config) => config,
        Err(reason) => {
            let reason = format!("no certificate for {target} could be made: {reason}");
            seen.refused(&Refusal::upstream(reason));
            return None;
        }
    };
    let accepting = TlsAcceptor::from(config).accept(Reread::new(hello, client));
    let refusal = match timeout(limit, accepting).await {
        Ok(Ok(inner)) => {
            seen.left_to_others();
            return Some((target, inner));
        }
        Ok(Err(error)) => Refusal::forbidden(format!(
            "the client broke off the TLS to {target}, which ends at the proxy; it has to trust \
             the certificate of the neuron and to speak HTTP/1.1: {error}"
        )),
        Err(_) => Refusal::forbidden(format!("the TLS to {target} did not come about in time")),
    };
    seen.refused(&refusal);
    None
}

/// Moves bytes both ways until both sides have ended, one has failed, or nothing moves any more.
/// The end of one direction is handed on and leaves the other one open.
async fn splice<C, S>(proxy: &Proxy, pulse: &Pulse, mut client: C, mut server: S)
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let moving =
        copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER_BYTES, BUFFER_BYTES);
    tokio::select! {
        moved = moving => if let Err(error) = moved {
            tracing::debug!(%error, "a tunnel of a neuron broke");
        },
        () = pulse.quiet(proxy.options.limits.silence_max) => {}
    }
}
