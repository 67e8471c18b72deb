//! A clock and ids that tests own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use driver_api::{Clock, Ids};
use protocol::Timestamp;

/// Follows tokio's clock: under `start_paused` time flies whenever everybody waits.
#[derive(Debug)]
pub struct TestClock {
    start: tokio::time::Instant,
}

impl Default for TestClock {
    fn default() -> Self {
        Self { start: tokio::time::Instant::now() }
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let ms = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(1_796_000_000_000).plus_ms(ms)
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, length: Duration) {
        tokio::time::sleep(length).await;
    }
}

/// Ids 1, 2, 3 and a fixed stream of numbers.
#[derive(Debug, Default)]
pub struct TestIds(AtomicU64);

impl Ids for TestIds {
    fn id(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}
