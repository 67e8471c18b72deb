//! `narthex token`.

use clap::Subcommand;

/// The longest life of a token in days: ten years. For ever is to name none.
const DAYS_MAX: i64 = 3_650;
/// An hour in milliseconds.
const HOUR: i64 = 3_600_000;

/// `narthex token`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  narthex token                                the token of the server that runs
  curl -H \"Authorization: Bearer $(narthex token)\" http://127.0.0.1:7420/v1/sessions
  narthex token create ci --expires 30d        one for a program; shown once
  narthex token list
  narthex token revoke ci"
)]
pub struct TokenArgs {
    /// Prints one JSON object with url and token
    #[arg(long)]
    pub json: bool,
    /// What to do; without, the token of the running server is printed.
    #[command(subcommand)]
    pub action: Option<TokenAction>,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Makes a token for a program or a person and prints it once; only its hash is kept
    #[command(after_help = "Examples:
  narthex token create ci --expires 30d
  narthex token create laptop

Servers of this home folder take it from the next second on, also those that run already.")]
    Create {
        /// Its name: letters, digits, dots, dashes and underscores
        name: String,
        /// For how long it is good, for example 12h, 30d; for ever where absent
        #[arg(long, value_name = "TIME", value_parser = parse_life)]
        expires: Option<i64>,
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Lists the tokens that were made
    #[command(after_help = "Examples:\n  narthex token list\n  narthex token list --json")]
    List {
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Takes a token away: no request with it is answered any more
    #[command(after_help = "Example:\n  narthex token revoke ci")]
    Revoke {
        /// Its name
        name: String,
    },
}

/// Reads a time such as `12h` or `30d`, in milliseconds.
fn parse_life(text: &str) -> Result<i64, String> {
    let expected = || format!("expected hours or days, for example 12h or 30d, up to {DAYS_MAX}d");
    let unit = match text.chars().last() {
        Some('h') => HOUR,
        Some('d') => 24 * HOUR,
        _ => return Err(expected()),
    };
    let digits = text.trim_end_matches(['h', 'd']);
    let is_number = digits.len() + 1 == text.len() && digits.bytes().all(|b| b.is_ascii_digit());
    let count = digits.parse::<i64>().ok().filter(|count| is_number && *count > 0);
    let life = count.and_then(|count| count.checked_mul(unit));
    life.filter(|life| *life <= DAYS_MAX * 24 * HOUR).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_hours_or_days() {
        assert_eq!(parse_life("1h"), Ok(HOUR));
        assert_eq!(parse_life("30d"), Ok(30 * 24 * HOUR));
        assert_eq!(parse_life("3650d"), Ok(DAYS_MAX * 24 * HOUR));
        for wrong in ["", "d", "0d", "-1d", "+1d", "30", "30m", "1hd", "3651d", "1 d", "9e9d"] {
            assert!(parse_life(wrong).unwrap_err().contains("for example 12h"), "{wrong}");
        }
        assert!(parse_life("99999999999999999999d").is_err());
    }
}
