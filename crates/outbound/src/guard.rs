//! The check: which places may be reached. Everything that connects asks here.

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

use crate::address::{AddressClass, classify, classify_name};
use crate::allow::AllowedTarget;
use crate::error::{self, Blocked, Error};
use crate::resolve::Resolve;

#[cfg(test)]
mod tests;

/// Longest url: signed ones have a few thousand characters.
const URL_BYTES_MAX: usize = 16 << 10;

/// Most addresses that a name may have: large services give a dozen. All of them are checked.
const ADDRESSES_MAX: usize = 64;

/// Judges urls, names and addresses by what the settings open.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    allow: Vec<AllowedTarget>,
}

impl Guard {
    /// Makes a guard that lets public places pass, and those of the settings.
    #[must_use]
    pub fn new(allow: Vec<AllowedTarget>) -> Self {
        Self { allow }
    }

    /// Reads a url and checks all that can be told without a lookup: the scheme, credentials, the
    /// host if it is an address in any spelling, and names that mean a place by themselves. Opens
    /// nothing; a name that passes is checked again when it has been resolved.
    ///
    /// # Errors
    /// [`Error::Url`] and [`Error::Blocked`].
    pub fn check_url(&self, text: &str) -> Result<Url, Error> {
        if text.len() > URL_BYTES_MAX {
            let limit = stdx::bytes(u64::try_from(URL_BYTES_MAX).unwrap_or(u64::MAX));
            return Err(error::url(text, format!("it has more than {limit}")));
        }
        let mut url = Url::parse(text).map_err(|error| error::url(text, error.to_string()))?;
        url.set_fragment(None);
        self.check_parsed(&url)?;
        Ok(url)
    }

    /// Checks a url that has been read, as [`Guard::check_url`] does.
    pub(crate) fn check_parsed(&self, url: &Url) -> Result<(), Error> {
        if !matches!(url.scheme(), "http" | "https") {
            let reason = "only http and https are fetched";
            return Err(error::url(url.as_str(), reason));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let reason = "a name or password in a url is not sent; leave it out";
            return Err(error::url(url.as_str(), reason));
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(error::url(url.as_str(), "it has no host"));
        };
        if port == 0 {
            return Err(error::url(url.as_str(), "there is no port 0"));
        }
        self.check_host(&host.to_owned(), port).map(|_| ())
    }

    /// Checks a host before its name is resolved.
    fn check_host(&self, host: &Host<String>, port: u16) -> Result<Target, Error> {
        let name = match host {
            Host::Domain(name) => name.strip_suffix('.').unwrap_or(name),
            Host::Ipv4(address) => return self.check_literal(host, IpAddr::V4(*address), port),
            Host::Ipv6(address) => return self.check_literal(host, IpAddr::V6(*address), port),
        };
        if !is_name(name) {
            return Err(error::url(name, "the host is no name"));
        }
        let name = name.to_ascii_lowercase();
        if let Some(class) = classify_name(&name)
            && !self.allow.iter().any(|allowed| allowed.opens_name(&name, port))
        {
            return Err(Box::new(Blocked { host: name, port, address: None, class }).into());
        }
        Ok(Target::Name(name))
    }

    fn check_literal(
        &self,
        host: &Host<String>,
        address: IpAddr,
        port: u16,
    ) -> Result<Target, Error> {
        self.check_address(None, address, port).map_err(|class| {
            Box::new(Blocked { host: host.to_string(), port, address: Some(address), class })
        })?;
        Ok(Target::Address(address.to_canonical()))
    }

    /// The heart of it: may this address be connected?
    fn check_address(
        &self,
        name: Option<&str>,
        address: IpAddr,
        port: u16,
    ) -> Result<(), AddressClass> {
        let class = classify(address);
        let is_open = class == AddressClass::Public
            || self.allow.iter().any(|allowed| allowed.opens(name, address, port));
        if is_open { Ok(()) } else { Err(class) }
    }

    /// Resolves a host and returns its addresses, every one of which may be connected. An answer
    /// that has one forbidden address is refused as a whole: who mixes them means harm.
    ///
    /// The host is read anew, so that whatever read it before cannot disagree with the check.
    ///
    /// # Errors
    /// [`Error::Url`], [`Error::Blocked`] and [`Error::Lookup`].
    pub async fn addresses(
        &self,
        host: &str,
        port: u16,
        resolver: &dyn Resolve,
    ) -> Result<Vec<SocketAddr>, Error> {
        let parsed = Host::parse(host).map_err(|error| error::url(host, error.to_string()))?;
        let name = match self.check_host(&parsed, port)? {
            Target::Address(address) => return Ok(vec![SocketAddr::new(address, port)]),
            Target::Name(name) => name,
        };
        let found = lookup(&name, resolver).await?;
        for address in &found {
            self.check_address(Some(&name), *address, port).map_err(|class| {
                let host = name.clone();
                Box::new(Blocked { host, port, address: Some(*address), class })
            })?;
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

/// Tells whether a text is a name as name servers know them: letters, digits, hyphens and
/// underscores between single dots. Urls may have far more in that place, and every resolver has
/// its own idea of what it means.
pub(crate) fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.bytes().all(fits)
    };
    text.split('.').all(is_label)
}

/// What a host is once it has passed.
enum Target {
    Address(IpAddr),
    Name(String),
}

/// Resolves a name without any check: for places that the settings name.
pub(crate) async fn lookup(name: &str, resolver: &dyn Resolve) -> Result<Vec<IpAddr>, Error> {
    let failed = |reason: String| Error::Lookup { host: name.to_owned(), reason };
    let found = resolver.resolve(name).await.map_err(|error| failed(error::root(&error)))?;
    if found.is_empty() {
        return Err(failed("the name has no address".to_owned()));
    }
    if found.len() > ADDRESSES_MAX {
        return Err(failed(format!("the name has more than {ADDRESSES_MAX} addresses")));
    }
    Ok(found.into_iter().map(|address| address.to_canonical()).collect())
}
