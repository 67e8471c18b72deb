//! The one way out of a neuron.
//!
//! **What**: a [`Door`] per neuron, an HTTP proxy on a Unix socket, outside of the neuron's empty
//! network namespace. It lets through what the neuron's [`Egress`](driver_api::Egress) allows, by
//! host, port and method; judges every address that a name resolves to and dials the one that was
//! judged, for each connection anew; and tells an [`EgressAudit`](driver_api::EgressAudit) of each
//! request.
//!
//! Requests for `http://` are read and forwarded. A `CONNECT` opens a tunnel for TLS and for
//! nothing else: the name that the client names to the server must be the one of the `CONNECT`.
//! Tunnels pass through unread, with one exception: for hosts with a credential, TLS ends here,
//! under a certificate of an authority that exists for this neuron alone, and the credential is
//! set on each request on its way out.
//!
//! **Promised** of a credential: this crate puts it into no file, variable, log line, audit event
//! or message. Headers of an answer that repeat it are removed, trailers and the words behind a
//! status always. It leaves over TLS to a host that its rule names, or unencrypted to an address of
//! this machine or its network that a rule opens. The placeholder that commands see never leaves
//! in the address or a header of a request that is read here.
//!
//! **Not promised**: a server that writes the credential into the *body* of an answer, or into a
//! header in a form of its own, tells it to the neuron. What goes through an encrypted tunnel is
//! not seen: an allowed host may be a front for others that are served from the same place (the
//! `Host` header is inside), and whatever may be read from an allowed host, a neuron may also send
//! there. Encrypted hellos are refused for that reason, also those that clients send for show.
//!
//! **Knows** `stdx`, `protocol`, `driver-api`, `outbound`.
//! **Never** follows a redirect, retries, caches, or reads a variable of the environment.
#![deny(missing_docs)]

mod answer;
mod audit;
mod authority;
mod door;
mod error;
mod exchange;
mod forward;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod headers;
mod hello;
mod kept;
mod options;
mod proxy;
mod refusal;
mod rules;
mod target;
mod tunnel;
mod wire;

pub use door::{Certificates, Door, check};
pub use error::EgressError;
pub use options::{Limits, Options};
