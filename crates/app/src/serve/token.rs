//! The server's own token: made at each start, or given.

use door_cli::{Failure, TokenOrigin};
use stdx::Secret;

use crate::environment::Environment;
use crate::settings::Origin;

/// Random bytes of a token that is made: nobody guesses 256 bits.
const TOKEN_BYTES: usize = 32;
/// The fewest characters of a token that is given.
const GIVEN_CHARS_MIN: usize = 16;
/// The most characters of a token that is given: it goes through headers, whose size is bounded.
const GIVEN_CHARS_MAX: usize = 1024;
/// The variables that give one, strongest first. The second name is that of hosts that embed the
/// program.
pub(crate) const VARIABLES: [&str; 2] = ["NARTHEX_SERVER_TOKEN", "NEURALINVERSE_SERVER_TOKEN"];

/// The server's own token.
#[derive(Clone, Debug)]
pub(super) struct OwnToken {
    pub(super) secret: Secret<String>,
    /// Where it comes from; none where it was made.
    pub(super) origin: Option<Origin>,
}

impl OwnToken {
    /// Returns who gave it.
    pub(super) fn giver(&self) -> Option<TokenOrigin> {
        match self.origin.as_ref()? {
            Origin::Variable(name) => Some(TokenOrigin::Variable(name.clone())),
            _ => Some(TokenOrigin::Flag),
        }
    }
}

/// Takes the token that is given, or makes one.
///
/// # Errors
/// When the one that is given is too easy to guess or fits into no header. It is not shown.
pub(super) fn choose(
    flag: Option<Secret<String>>,
    environment: &Environment,
) -> Result<OwnToken, Failure> {
    let given = flag.map(|secret| (secret, Origin::Flag("--token".to_owned()))).or_else(|| {
        VARIABLES.into_iter().find_map(|name| {
            let text = environment.variable(name)?;
            Some((Secret::new(text.to_owned()), Origin::Variable(name.to_owned())))
        })
    });
    let Some((secret, origin)) = given else {
        return Ok(OwnToken { secret: make("")?, origin: None });
    };
    let text = secret.expose();
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_visible || !(GIVEN_CHARS_MIN..=GIVEN_CHARS_MAX).contains(&text.len()) {
        return Err(Failure::usage(format!(
            "the token of {origin}: expected {GIVEN_CHARS_MIN} to {GIVEN_CHARS_MAX} visible ASCII \
             characters without spaces"
        )));
    }
    Ok(OwnToken { secret, origin: Some(origin) })
}

/// Makes a token that begins so.
///
/// # Errors
/// When the system has no random bytes to give.
pub(super) fn make(prefix: &str) -> Result<Secret<String>, Failure> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::failed(format!("make a token: {error}")))?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Secret::new(format!("{prefix}{digits}")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const LONG: &str = "0123456789abcdef";

    fn chosen(flag: Option<&str>, variables: &[(&str, &str)]) -> Result<(String, String), String> {
        let flag = flag.map(|text| Secret::new(text.to_owned()));
        let token = choose(flag, &Environment::new(Path::new("/"), variables));
        let token = token.map_err(|failure| failure.message)?;
        let origin = token.origin.map(|origin| origin.to_string());
        Ok((token.secret.expose().clone(), origin.unwrap_or_default()))
    }

    #[test]
    fn the_flag_wins_over_our_variable_and_that_over_the_hosts() {
        let ours = ("NARTHEX_SERVER_TOKEN", "ours-0123456789abcdef");
        let hosts = ("NEURALINVERSE_SERVER_TOKEN", "host-0123456789abcdef");
        let origin = |flag, variables: &[(&str, &str)]| chosen(flag, variables).unwrap().1;
        assert_eq!(origin(Some(LONG), &[ours, hosts]), "flag --token");
        assert_eq!(origin(None, &[hosts, ours]), "environment, NARTHEX_SERVER_TOKEN");
        assert_eq!(origin(None, &[hosts]), "environment, NEURALINVERSE_SERVER_TOKEN");
        let (made, origin) = chosen(None, &[("NARTHEX_SERVER_TOKEN", "")]).unwrap();
        assert_eq!((made.len(), origin.as_str()), (64, ""));
        assert_ne!(chosen(None, &[]).unwrap().0, made);
    }

    #[test]
    fn what_could_be_guessed_or_fits_no_header_is_refused_and_not_shown() {
        let long = "x".repeat(GIVEN_CHARS_MAX + 1);
        for wrong in
            ["", "short", "fifteen-chars-x", "sixteen chars ok", "sixteen-chärs-ok-ok", &long]
        {
            let problem = chosen(Some(wrong), &[]).unwrap_err();
            assert!(problem.contains("expected 16 to 1024 visible"), "{problem}");
            assert!(wrong.is_empty() || !problem.contains(wrong), "{problem}");
        }
        assert!(chosen(Some(LONG), &[]).is_ok());
    }
}
