//! Urls and settings of the outbound client: no text makes the check panic, what passes is read
//! alike a second time, a literal that passes is public, and what a refusal suggests opens the
//! place and no other port.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use outbound::{AddressClass, AllowedTarget, Error, Guard, Url, classify};

fuzz_target!(|text: &str| {
    let guard = Guard::default();
    match guard.check_url(text) {
        Ok(url) => {
            assert!(matches!(url.scheme(), "http" | "https"));
            assert!(url.username().is_empty() && url.password().is_none());
            assert_eq!(guard.check_url(url.as_str()).as_ref(), Ok(&url));
            if let Some(address) = literal(&url) {
                assert_eq!(classify(address), AddressClass::Public, "{url}");
            }
        }
        Err(Error::Blocked(blocked)) => {
            let Some(entry) = blocked.opened_by() else { return };
            let target: AllowedTarget = entry.parse().expect("what is suggested can be read");
            let opened = Guard::new(vec![target]);
            let mut url = opened.check_url(text).expect("what is suggested opens the place");
            let other = if blocked.port == 1 { 2 } else { 1 };
            url.set_port(Some(other)).expect("a url of the web has a port");
            assert!(opened.check_url(url.as_str()).is_err(), "{entry} opened {url}");
        }
        Err(_) => {}
    }
    if let Ok(target) = text.parse::<AllowedTarget>() {
        let again = target.to_string().parse::<AllowedTarget>();
        assert_eq!(again.as_ref(), Ok(&target));
    }
});

/// Reads the host as other programs might: as an address in plain form.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}
