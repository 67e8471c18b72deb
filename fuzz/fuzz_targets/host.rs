//! `Host` and `Origin` of requests: no text makes the check panic, and what counts as this machine
//! is this machine for a browser too.
#![no_main]

use http_kit::{is_loopback_host, is_loopback_origin};
use libfuzzer_sys::fuzz_target;
use outbound::Url;

/// Tells whether a browser would go to this machine.
fn is_here(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_bare = url.username().is_empty() && url.password().is_none();
    let is_address = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_bare && (host == "localhost" || is_address)
}

fuzz_target!(|text: &str| {
    if is_loopback_host(text) {
        assert!(is_here(&format!("http://{text}/")), "{text:?}");
        assert!(is_loopback_origin(&format!("https://{text}")), "{text:?}");
    }
    if is_loopback_origin(text) {
        assert!(is_here(text), "{text:?}");
        assert!(!text.ends_with('/'), "an origin has no path: {text:?}");
    }
});
