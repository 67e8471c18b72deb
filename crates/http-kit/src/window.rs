//! How many requests a client may send: a fixed window, in memory, per process.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

/// Clients that are counted at once. Each takes some hundred bytes; when more ask within one
/// window, the one that began longest ago is forgotten.
const CLIENTS_MAX: usize = 65_536;

/// A limit of requests per client and window. The window of a client begins with its first
/// request.
#[derive(Debug)]
pub struct FixedWindow {
    limit: u32,
    window: Duration,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    by_client: HashMap<IpAddr, Count>,
    /// In the order in which their windows end, since all windows are equally long.
    order: VecDeque<(Instant, IpAddr)>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    began: Instant,
    requests: u32,
}

/// What became of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Whether it is within the limit.
    pub is_within: bool,
    limit: u32,
    remaining: u32,
    reset: Duration,
    window: Duration,
}

impl FixedWindow {
    /// Makes a limit; none where `limit` is 0.
    pub fn new(limit: u32, window: Duration) -> Option<Self> {
        let counts = Mutex::default();
        (limit > 0).then_some(Self { limit, window, counts })
    }

    /// Counts a request of a client that comes now.
    pub fn count(&self, client: IpAddr, now: Instant) -> Counted {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        while counts.oldest().is_some_and(|began| now.duration_since(began) >= self.window) {
            counts.forget_oldest();
        }
        if !counts.by_client.contains_key(&client) {
            if counts.order.len() >= CLIENTS_MAX {
                counts.forget_oldest();
            }
            counts.order.push_back((now, client));
        }
        let count = counts.by_client.entry(client).or_insert(Count { began: now, requests: 0 });
        count.requests = count.requests.saturating_add(1);
        Counted {
            is_within: count.requests <= self.limit,
            limit: self.limit,
            remaining: self.limit.saturating_sub(count.requests),
            reset: self.window.saturating_sub(now.duration_since(count.began)),
            window: self.window,
        }
    }
}

impl Counts {
    fn oldest(&self) -> Option<Instant> {
        self.order.front().map(|(began, _)| *began)
    }

    fn forget_oldest(&mut self) {
        if let Some((_, client)) = self.order.pop_front() {
            self.by_client.remove(&client);
        }
    }
}

impl Counted {
    /// Seconds until the window of the client ends, at least 1.
    pub fn reset_seconds(&self) -> u64 {
        seconds(self.reset)
    }

    /// Writes `RateLimit-Limit`, `-Remaining`, `-Reset` and `-Policy`, as the sixth draft of that
    /// name has them.
    pub fn tell(&self, headers: &mut HeaderMap) {
        let policy = format!("{};w={}", self.limit, seconds(self.window));
        let fields = [
            ("ratelimit-limit", self.limit.to_string()),
            ("ratelimit-remaining", self.remaining.to_string()),
            ("ratelimit-reset", self.reset_seconds().to_string()),
            ("ratelimit-policy", policy),
        ];
        for (name, value) in fields {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

/// Whole seconds, rounded up: who waits so long has waited long enough.
fn seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn a_window_is_fixed_and_begins_with_the_first_request() {
        let window = FixedWindow::new(2, Duration::from_secs(900)).unwrap();
        let begin = Instant::now();
        let at = |seconds: u64, client| {
            let counted = window.count(client, begin + Duration::from_secs(seconds));
            (counted.is_within, counted.remaining, counted.reset_seconds())
        };
        assert_eq!(at(0, ONE), (true, 1, 900));
        assert_eq!(at(600, ONE), (true, 0, 300));
        assert_eq!(at(700, ONE), (false, 0, 200));
        assert_eq!(at(700, TWO), (true, 1, 900));
        assert_eq!(at(899, ONE), (false, 0, 1));
        assert_eq!(at(900, ONE), (true, 1, 900));
        assert_eq!(at(1_599, TWO), (true, 0, 1));
        assert_eq!(at(1_600, TWO), (true, 1, 900));
    }

    #[test]
    fn the_headers_are_those_of_the_draft() {
        let window = FixedWindow::new(3, Duration::from_millis(1_500)).unwrap();
        let mut headers = HeaderMap::new();
        window.count(ONE, Instant::now()).tell(&mut headers);
        let header = |name: &str| headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("ratelimit-limit"), "3");
        assert_eq!(header("ratelimit-remaining"), "2");
        assert_eq!(header("ratelimit-reset"), "2");
        assert_eq!(header("ratelimit-policy"), "3;w=2");
    }

    #[test]
    fn zero_is_no_limit() {
        assert!(FixedWindow::new(0, Duration::from_secs(1)).is_none());
    }

    #[test]
    fn no_flood_of_clients_fills_memory() {
        let window = FixedWindow::new(1, Duration::from_secs(900)).unwrap();
        let now = Instant::now();
        for number in 0..=CLIENTS_MAX {
            let client = IpAddr::V4(std::net::Ipv4Addr::from_bits(u32::try_from(number).unwrap()));
            assert!(window.count(client, now).is_within);
        }
        let counts = window.counts.lock().unwrap();
        assert_eq!((counts.by_client.len(), counts.order.len()), (CLIENTS_MAX, CLIENTS_MAX));
        drop(counts);
        let newest = u32::try_from(CLIENTS_MAX).unwrap();
        let newest = IpAddr::V4(std::net::Ipv4Addr::from_bits(newest));
        assert!(!window.count(newest, now).is_within, "who came last is remembered");
    }
}
