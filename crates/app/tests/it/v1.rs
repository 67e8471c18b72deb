//! The v1 door over the network, against the built program: broken connections, crashes, crowds.
//!
//! Tests bear the letter and number of the case that they hold.

mod asking;
mod churn;
mod client;
mod crowd;
mod cuts;
mod ends;
mod measure;
mod reading;
mod stand;
mod stopping;
mod storms;
