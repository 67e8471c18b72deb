//! The version of the protocol.

use jsonrpc::ErrorObject;

use crate::error::{invalid, no_common_version};

/// The newest version that is spoken here.
pub(crate) const SUPPORTED: &str = "1.0.0";

/// Its parts.
const NEWEST: [u64; 3] = [1, 0, 0];

/// Chooses the version that both sides speak: the lower of the two.
///
/// # Errors
/// For what is no version, and for one of another major.
pub(crate) fn choose(asked: &str) -> Result<String, ErrorObject> {
    let Some(theirs) = parse(asked) else {
        return Err(invalid("protocolVersion: expected three numbers, for example \"1.0.0\""));
    };
    if theirs[0] != NEWEST[0] {
        return Err(no_common_version());
    }
    let [major, minor, patch] = theirs.min(NEWEST);
    Ok(format!("{major}.{minor}.{patch}"))
}

fn parse(text: &str) -> Option<[u64; 3]> {
    let mut parts = text.split('.').map(|part| {
        let is_plain = part.bytes().all(|byte| byte.is_ascii_digit());
        let is_padded = part.len() > 1 && part.starts_with('0');
        part.parse().ok().filter(|_| is_plain && !is_padded)
    });
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_of_two_is_chosen_within_a_major() {
        for (asked, expected) in [
            ("1.0.0", Ok("1.0.0")),
            ("1.0.7", Ok("1.0.0")),
            ("1.20.0", Ok("1.0.0")),
            ("2.0.0", Err(-32004)),
            ("0.9.9", Err(-32004)),
            ("11.0.0", Err(-32004)),
            ("", Err(-32602)),
            ("1", Err(-32602)),
            ("1.0", Err(-32602)),
            ("1.0.0.0", Err(-32602)),
            ("01.0.0", Err(-32602)),
            ("+1.0.0", Err(-32602)),
            ("1.0.x", Err(-32602)),
            ("99999999999999999999.0.0", Err(-32602)),
        ] {
            let chosen = choose(asked);
            let chosen = chosen.as_deref().map_err(|error| error.code);
            assert_eq!(chosen, expected, "{asked}");
        }
    }
}
