//! The guarded way out: one HTTP client for all that is fetched.
//!
//! **What**: [`Client`] fetches urls that come from models, pages, files and other people. Places
//! that are not public are refused unless the settings open them ([`AllowedTarget`], the entries
//! of `[network] allow`). Names are resolved once per connection, and the addresses that were
//! checked are those that are connected to; redirects are checked again; sizes and times are
//! limited. [`Servers`] talks to servers that the settings themselves name. [`Guard`] is the check
//! alone; [`connect`] and [`Encryption`] are a connection alone, for whoever hands on what others
//! say. [`sse`] takes streams of events apart.
//! **Knows** `stdx`; the one home of the HTTP stack, of encryption and of root certificates.
//! **Never** retries, caches, unpacks a compressed body or keeps cookies; never lets a variable
//! of the environment choose where a guarded connection goes.

mod address;
mod allow;
mod client;
mod connect;
mod error;
mod guard;
mod link;
mod redirect;
mod resolve;
mod response;
mod servers;
pub mod sse;
mod tls;
mod transport;
mod tunnel;

pub use address::{AddressClass, classify};
pub use allow::{AllowedTarget, TargetError};
pub use client::{Client, Limits, Options, Request};
pub use error::{Blocked, Error, Part, Wait};
pub use guard::Guard;
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
pub use link::{Link, connect};
pub use resolve::{Dial, Resolve, SystemResolver, TcpDial};
pub use response::Response;
pub use servers::{Servers, Waits};
pub use tls::{Encryption, root_certificates};
pub use url::Url;
