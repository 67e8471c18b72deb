//! Metrics and traces.
//!
//! **What**: an observer of all events that keeps counts for Prometheus, and makes spans for
//! OpenTelemetry where somebody wants them.
//! **Knows** `protocol`, the observer's trait, and `outbound` for the way to a collector.
//! **Never** holds up an event, and never lets a prompt, an answer, an argument or a file out.
#![deny(missing_docs)]

mod export;
mod labels;
mod meter;
mod process;
mod telemetry;
#[cfg(test)]
mod tests;
mod traces;
mod under_way;

pub use export::{CollectorError, TraceOptions};
pub use meter::{Gauges, Meter};
pub use telemetry::Telemetry;
pub use traces::Traces;
