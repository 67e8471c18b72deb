//! `narthex cortex`.

use clap::ValueEnum;

/// `narthex cortex`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    after_help = "Examples:
  narthex cortex                                      at http://127.0.0.1:3100/api/v1/cortex
  narthex cortex --port 0 --json-ready --exit-on-stdin-close   for a program that starts it
  narthex cortex --driver host                        no isolation: only on a machine of its own
  curl -s -d '{\"agentId\":\"worker\"}' -H 'content-type: application/json' \\
       http://127.0.0.1:3100/api/v1/cortex/neurons",
    after_long_help = "Examples:
  narthex cortex                                      at http://127.0.0.1:3100/api/v1/cortex
  narthex cortex --port 0 --json-ready --exit-on-stdin-close   for a program that starts it
  narthex cortex --driver host                        no isolation: only on a machine of its own
  curl -s -d '{\"agentId\":\"worker\"}' -H 'content-type: application/json' \\
       http://127.0.0.1:3100/api/v1/cortex/neurons

Agents act in neurons, sandboxes that live on when the server stops. What a call may do is not
asked for there, but for what [agent.approval] require_for names; --mode says otherwise. Settings
stand in [cortex], [agent.approval], [neurons] and [mcp].

Variables: NSYS_CORTEX_PORT, NSYS_CORTEX_API_HOST, NSYS_CORTEX_API_TOKEN, NSYS_CORTEX_RATE_LIMIT,
NSYS_CORTEX_RATE_LIMIT_LLM, NSYS_CORTEX_RATE_LIMIT_WINDOW_MS, NSYS_CORTEX_TRUST_PROXY,
NSYS_CORTEX_API_TOOL_PRESET, NSYS_CORTEX_MCP_DEFER_THRESHOLD, NSYS_CORTEX_MAX_NEURONS,
NSYS_CORTEX_SESSION_TTL_MS, NSYS_CORTEX_MODE (process or host). They win over settings, flags over
them.

Without NSYS_CORTEX_API_TOKEN every program of this machine is let in, and other machines cannot be:
an address that they reach is refused.

Exit codes: 0 stopped by SIGINT, SIGTERM, SIGHUP or the end of standard input · 1 it failed, or did
not stop in time · 2 it could not start · 130 stopped at once by a second signal"
)]
pub struct CortexArgs {
    /// The port; 0 takes any that is free [default: 3100]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The address to listen on; one that other machines reach needs `NSYS_CORTEX_API_TOKEN`
    /// [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<String>,
    /// What keeps new neurons apart [default: namespace]
    #[arg(long, value_name = "DRIVER")]
    pub driver: Option<SandboxDriver>,
    /// Prints one JSON object as the first line, once requests are answered
    #[arg(long)]
    pub json_ready: bool,
    /// Stops when standard input ends: with the program that started it
    #[arg(long)]
    pub exit_on_stdin_close: bool,
}

/// What keeps a sandbox apart from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SandboxDriver {
    /// Namespaces of Linux and more.
    Namespace,
    /// Nothing: a folder and a process.
    Host,
}

/// A further door of `narthex serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FurtherDoor {
    /// Neurons and runs in them, below /api/v1/cortex.
    Cortex,
}
