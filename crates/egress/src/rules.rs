//! What a neuron may reach, read once.

use std::collections::HashSet;
use std::fmt;

use driver_api::{Egress, EgressRule};
use http::Method;
use outbound::{AllowedTarget, Guard};

use crate::error::EgressError;
use crate::refusal::Refusal;
use crate::rules::credential::{Credential, Placeholder};
use crate::target::{Place, Target};

pub(crate) mod credential;
#[cfg(test)]
mod tests;

/// Rules of one neuron: each request walks through all of them.
const RULES_MAX: usize = 512;

/// Credentials of one neuron.
const CREDENTIALS_MAX: usize = 64;

/// Ports of a rule that names none: what `http://` and `https://` mean.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// Methods that are never let through. `TRACE` asks for the request as it came, credential
/// included; `CONNECT` is not for a server.
const NEVER: [Method; 2] = [Method::TRACE, Method::CONNECT];

/// One host, or all names beneath one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pattern {
    One(Place),
    Below(String),
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let Some(tail) = text.strip_prefix("*.") else {
            if text == "*" {
                return Err("it would open everything: name hosts".to_owned());
            }
            if text.contains("://") || text.contains('/') {
                return Err(format!("{text:?} is an address: write the host alone"));
            }
            // An address of IPv6 is taken with and without its brackets.
            let is_bare = text.parse::<std::net::Ipv6Addr>().is_ok();
            let bracketed = is_bare.then(|| format!("[{text}]"));
            let bracketed = bracketed.as_deref().unwrap_or(text);
            if !bracketed.starts_with('[') && bracketed.contains(':') {
                return Err(format!("{text:?} has a port: write it as `port` of the rule"));
            }
            let place = Place::parse(bracketed).map_err(|_| wrong_host(text))?;
            return Ok(Pattern::One(place));
        };
        match Place::parse(tail) {
            Ok(Place::Name(name)) => Ok(Pattern::Below(name)),
            _ => Err(wrong_host(text)),
        }
    }

    /// Tells whether a place is meant. What stands for the names beneath a name is not the name.
    pub(crate) fn covers(&self, place: &Place) -> bool {
        match (self, place) {
            (Pattern::One(own), place) => own == place,
            (Pattern::Below(tail), Place::Name(name)) => name
                .strip_suffix(tail.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            (Pattern::Below(_), Place::Address(_)) => false,
        }
    }

    /// Orders patterns from the one that says least to the one that says most.
    pub(crate) fn precision(&self) -> usize {
        match self {
            Pattern::One(_) => usize::MAX,
            Pattern::Below(tail) => tail.len(),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::One(place) => write!(f, "{place}"),
            Pattern::Below(tail) => write!(f, "*.{tail}"),
        }
    }
}

fn wrong_host(text: &str) -> String {
    format!("{text:?} is no host: write api.example.com, *.example.com or an address")
}

#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    port: Option<u16>,
    /// All where empty.
    methods: Vec<Method>,
    /// What the guard has to let through beside public places.
    opens: Option<AllowedTarget>,
}

impl Rule {
    fn read(rule: &EgressRule, place: &str) -> Result<Self, EgressError> {
        let host = |reason: String| EgressError::rule(format!("{place}.host"), reason);
        let pattern = Pattern::parse(&rule.host).map_err(host)?;
        if rule.port == Some(0) {
            return Err(EgressError::rule(format!("{place}.port"), "there is no port 0"));
        }
        let mut methods = Vec::new();
        for method in &rule.methods {
            let read = Method::from_bytes(method.to_ascii_uppercase().as_bytes());
            match read {
                Ok(method) if !NEVER.contains(&method) => methods.push(method),
                _ => {
                    let reason = format!("{method:?} is no method to allow: write GET, POST …");
                    return Err(EgressError::rule(format!("{place}.methods"), reason));
                }
            }
        }
        let opens = rule.allows_private.then(|| pattern.to_string().parse::<AllowedTarget>());
        let opens = opens.transpose().map_err(|error| host(error.to_string()))?;
        Ok(Self { pattern, port: rule.port, methods, opens })
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.map_or(USUAL_PORTS.contains(&port), |own| own == port)
    }

    fn has_method(&self, method: &Method) -> bool {
        self.methods.is_empty() || self.methods.contains(method)
    }
}

/// How a `CONNECT` goes on.
#[derive(Debug)]
pub(crate) enum Passage {
    /// Bytes pass through unread.
    Through(Guard),
    /// TLS ends here, and each request inside is judged.
    Inside,
}

/// What a neuron may reach.
#[derive(Debug)]
pub(crate) struct Rules {
    allow: Vec<Rule>,
    /// The most precise first.
    credentials: Vec<Credential>,
    /// Placeholders that commands know and that no credential is behind any more.
    orphans: Vec<Placeholder>,
}

impl Rules {
    /// Reads them. `known` are the placeholders that commands know already.
    ///
    /// # Errors
    /// [`EgressError::Rule`] names the field.
    pub(crate) fn read(egress: &Egress, known: Vec<Placeholder>) -> Result<Self, EgressError> {
        if egress.allow.len() > RULES_MAX {
            let reason = format!("more than {RULES_MAX} rules: join hosts by `*.`");
            return Err(EgressError::rule("egress.allow", reason));
        }
        if egress.credentials.len() > CREDENTIALS_MAX {
            let reason = format!("more than {CREDENTIALS_MAX} credentials");
            return Err(EgressError::rule("egress.credentials", reason));
        }
        let mut allow = Vec::new();
        for (at, rule) in egress.allow.iter().enumerate() {
            allow.push(Rule::read(rule, &format!("egress.allow[{at}]"))?);
        }
        let (mut credentials, mut set, mut variables) =
            (Vec::new(), HashSet::new(), HashSet::new());
        for (at, credential) in egress.credentials.iter().enumerate() {
            let place = format!("egress.credentials[{at}]");
            let pattern = Pattern::parse(&credential.host)
                .map_err(|reason| EgressError::rule(format!("{place}.host"), reason))?;
            let credential = Credential::read(credential, pattern, (&place, &known))?;
            if !set.insert((credential.pattern.clone(), credential.header.clone())) {
                let reason = "another credential sets this header for this host";
                return Err(EgressError::rule(format!("{place}.header"), reason));
            }
            let variable = credential.variable().map(str::to_owned);
            if variable.is_some_and(|variable| !variables.insert(variable)) {
                let reason = "another credential has this variable";
                return Err(EgressError::rule(format!("{place}.variable"), reason));
            }
            credentials.push(credential);
        }
        credentials.sort_by_key(|credential| std::cmp::Reverse(credential.pattern.precision()));
        let orphans = known.into_iter().filter(|known| !variables.contains(&known.variable));
        Ok(Self { allow, credentials, orphans: orphans.collect() })
    }

    /// The placeholders that commands know, each with its credential where there is one.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (&Placeholder, Option<&Credential>)> {
        let own = self.credentials.iter();
        let own =
            own.filter_map(|own| own.placeholder().map(|placeholder| (placeholder, Some(own))));
        own.chain(self.orphans.iter().map(|orphan| (orphan, None)))
    }

    /// All credentials.
    pub(crate) fn credentials(&self) -> &[Credential] {
        &self.credentials
    }

    /// The credentials of a host: one for each header, from the most precise rule.
    pub(crate) fn credentials_for(&self, place: &Place) -> Vec<&Credential> {
        let mut found: Vec<&Credential> = Vec::new();
        for credential in self.credentials.iter().filter(|own| own.pattern.covers(place)) {
            if !found.iter().any(|other| other.header == credential.header) {
                found.push(credential);
            }
        }
        found
    }

    /// Judges a request whose method is seen. Returns what its addresses are judged by.
    pub(crate) fn request(&self, target: &Target, method: &Method) -> Result<Guard, Refusal> {
        if NEVER.contains(method) {
            let reason = format!("the method {method} is never let through");
            return Err(Refusal::forbidden(reason));
        }
        let rules = self.rules(target)?;
        let allowing: Vec<_> =
            rules.iter().copied().filter(|rule| rule.has_method(method)).collect();
        if allowing.is_empty() {
            let method = crate::refusal::shown(method.as_str());
            let reason = format!(
                "the method {method} is not allowed for {} (allowed: {})",
                target.place,
                methods(&rules)
            );
            return Err(Refusal::forbidden(reason));
        }
        Ok(guard(&allowing))
    }

    /// Judges a request to go on as a web socket. What goes over one is not seen, so that it takes
    /// a rule for all methods.
    pub(crate) fn web_socket(&self, target: &Target) -> Result<Guard, Refusal> {
        let rules = self.rules(target)?;
        let unlimited: Vec<_> =
            rules.iter().copied().filter(|rule| rule.methods.is_empty()).collect();
        if unlimited.is_empty() {
            let reason = format!(
                "the methods for {} are limited ({}), and what goes over a web socket is not seen: \
                 its rule would have to allow all",
                target.place,
                methods(&rules)
            );
            return Err(Refusal::forbidden(reason));
        }
        Ok(guard(&unlimited))
    }

    /// Judges a `CONNECT`.
    pub(crate) fn connect(&self, target: &Target) -> Result<Passage, Refusal> {
        let rules = self.rules(target)?;
        if self.credentials.iter().any(|credential| credential.pattern.covers(&target.place)) {
            return Ok(Passage::Inside);
        }
        let unlimited: Vec<_> =
            rules.iter().copied().filter(|rule| rule.methods.is_empty()).collect();
        if unlimited.is_empty() {
            let reason = format!(
                "the methods for {} are limited ({}), and are not seen inside of TLS: its rule \
                 would have to allow all, or a credential to be set for it",
                target.place,
                methods(&rules)
            );
            return Err(Refusal::forbidden(reason));
        }
        Ok(Passage::Through(guard(&unlimited)))
    }

    /// The rules for a host and port; there is at least one.
    fn rules(&self, target: &Target) -> Result<Vec<&Rule>, Refusal> {
        let place = &target.place;
        let of_host: Vec<_> = self.allow.iter().filter(|rule| rule.pattern.covers(place)).collect();
        if of_host.is_empty() {
            let reason = format!("{place} is not in the allow list of this neuron");
            return Err(Refusal::forbidden(reason));
        }
        let fitting: Vec<_> =
            of_host.iter().copied().filter(|rule| rule.has_port(target.port)).collect();
        if fitting.is_empty() {
            let mut ports: Vec<u16> = of_host
                .iter()
                .flat_map(|rule| rule.port.map_or(USUAL_PORTS.to_vec(), |port| vec![port]))
                .collect();
            ports.sort_unstable();
            ports.dedup();
            let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            let reason =
                format!("the port {} is not allowed for {place} (allowed: {ports})", target.port);
            return Err(Refusal::forbidden(reason));
        }
        Ok(fitting)
    }
}

fn guard(rules: &[&Rule]) -> Guard {
    Guard::new(rules.iter().filter_map(|rule| rule.opens.clone()).collect())
}

fn methods(rules: &[&Rule]) -> String {
    let mut names: Vec<&str> =
        rules.iter().flat_map(|rule| rule.methods.iter().map(Method::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}
