//! `narthex policy`.

use std::path::PathBuf;

use clap::Subcommand;

/// `narthex policy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  narthex policy explain 'run_shell(git push origin main)'
  narthex policy show
  narthex policy keygen --out acme.pem
  narthex policy sign bundle.json --key acme.pem --out policy.json
  narthex policy verify policy.json --public-key MCowBQYDK2VwAyEA…")]
pub struct PolicyArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: PolicyAction,
}

/// What to do with policies.
#[derive(Debug, Subcommand)]
pub enum PolicyAction {
    /// Says what would happen to a call here, which layer and rule decide, and why
    #[command(after_help = "Examples:
  narthex policy explain 'run_shell(git push origin main)'
  narthex policy explain 'write_file(src/main.rs)' --mode auto-edit
  narthex policy explain 'web_fetch(https://example.com/page)'
  narthex policy explain mcp__github__create_issue --json

The call is the name of a tool and, in brackets, what it is about: the command of run_shell, the
path of a file tool, the address or domain of web_fetch. It is judged as in the working folder,
with the rules in force there and those of --allow and --deny. Nothing is run.")]
    Explain {
        /// The call, `tool(argument)` or the bare name of a tool
        call: String,
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Shows the layers in force, where they come from and what they lock
    #[command(after_help = "Examples:\n  narthex policy show\n  narthex policy show --json")]
    Show {
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Makes a key pair: writes the private key to a file that only you can read, prints the
    /// public one
    #[command(after_help = "Example:
  narthex policy keygen --out acme.pem

The public key belongs into the managed settings of the machines, as remotePolicyPublicKey or in
embed.hostPolicyPublicKeys. A file that is there is never overwritten.")]
    Keygen {
        /// The file of the private key
        #[arg(long, value_name = "FILE", default_value = "narthex-policy-key.pem")]
        out: PathBuf,
    },
    /// Signs a bundle and prints the signed one
    #[command(after_help = "Examples:
  narthex policy sign bundle.json --key acme.pem > policy.json
  narthex policy sign bundle.json --key acme.pem --out policy.json

A bundle is JSON:
  {\"version\": 1, \"id\": \"acme\", \"expiresAt\": \"2027-06-01T00:00:00Z\",
   \"settings\": {\"disableFullAuto\": true,
                \"permissions\": {\"deny\": [\"run_shell(git push *)\"]}}}
An issuedAt that is missing is filled in with the time.")]
    Sign {
        /// The bundle; one that is signed already is signed anew
        bundle: PathBuf,
        /// The file of the private key, as keygen writes it
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// Writes the signed bundle here in place of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Says whether a signed bundle would hold on this machine, and if not, why
    #[command(after_help = "Examples:
  narthex policy verify policy.json
  narthex policy verify policy.json --public-key MCowBQYDK2VwAyEA…

Exit codes: 0 it holds · 1 it is refused · 2 wrong usage or configuration")]
    Verify {
        /// The signed bundle
        file: PathBuf,
        /// A key whose signature counts, in place of those of the managed settings
        #[arg(long, value_name = "KEY", action = clap::ArgAction::Append)]
        public_key: Vec<String>,
        /// Prints one JSON object
        #[arg(long)]
        json: bool,
    },
}
