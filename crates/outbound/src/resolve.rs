//! Names to addresses, and addresses to connections: what tests replace.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// How many lookups may be on their way where nothing else is said: each holds a thread, and a dead
/// name server holds it for half a minute.
const LOOKUPS_MAX: usize = 32;

/// How many addresses are tried of those that a name has: more are not reached in time anyway.
const ATTEMPTS_MAX: usize = 8;

/// How long one address is tried alone before the next joins in (RFC 8305 says 250 ms).
const ATTEMPT_LEAD: Duration = Duration::from_millis(250);

/// Turns a name into addresses.
#[async_trait]
pub trait Resolve: Send + Sync + std::fmt::Debug {
    /// Returns all addresses of a name, which is in lower case and without a dot at its end.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Connects to an address that has been checked.
#[async_trait]
pub trait Dial: Send + Sync + std::fmt::Debug {
    /// Opens a connection to exactly this address.
    async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// The resolver of the system.
///
/// It is the one that knows the hosts file, the name service switch and the split names of a
/// company's network, so that a name means here what it means to every other program of the user.
/// A resolver of our own would ask the name servers alone, and would bring a few dozen crates.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    /// Places for lookups: those of each circle that this one belongs to, the smallest first.
    places: Vec<Arc<Semaphore>>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new(LOOKUPS_MAX)
    }
}

impl SystemResolver {
    /// Makes one that has at most so many lookups on their way, each of which holds a thread of the
    /// process; more wait.
    #[must_use]
    pub fn new(lookups_max: usize) -> Self {
        Self { places: vec![Arc::new(Semaphore::new(lookups_max))] }
    }

    /// Makes one whose lookups count to those of this one, and of which at most so many do: one who
    /// asks for names that nobody answers keeps the others waiting no longer than that.
    #[must_use]
    pub fn share(&self, lookups_max: usize) -> Self {
        let own = Arc::new(Semaphore::new(lookups_max));
        Self { places: std::iter::once(own).chain(self.places.iter().cloned()).collect() }
    }

    /// Does something that holds a thread, when there is a place for it.
    async fn in_place<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let mut permits = Vec::with_capacity(self.places.len());
        for places in &self.places {
            let permit = Arc::clone(places).acquire_owned().await;
            permits.push(permit.map_err(io::Error::other)?);
        }
        let looking = tokio::task::spawn_blocking(move || {
            // The thread goes on when nobody waits any more, and keeps its places until it ends.
            let _permits = permits;
            look()
        });
        looking.await.map_err(io::Error::other)?
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let name = name.to_owned();
        self.in_place(move || {
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
        .await
    }
}

/// Plain TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpDial;

#[async_trait]
impl Dial for TcpDial {
    async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Connects to the first address that answers, and tells which one that is. The next one joins in
/// when one fails or is slow.
pub(crate) async fn connect_first(
    dial: &dyn Dial,
    addresses: &[SocketAddr],
) -> io::Result<(TcpStream, SocketAddr)> {
    let mut waiting = interleaved(addresses).into_iter().take(ATTEMPTS_MAX);
    let mut attempts = FuturesUnordered::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "no address to connect to");
    loop {
        match waiting.next() {
            Some(address) => attempts.push(async move { (dial.dial(address).await, address) }),
            None if attempts.is_empty() => return Err(failure),
            None => {}
        }
        let is_last = waiting.len() == 0;
        let ended = tokio::select! {
            ended = attempts.next() => ended,
            () = tokio::time::sleep(ATTEMPT_LEAD), if !is_last => None,
        };
        match ended {
            Some((Ok(stream), address)) => return Ok((stream, address)),
            Some((Err(error), _)) => failure = error,
            None => {}
        }
    }
}

/// Keeps the order of the system but takes turns between the two families: where one of them
/// leads nowhere, the other comes soon.
fn interleaved(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let leads = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (Vec<_>, Vec<_>) =
        addresses.iter().copied().partition(|address| address.is_ipv6() == leads);
    first.reverse();
    second.reverse();
    let mut ordered = Vec::with_capacity(addresses.len());
    while !first.is_empty() || !second.is_empty() {
        ordered.extend(first.pop());
        ordered.extend(second.pop());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    /// Looks for something until it is let go of, and counts itself meanwhile.
    async fn stuck(resolver: SystemResolver, count: Arc<AtomicUsize>, go: Arc<AtomicBool>) {
        let look = move || {
            count.fetch_add(1, Ordering::SeqCst);
            while !go.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        };
        resolver.in_place(look).await.unwrap();
    }

    async fn reach(count: &AtomicUsize, expected: usize) {
        let reached = async {
            while count.load(Ordering::SeqCst) < expected {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), reached).await.expect("it never got there");
    }

    #[tokio::test]
    async fn names_that_nobody_answers_hold_few_threads_of_one_and_not_all_of_all() {
        let all = SystemResolver::new(3);
        let (greedy, other) = (all.share(2), all.share(2));
        let (first, second, go) = (Arc::default(), Arc::default(), Arc::default());
        let begin =
            |tasks: &mut JoinSet<()>, resolver: &SystemResolver, count: &Arc<AtomicUsize>| {
                tasks.spawn(stuck(resolver.clone(), Arc::clone(count), Arc::clone(&go)));
            };
        let mut given_up = JoinSet::new();
        (0..8).for_each(|_| begin(&mut given_up, &greedy, &first));
        reach(&first, 2).await;
        // Whoever waits for them has gone; the threads go on, and keep their places.
        drop(given_up);
        let mut waiting = JoinSet::new();
        (0..2).for_each(|_| begin(&mut waiting, &greedy, &first));
        (0..2).for_each(|_| begin(&mut waiting, &other, &second));
        reach(&second, 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!((first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)), (2, 1));
        go.store(true, Ordering::SeqCst);
        waiting.join_all().await;
        assert_eq!((first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)), (4, 2));
    }

    #[test]
    fn families_take_turns() {
        let parse = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let mixed = parse(&["[2600::1]:1", "[2600::2]:1", "[2600::3]:1", "1.1.1.1:1", "1.1.1.2:1"]);
        let expected =
            parse(&["[2600::1]:1", "1.1.1.1:1", "[2600::2]:1", "1.1.1.2:1", "[2600::3]:1"]);
        assert_eq!(interleaved(&mixed), expected);
        assert_eq!(interleaved(&[]), Vec::new());
    }
}
