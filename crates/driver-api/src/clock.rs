//! Time and ids come from outside, so that tests own both.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use protocol::Timestamp;

/// A source of time.
#[async_trait]
pub trait Clock: Send + Sync + Debug {
    /// Returns the wall-clock time.
    fn now(&self) -> Timestamp;

    /// Returns the time since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;

    /// Waits. Cancel-safe.
    async fn sleep(&self, length: Duration);
}

/// A source of ids and randomness.
pub trait Ids: Send + Sync + Debug {
    /// Returns a fresh id of 128 bits; later ids are greater (UUIDv7).
    fn id(&self) -> u128;

    /// Returns a number that nobody can guess, for jitter.
    fn random(&self) -> u64;
}

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

#[async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let ms = since.map_or(0, |since| since.as_millis());
        Timestamp(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, length: Duration) {
        tokio::time::sleep(length).await;
    }
}

/// UUIDv7 ids.
#[derive(Debug, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn id(&self) -> u128 {
        uuid::Uuid::now_v7().as_u128()
    }

    fn random(&self) -> u64 {
        uuid::Uuid::new_v4().as_u64_pair().1
    }
}
