//! What the client answered for good: it is answered again without asking it.

use std::collections::VecDeque;

use protocol::event::PermissionRequest;

/// Calls that a person never wants to hear of again, by session: some dozens at most, and beyond
/// that the oldest are asked for again.
const REFUSED_MAX: usize = 256;

/// The kinds of calls that the client refused for as long as the session is open here, each by the
/// narrowest rule that would allow it.
#[derive(Debug, Default)]
pub(crate) struct Standing(VecDeque<String>);

impl Standing {
    /// Tells by which rule a call can be refused for good; none where there is no rule for it.
    pub(crate) fn rule_of(request: &PermissionRequest) -> Option<&String> {
        request.suggested_rules.first()
    }

    /// Refuses calls like this from now on.
    pub(crate) fn refuse(&mut self, request: &PermissionRequest) {
        let Some(rule) = Self::rule_of(request).filter(|rule| !self.0.contains(rule)) else {
            return;
        };
        if self.0.len() == REFUSED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(rule.clone());
    }

    /// Tells whether calls like this were refused for good.
    pub(crate) fn is_refused(&self, request: &PermissionRequest) -> bool {
        Self::rule_of(request).is_some_and(|rule| self.0.contains(rule))
    }
}
