//! The private file of a server's tokens, and the lock beside it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use driver_api::{Clock, Fault};
use outbound::Url;
use sha2::{Digest, Sha256};

use super::record::Record;

/// Largest file: some tokens are a few thousand characters long.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How long another process may hold the lock: it waits for an authorization server at most.
const LOCK_WAIT: Duration = Duration::from_secs(60);

/// How often the lock is tried meanwhile.
const LOCK_STEP: Duration = Duration::from_millis(25);

/// The place of a server's tokens.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    name: String,
}

/// Held while a token is replaced. Dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Held(#[expect(dead_code, reason = "closing the file ends the lock")] File);

impl Store {
    /// Names the place. Makes and reads nothing.
    pub(super) fn new(home: &Path, server: &Url) -> Self {
        let digest = Sha256::digest(server.as_str().as_bytes());
        let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let host = server.host_str().unwrap_or_default();
        let host: String =
            host.chars().map(|c| if is_plain(c) { c } else { '_' }).take(60).collect();
        Self { folder: home.join("connections"), name: format!("{host}-{digest}") }
    }

    /// Reads what is kept; none where nothing is.
    pub(super) async fn read(&self) -> Result<Option<Record>, Fault> {
        let path = self.path();
        blocking("read the tokens of a server", move || match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(file) => {
                let mut bytes = Vec::new();
                file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
                // A file that cannot be read is one without tokens: a person authorizes anew.
                Ok(serde_json::from_slice(&bytes).ok())
            }
        })
        .await
    }

    /// Replaces what is kept, in one step and durably: a token that was rotated is worth nothing
    /// if only half of the new pair is there after a crash.
    pub(super) async fn write(&self, record: &Record) -> Result<(), Fault> {
        let (folder, path) = (self.folder.clone(), self.path());
        let part = folder.join(format!("{}.{}.part", self.name, random_word()));
        let record = record.clone();
        blocking("keep the tokens of a server", move || {
            make_folder(&folder)?;
            let bytes = serde_json::to_vec_pretty(&record)?;
            let written = private(&part).and_then(|mut file| {
                file.write_all(&bytes)?;
                file.sync_all()?;
                std::fs::rename(&part, &path)?;
                File::open(&folder)?.sync_all()
            });
            if written.is_err() {
                // What is left of it holds a secret; the first error is the one to tell.
                let _gone = std::fs::remove_file(&part);
            }
            written
        })
        .await
    }

    /// Takes away what is kept. Returns whether there was anything.
    pub(super) async fn remove(&self) -> Result<bool, Fault> {
        let (folder, path) = (self.folder.clone(), self.path());
        blocking("forget the tokens of a server", move || match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
            Ok(()) => File::open(folder)?.sync_all().map(|()| true),
        })
        .await
    }

    /// Waits for the lock that all processes of this home share.
    pub(super) async fn lock(&self, clock: &dyn Clock) -> Result<Held, Fault> {
        let (folder, path) = (self.folder.clone(), self.folder.join(format!("{}.lock", self.name)));
        let file = blocking("open the lock of a server's tokens", move || {
            make_folder(&folder)?;
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
        })
        .await?;
        let start = clock.elapsed();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Held(file)),
                Err(TryLockError::WouldBlock) if clock.elapsed() - start < LOCK_WAIT => {
                    clock.sleep(LOCK_STEP).await;
                }
                Err(TryLockError::WouldBlock) => {
                    let limit = LOCK_WAIT.as_secs();
                    let what = format!("wait for another process to refresh a token: {limit} s");
                    return Err(Fault::new(what));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(Fault::with("lock the tokens of a server", error));
                }
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.json", self.name))
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn random_word() -> String {
    use driver_api::Ids as _;
    format!("{:016x}", driver_api::SystemIds.random())
}

async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|e| Fault::with(what, e))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use driver_api::SystemClock;

    use super::super::record::{Client, ClientAuth, ClientKind, Token};
    use super::*;

    fn record(access: &str) -> Record {
        let client = Client {
            id: "me".to_owned(),
            secret: None,
            auth: ClientAuth::None,
            kind: ClientKind::Dynamic,
            redirect_uri: "http://127.0.0.1/x".to_owned(),
        };
        let token = Token {
            access: stdx::Secret::new(access.to_owned()),
            refresh: Some(stdx::Secret::new("r".to_owned())),
            expires_at_ms: Some(1),
            scopes: vec!["a".to_owned()],
        };
        Record {
            resource: "https://a.example/mcp".to_owned(),
            issuer: "https://a.example".to_owned(),
            token_endpoint: "https://a.example/token".to_owned(),
            client,
            token: Some(token),
        }
    }

    #[tokio::test]
    async fn what_is_kept_is_private_whole_and_read_again() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::new(home.path(), &"https://a.example/mcp?key=hidden".parse().unwrap());
        assert_eq!(store.read().await.unwrap(), None);
        for access in ["first-token", "second-token"] {
            store.write(&record(access)).await.unwrap();
            assert_eq!(store.read().await.unwrap(), Some(record(access)));
        }
        let folder = home.path().join("connections");
        let names: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let [name] = &names[..] else { panic!("{names:?}") };
        assert!(name.starts_with("a.example-") && !name.contains("hidden"), "{name}");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(name))), (0o700, 0o600));
        std::fs::write(folder.join(name), "{").unwrap();
        assert_eq!(store.read().await.unwrap(), None, "a broken file is one without tokens");
        let shown = format!("{:?}", record("first-token"));
        assert!(!shown.contains("first-token"), "{shown}");
    }

    #[tokio::test]
    async fn one_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let store = || Store::new(home.path(), &"https://a.example/".parse().unwrap());
        let clock = SystemClock::default();
        let held = store().lock(&clock).await.unwrap();
        let other = store();
        let mut second = Box::pin(other.lock(&clock));
        let early = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
        assert!(early.is_err());
        drop(held);
        second.await.unwrap();
    }
}
