//! `tokens.json`: the tokens that were made for programs and people. Only hashes are kept.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use door_cli::{Failure, NewToken, TokenInfo};
use protocol::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stdx::Secret;

use super::token;
use crate::settings::write_private;

/// How a token begins that was made here, so that one that got out is recognised as such.
const PREFIX: &str = "nx_";
/// The most tokens of a home folder: each is compared with at each request.
const TOKENS_MAX: usize = 1_000;
/// The longest name.
const NAME_CHARS_MAX: usize = 64;
/// The largest file that is read: all tokens with the longest names fit.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How often the lock is tried: whoever has it writes one small file, which takes milliseconds.
const LOCK_TRIES_MAX: u32 = 500;
/// Between two of those, in milliseconds: five seconds together.
const LOCK_GAP_MS: u64 = 10;

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tokens {
    /// Oldest first.
    tokens: Vec<KeptToken>,
}

/// What is kept of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KeptToken {
    /// Its name.
    pub(super) name: String,
    /// SHA-256 of the whole token, in hexadecimal digits.
    #[serde(with = "digits")]
    pub(super) digest: [u8; 32],
    /// When it was made.
    pub(super) created_at: Timestamp,
    /// Until when it is good; for ever where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
}

impl KeptToken {
    fn info(&self) -> TokenInfo {
        TokenInfo {
            name: self.name.clone(),
            created_at: self.created_at,
            expires_at: self.expires_at,
        }
    }

    /// Tells whether its time is not over.
    pub(super) fn is_good(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// Returns where a home folder's file is.
pub(super) fn path_of(home: &Path) -> PathBuf {
    home.join("tokens.json")
}

/// Hashes a token as the file keeps it.
pub(super) fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Reads the tokens of a file; one that is missing has none.
///
/// # Errors
/// When it cannot be read; the text names the file.
pub(super) fn read(path: &Path) -> Result<Vec<KeptToken>, String> {
    let problem = |error: &dyn std::fmt::Display| format!("read {}: {error}", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(problem(&error)),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| problem(&error))?;
    let tokens: Tokens = serde_json::from_str(&text).map_err(|error| problem(&error))?;
    Ok(tokens.tokens)
}

/// Lists the tokens, oldest first.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn list(home: &Path) -> Result<Vec<TokenInfo>, Failure> {
    let tokens = read(&path_of(home)).map_err(Failure::usage)?;
    Ok(tokens.iter().map(KeptToken::info).collect())
}

/// Makes a token and keeps its hash.
///
/// # Errors
/// For a name that is none or is taken, and where there are too many tokens.
pub(super) fn create(
    home: &Path,
    name: &str,
    life_ms: Option<i64>,
    now: Timestamp,
) -> Result<NewToken, Failure> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if !(1..=NAME_CHARS_MAX).contains(&name.len()) || !name.chars().all(is_word) {
        return Err(Failure::usage(format!(
            "the name of a token has 1 to {NAME_CHARS_MAX} letters, digits, dots, dashes and \
             underscores"
        )));
    }
    let secret = token::make(PREFIX)?;
    let kept = KeptToken {
        name: name.to_owned(),
        digest: digest(secret.expose()),
        created_at: now,
        expires_at: life_ms.map(|life| now.plus_ms(life)),
    };
    change(home, |tokens| {
        // Whoever makes one anew need not revoke what is over.
        tokens.retain(|token| token.name != name || token.is_good(now));
        if tokens.iter().any(|token| token.name == name) {
            return Err(Failure::usage(format!(
                "there is a token '{name}' already; take another name, or: narthex token revoke \
                 {name}"
            )));
        }
        if tokens.len() >= TOKENS_MAX {
            return Err(Failure::failed(format!(
                "there are {TOKENS_MAX} tokens already; revoke some: narthex token list"
            )));
        }
        tokens.push(kept.clone());
        Ok(())
    })?;
    Ok(NewToken { token: Secret::new(secret.expose().clone()), info: kept.info() })
}

/// Takes a token away.
///
/// # Errors
/// When there is none of that name.
pub(super) fn revoke(home: &Path, name: &str) -> Result<(), Failure> {
    change(home, |tokens| {
        let count = tokens.len();
        tokens.retain(|token| token.name != name);
        if tokens.len() < count {
            return Ok(());
        }
        let names: Vec<&str> = tokens.iter().map(|token| token.name.as_str()).collect();
        let known = match names.is_empty() {
            true => "there are none".to_owned(),
            false => format!("there are: {}", names.join(", ")),
        };
        Err(Failure::usage(format!("no token is named '{name}'; {known}")))
    })
}

/// Changes the file while nobody else does.
fn change(
    home: &Path,
    change: impl FnOnce(&mut Vec<KeptToken>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let _locked = lock(home, LOCK_TRIES_MAX)?;
    let path = path_of(home);
    let mut tokens = read(&path).map_err(Failure::usage)?;
    change(&mut tokens)?;
    let text = serde_json::to_string_pretty(&Tokens { tokens })
        .map_err(|error| Failure::failed(format!("write {}: {error}", path.display())))?;
    write_private(&path, &text)
}

/// Takes the right to change the file, which goes with what is returned.
fn lock(home: &Path, tries: u32) -> Result<File, Failure> {
    let path = home.join("tokens.lock");
    let problem =
        |error: std::io::Error| Failure::failed(format!("lock {}: {error}", path.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(problem)?;
    // Readable for its owner alone: whoever can open it can hold it.
    let mut options = File::options();
    let lock = options.create(true).append(true).mode(0o600).open(&path).map_err(problem)?;
    for _ in 0..tries {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(Duration::from_millis(LOCK_GAP_MS));
            }
            Err(TryLockError::Error(error)) => return Err(problem(error)),
        }
    }
    Err(Failure::failed(format!(
        "another process holds {}, and nothing was changed; end it (fuser {} shows which) and try \
         again",
        path.display(),
        path.display()
    )))
}

/// A hash as hexadecimal digits.
mod digits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(digest: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || serde::de::Error::custom("this is no SHA-256: expected 64 digits");
        let mut digest = [0; 32];
        if text.len() != 64 {
            return Err(wrong());
        }
        for (place, byte) in digest.iter_mut().enumerate() {
            let digits = text.get(2 * place..2 * place + 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(digest)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: Timestamp = Timestamp(1_796_000_600_000);

    #[test]
    fn a_token_is_told_once_and_kept_as_a_hash() {
        let home = tempfile::tempdir().unwrap();
        let made = create(home.path(), "ci", Some(1000), NOW).unwrap();
        let token = made.token.expose();
        assert!(token.starts_with("nx_") && token.len() == 67, "{}", token.len());
        let path = path_of(home.path());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&token[3..]), "{text}");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let kept = read(&path).unwrap();
        assert_eq!(kept[0].digest, digest(token));
        assert!(kept[0].is_good(NOW.plus_ms(999)) && !kept[0].is_good(NOW.plus_ms(1000)));
        assert_eq!(list(home.path()).unwrap(), [made.info]);
    }

    #[test]
    fn names_are_words_and_nobody_shares_one() {
        let home = tempfile::tempdir().unwrap();
        let long = "x".repeat(65);
        for wrong in ["", "a b", "é", "a/b", "a\n", &long] {
            let failure = create(home.path(), wrong, None, NOW).unwrap_err();
            assert!(failure.message.contains("1 to 64 letters"), "{failure}");
        }
        create(home.path(), "a.b-c_1", None, NOW).unwrap();
        let failure = create(home.path(), "a.b-c_1", None, NOW).unwrap_err();
        assert!(failure.message.contains("narthex token revoke a.b-c_1"), "{failure}");
        // What is over makes room.
        create(home.path(), "short", Some(1), NOW).unwrap();
        create(home.path(), "short", None, NOW.plus_ms(1)).unwrap();
        assert_eq!(list(home.path()).unwrap().len(), 2);
    }

    #[test]
    fn revoking_names_what_there_is() {
        let home = tempfile::tempdir().unwrap();
        let failure = revoke(home.path(), "ci").unwrap_err();
        assert!(failure.message.ends_with("there are none"), "{failure}");
        create(home.path(), "one", None, NOW).unwrap();
        create(home.path(), "two", None, NOW).unwrap();
        let failure = revoke(home.path(), "ci").unwrap_err();
        assert!(failure.message.ends_with("there are: one, two"), "{failure}");
        revoke(home.path(), "one").unwrap();
        assert_eq!(list(home.path()).unwrap()[0].name, "two");
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let home = home.path();
                scope.spawn(move || {
                    for count in 0..5 {
                        create(home, &format!("t{writer}-{count}"), None, NOW).unwrap();
                    }
                });
            }
        });
        assert_eq!(list(home.path()).unwrap().len(), 40);
    }

    #[test]
    fn a_lock_is_its_owners_and_is_not_waited_for_without_end() {
        let home = tempfile::tempdir().unwrap();
        let held = lock(home.path(), 1).unwrap();
        let mode = held.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let failure = lock(home.path(), 1).unwrap_err();
        assert!(failure.message.contains("tokens.lock, and nothing was changed"), "{failure}");
        drop(held);
        lock(home.path(), 1).unwrap();
    }

    #[test]
    fn a_broken_file_is_told_and_never_written_over() {
        let home = tempfile::tempdir().unwrap();
        let path = path_of(home.path());
        std::fs::write(&path, "{\"tokens\": [{\"name\": \"x\", \"digest\": \"12\"}]}").unwrap();
        for failure in [
            create(home.path(), "ci", None, NOW).unwrap_err(),
            revoke(home.path(), "x").unwrap_err(),
            list(home.path()).unwrap_err(),
        ] {
            assert!(failure.message.contains("tokens.json"), "{failure}");
        }
        assert!(std::fs::read_to_string(&path).unwrap().contains("\"12\""));
    }
}
