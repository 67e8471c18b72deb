//! Counts for Prometheus.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::labels::{
    Build, ByModel, ByTool, Calls, Decided, Denied, Http, Kind, Reason, State, Tokens, Tools,
    Values, method,
};
use crate::process;

/// The media type of what [`Meter::render`] returns.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds, from what a cheap tool takes to what a long turn takes.
const LONG: [f64; 14] =
    [0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0];

/// Seconds, for answers over HTTP.
const SHORT: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

fn long() -> Histogram {
    Histogram::new(LONG)
}

fn short() -> Histogram {
    Histogram::new(SHORT)
}

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// What is measured at the moment of asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Open sessions that rest.
    pub idle: u64,
    /// Open sessions with a turn that goes on.
    pub running: u64,
    /// Open sessions whose turn waits for a person.
    pub waiting: u64,
    /// Prompts that wait for their turn.
    pub queued: u64,
    /// Interactions that wait for an answer.
    pub pending: u64,
}

/// All counts. What is counted is counted from the start of the process on.
#[derive(Debug)]
pub struct Meter {
    registry: Registry,
    pub(crate) prompts: Family<Reason, Counter>,
    pub(crate) prompt_seconds: Seconds<Reason>,
    pub(crate) steps: Family<ByModel, Counter>,
    pub(crate) step_seconds: Seconds<ByModel>,
    pub(crate) first_piece_seconds: Seconds<ByModel>,
    pub(crate) tokens: Family<Tokens, Counter>,
    pub(crate) cost: Family<ByModel, Counter<f64, AtomicU64>>,
    pub(crate) retries: Family<ByModel, Counter>,
    pub(crate) calls: Family<Calls, Counter>,
    pub(crate) call_seconds: Seconds<ByTool>,
    pub(crate) denied: Family<Denied, Counter>,
    pub(crate) requests: Family<Kind, Counter>,
    pub(crate) decided: Family<Decided, Counter>,
    pub(crate) wait_seconds: Seconds<Kind>,
    pub(crate) compactions: Counter,
    http: Family<Http, Counter>,
    http_seconds: Seconds<Http>,
    sessions: Family<State, Gauge>,
    queued: Gauge,
    pending: Gauge,
    resident: Gauge,
    open_fds: Gauge,
    threads: Gauge,
    cpu: Counter<f64, AtomicU64>,
    pub(crate) models: Values,
    pub(crate) tools: Tools,
    routes: Values,
}

impl Meter {
    /// Makes a meter that stands at zero.
    pub fn new(version: &str) -> Self {
        let mut meter = Self {
            registry: Registry::default(),
            prompts: Family::default(),
            prompt_seconds: Family::new_with_constructor(long),
            steps: Family::default(),
            step_seconds: Family::new_with_constructor(long),
            first_piece_seconds: Family::new_with_constructor(long),
            tokens: Family::default(),
            cost: Family::default(),
            retries: Family::default(),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(long),
            denied: Family::default(),
            requests: Family::default(),
            decided: Family::default(),
            wait_seconds: Family::new_with_constructor(long),
            compactions: Counter::default(),
            http: Family::default(),
            http_seconds: Family::new_with_constructor(short),
            sessions: Family::default(),
            queued: Gauge::default(),
            pending: Gauge::default(),
            resident: Gauge::default(),
            open_fds: Gauge::default(),
            threads: Gauge::default(),
            cpu: Counter::default(),
            models: Values::default(),
            tools: Tools::default(),
            routes: Values::default(),
        };
        meter.register_turns();
        meter.register_people();
        meter.register_server(version);
        meter
    }

    fn register_turns(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("narthex");
        registry.register("prompts", "Prompts that ended, by reason", self.prompts.clone());
        let help = "How long prompts took, waiting for people included";
        let seconds = Unit::Seconds;
        registry.register_with_unit("prompt", help, seconds, self.prompt_seconds.clone());
        registry.register("steps", "Model calls that were answered", self.steps.clone());
        let help = "How long model calls took";
        registry.register_with_unit("step", help, Unit::Seconds, self.step_seconds.clone());
        let help = "How long until the first piece of an answer came";
        let metric = self.first_piece_seconds.clone();
        registry.register_with_unit("first_piece", help, Unit::Seconds, metric);
        let help = "Tokens, by kind: input, output, cache_read, cache_write";
        registry.register("tokens", help, self.tokens.clone());
        let help = "What model calls cost, in US dollars, where the price is known";
        registry.register("cost_usd", help, self.cost.clone());
        registry.register("retries", "Model calls that were tried again", self.retries.clone());
        registry.register("compactions", "Summaries", self.compactions.clone());
        let help = "Tool calls, by outcome: ok, error, denied";
        registry.register("tool_calls", help, self.calls.clone());
        let help = "How long tool calls ran";
        registry.register_with_unit("tool_call", help, Unit::Seconds, self.call_seconds.clone());
        registry.register("tool_calls_denied", "Refused calls, by whom", self.denied.clone());
    }

    fn register_people(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("narthex");
        registry.register("requests", "Interactions that began", self.requests.clone());
        let help = "Interactions that were decided, how and by whom";
        registry.register("requests_decided", help, self.decided.clone());
        let help = "How long interactions waited";
        registry.register_with_unit("request", help, Unit::Seconds, self.wait_seconds.clone());
    }

    fn register_server(&mut self, version: &str) {
        let build: Family<Build, Gauge> = Family::default();
        build.get_or_create(&Build { version: version.to_owned() }).set(1);
        let registry = self.registry.sub_registry_with_prefix("narthex");
        registry.register("build_info", "The version that runs", build);
        registry.register("sessions", "Open sessions, by state", self.sessions.clone());
        registry.register("prompts_queued", "Prompts that wait", self.queued.clone());
        let help = "Interactions that wait for an answer";
        registry.register("requests_pending", help, self.pending.clone());
        registry.register("http_requests", "Answered HTTP requests", self.http.clone());
        let help = "How long HTTP requests took; event streams are left out";
        registry.register_with_unit("http", help, Unit::Seconds, self.http_seconds.clone());
        let registry = self.registry.sub_registry_with_prefix("process");
        let help = "Resident memory";
        registry.register_with_unit("resident_memory", help, Unit::Bytes, self.resident.clone());
        registry.register("open_fds", "Open files and sockets", self.open_fds.clone());
        registry.register("threads", "Threads", self.threads.clone());
        let help = "Time on a processor so far";
        registry.register_with_unit("cpu", help, Unit::Seconds, self.cpu.clone());
    }

    /// Counts an HTTP request. `route` is the pattern that matched, not the path; a stream has no
    /// duration worth a place in the histogram. A method that HTTP does not define counts as
    /// `other`.
    pub fn http(&self, method: &str, route: &str, status: u16, seconds: Option<f64>) {
        let route = self.routes.bounded(route);
        let labels = Http { method: self::method(method), route, status };
        self.http.get_or_create(&labels).inc();
        if let Some(seconds) = seconds {
            self.http_seconds.get_or_create(&labels).observe(seconds);
        }
    }

    /// Returns the media type of [`Meter::render`].
    pub fn media_type() -> &'static str {
        MEDIA_TYPE
    }

    /// Writes everything in the OpenMetrics text format, which Prometheus reads.
    pub fn render(&self, now: Gauges) -> String {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for (state, count) in
            [("idle", now.idle), ("running", now.running), ("waiting", now.waiting)]
        {
            self.sessions.get_or_create(&State { state }).set(whole(count));
        }
        self.queued.set(whole(now.queued));
        self.pending.set(whole(now.pending));
        if let Some(process) = process::read() {
            self.resident.set(whole(process.resident_bytes));
            self.open_fds.set(whole(process.open_fds));
            self.threads.set(whole(process.threads));
            // The system counts; what it says is taken as it is.
            self.cpu.inner().store(process.cpu_seconds.to_bits(), Ordering::Relaxed);
        }
        let mut text = String::new();
        // Writing to a text does not fail.
        if let Err(error) = encode(&mut text, &self.registry) {
            tracing::error!(%error, "encode the metrics");
        }
        text
    }
}
