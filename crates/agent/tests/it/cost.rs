//! What the agent adds to a command. Figures of a machine that others use too are a hint: the
//! test only fails where the agent is slower by an order of magnitude.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::{Client, bash};

const ROUNDS: usize = 60;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
#[allow(clippy::print_stdout, reason = "the figure is for whoever runs it with --nocapture")]
fn a_command_costs_little_more_than_its_own_start() {
    let mut client = Client::start();
    let mut through = Vec::new();
    let mut bare = Vec::new();
    for _ in 0..ROUNDS {
        let since = Instant::now();
        let id = client.spawn(bash("true"));
        client.finish(id);
        through.push(since.elapsed());

        let since = Instant::now();
        let status = Command::new("bash")
            .args(["-c", "true"])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        bare.push(since.elapsed());
        assert!(status.success());
    }
    let (through, bare) = (median(through), median(bare));
    println!("bash -c true: {through:?} through the agent, {bare:?} bare");
    assert!(through < bare + Duration::from_millis(20), "{through:?} against {bare:?}");
}
