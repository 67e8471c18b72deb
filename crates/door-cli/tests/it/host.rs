//! `narthex host`: the grammar, and how it ends.

use door_cli::{Cli, Command, Exit, parse};

fn parsed(args: &[&str]) -> Result<Cli, Exit> {
    parse(["narthex", "host"].iter().chain(args).map(Into::into))
}

#[test]
fn a_socket_needs_a_token_and_a_token_a_socket() {
    for (args, is_right) in [
        (&[][..], true),
        (&["--stdio"], true),
        (&["--socket", "s", "--token-file", "t"], true),
        (&["--socket", "s", "--token-fd", "3"], true),
        (&["--socket", "s"], false),
        (&["--token-file", "t"], false),
        (&["--token-fd", "3"], false),
        (&["--socket", "s", "--token-fd", "1"], false),
        (&["--socket", "s", "--token-file", "t", "--token-fd", "3"], false),
        (&["--stdio", "--socket", "s", "--token-file", "t"], false),
        (&["--max-sessions", "0"], false),
        (&["--event-buffer", "0"], false),
        (&["--grace", "-1"], false),
    ] {
        assert_eq!(parsed(args).is_ok(), is_right, "{args:?}");
    }
    let Ok(Cli { command: Some(Command::Host(host)), .. }) = parsed(&[]) else {
        panic!("it is another command")
    };
    assert_eq!((host.grace, host.max_sessions, host.event_buffer), (10_000, 64, 2_000));
}
