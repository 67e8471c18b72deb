//! Who is let in: the server's own token, and those that were made.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driver_api::Clock;
use http_kit::{Caller, OneToken, Tokens};
use stdx::Secret;
use subtle::ConstantTimeEq;

use super::token_file::{self, KeptToken};

/// How long what was read of the file counts without another look at it: a token that was made or
/// revoked counts a second later, and a flood of requests reads the file once a second.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// As whom the server's own token comes in.
const OWNER: &str = "owner";

/// Admits tokens.
#[derive(Debug)]
pub(super) struct Admission {
    own: OneToken,
    file: PathBuf,
    clock: Arc<dyn Clock>,
    seen: Mutex<Seen>,
}

/// What is known of the file.
#[derive(Debug, Default)]
struct Seen {
    looked_at: Option<Duration>,
    stamp: Option<Stamp>,
    tokens: Arc<Vec<KeptToken>>,
}

/// What differs between two files, or two states of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Admission {
    /// Admits the server's own token, and those that the home folder's file has.
    pub(super) fn new(own: &Secret<String>, file: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { own: OneToken::new(own, OWNER), file, clock, seen: Mutex::default() }
    }

    /// Returns the tokens that were made, from a file that was looked at within the last second.
    fn made(&self) -> Arc<Vec<KeptToken>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.elapsed();
        if seen.looked_at.is_none_or(|at| now.saturating_sub(at) >= LOOK_EVERY) {
            seen.looked_at = Some(now);
            let stamp = fs::metadata(&self.file).ok().map(|stat| Stamp {
                inode: stat.ino(),
                bytes: stat.len(),
                changed: (stat.mtime(), stat.mtime_nsec()),
            });
            if stamp != seen.stamp {
                seen.stamp = stamp;
                seen.tokens = match token_file::read(&self.file) {
                    Ok(tokens) => Arc::new(tokens),
                    // Nobody knows who was in it: then nobody is.
                    Err(problem) => {
                        tracing::error!(%problem, "no token but the server's own is admitted");
                        Arc::default()
                    }
                };
            }
        }
        Arc::clone(&seen.tokens)
    }
}

impl Tokens for Admission {
    fn admits(&self, presented: &str) -> Option<Caller> {
        if let Some(caller) = self.own.admits(presented) {
            return Some(caller);
        }
        if presented.is_empty() {
            return None;
        }
        let digest = token_file::digest(presented);
        let now = self.clock.now();
        // Every one is looked at, so that the time does not tell which.
        let mut found = None;
        for token in self.made().iter() {
            if bool::from(token.digest.ct_eq(&digest)) && token.is_good(now) {
                found = Some(Caller { name: token.name.as_str().into() });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use testkit::clock::TestClock;

    use super::*;

    const OWN: &str = "the-servers-own-token";

    fn admission(home: &std::path::Path) -> Admission {
        let own = Secret::new(OWN.to_owned());
        let clock = Arc::new(TestClock::default());
        Admission::new(&own, token_file::path_of(home), clock)
    }

    fn name(admission: &Admission, token: &str) -> Option<String> {
        admission.admits(token).map(|caller| caller.name.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_come_in_under_their_name_until_they_are_revoked_or_over() {
        let home = tempfile::tempdir().unwrap();
        let admission = admission(home.path());
        let now = admission.clock.now();
        assert_eq!(name(&admission, OWN).as_deref(), Some("owner"));
        let ci = token_file::create(home.path(), "ci", None, now).unwrap();
        let brief = token_file::create(home.path(), "brief", Some(5000), now).unwrap();
        let (ci, brief) = (ci.token.expose(), brief.token.expose());
        assert_eq!(name(&admission, ci).as_deref(), Some("ci"), "nothing was looked at before");
        assert_eq!(name(&admission, brief).as_deref(), Some("brief"));
        assert_eq!(name(&admission, &ci[..ci.len() - 1]), None);
        assert_eq!(name(&admission, ""), None);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(name(&admission, brief), None, "its time is over");
        token_file::revoke(home.path(), "ci").unwrap();
        assert_eq!(name(&admission, ci).as_deref(), Some("ci"), "the file is not read each time");
        tokio::time::advance(LOOK_EVERY).await;
        assert_eq!(name(&admission, ci), None);
        assert_eq!(name(&admission, OWN).as_deref(), Some("owner"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_file_lets_only_the_owner_in() {
        let home = tempfile::tempdir().unwrap();
        let admission = admission(home.path());
        let now = admission.clock.now();
        let ci = token_file::create(home.path(), "ci", None, now).unwrap();
        let ci = ci.token.expose();
        assert!(admission.admits(ci).is_some());
        let file = token_file::path_of(home.path());
        let good = fs::read(&file).unwrap();
        fs::write(&file, "{\"tokens\": [").unwrap();
        tokio::time::advance(LOOK_EVERY).await;
        assert!(admission.admits(ci).is_none() && admission.admits(OWN).is_some());
        fs::write(&file, good).unwrap();
        tokio::time::advance(LOOK_EVERY).await;
        assert!(admission.admits(ci).is_some());
    }
}
