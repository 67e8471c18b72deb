//! Labels: few values each, whatever people name their models and tools.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;

/// How many different values a label that comes from outside may have. A time series is kept for
/// each; what is beyond shares one.
const VALUES_MAX: usize = 200;

/// What stands for all values beyond the limit.
const OTHER: &str = "other";

/// What stands for tools that do not exist: models make names up.
const UNKNOWN: &str = "unknown";

/// Characters of a tool's name that are kept: more than any provider lets a tool have.
const TOOL_NAME_CHARS_MAX: usize = 128;

/// The methods that HTTP defines. Strangers may send any word.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];

/// Returns a method that HTTP defines, or `other`.
pub(crate) fn method(name: &str) -> &'static str {
    METHODS.into_iter().find(|known| *known == name).unwrap_or(OTHER)
}

/// The values of one label so far.
#[derive(Debug, Default)]
pub(crate) struct Values(Mutex<BTreeSet<String>>);

impl Values {
    /// Returns the value, or `other` where there are too many already.
    pub(crate) fn bounded(&self, value: &str) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(value) {
            return value.to_owned();
        }
        if known.len() >= VALUES_MAX {
            return OTHER.to_owned();
        }
        known.insert(value.to_owned());
        value.to_owned()
    }

    fn has(&self, value: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(value)
    }
}

/// The names of tools that exist. A name that a model called is in here only once a tool was found
/// for it.
#[derive(Debug, Default)]
pub(crate) struct Tools(Values);

impl Tools {
    /// Takes note of a tool that exists.
    pub(crate) fn learn(&self, name: &str) {
        if name.chars().nth(TOOL_NAME_CHARS_MAX).is_none() {
            let _known = self.0.bounded(name);
        }
    }

    /// Returns the name of a tool that exists, or `unknown`.
    pub(crate) fn known(&self, name: &str) -> String {
        let is_known = self.0.has(name);
        if is_known { name.to_owned() } else { UNKNOWN.to_owned() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Reason {
    pub(crate) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByModel {
    pub(crate) model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Tokens {
    pub(crate) model: String,
    pub(crate) kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Calls {
    pub(crate) tool: String,
    pub(crate) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByTool {
    pub(crate) tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Denied {
    pub(crate) by: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Decided {
    pub(crate) kind: &'static str,
    pub(crate) outcome: &'static str,
    pub(crate) by: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Kind {
    pub(crate) kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Http {
    pub(crate) method: &'static str,
    pub(crate) route: String,
    pub(crate) status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct State {
    pub(crate) state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Build {
    pub(crate) version: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_a_bounded_number_of_values() {
        let values = Values::default();
        for number in 0..VALUES_MAX {
            assert_eq!(values.bounded(&number.to_string()), number.to_string());
        }
        assert_eq!(values.bounded("one more"), OTHER);
        assert_eq!(values.bounded("7"), "7", "what is known stays");
    }

    #[test]
    fn a_method_is_one_of_http_or_other() {
        assert_eq!(method("PATCH"), "PATCH");
        for stranger in ["", "get", "PROPFIND", "X-7f3a"] {
            assert_eq!(method(stranger), OTHER, "{stranger}");
        }
    }

    #[test]
    fn only_a_tool_that_exists_is_named() {
        let tools = Tools::default();
        tools.learn("run_shell");
        let long = "x".repeat(TOOL_NAME_CHARS_MAX + 1);
        tools.learn(&long);
        assert_eq!(tools.known("run_shell"), "run_shell");
        assert_eq!(tools.known("rm -rf my secret"), UNKNOWN);
        assert_eq!(tools.known(&long), UNKNOWN);
    }
}
