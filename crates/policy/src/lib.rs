//! May this call run? Allow, ask or deny, and why.
//!
//! **What**: [`Rule`]s, [`Layer`]s of them, the [`Policy`] that the layers make together, the
//! [`Verdict`] on one [`Call`], and its [`Explanation`].
//! **Knows** `protocol`.
//! **Never** does I/O, never waits, never looks a path up: real paths are facts that come with the
//! call.
//!
//! How a verdict comes about, strongest first:
//!
//! 1. A deny rule of any layer.
//! 2. Plan mode, which refuses edits and commands whatever the rules allow.
//! 3. Ask and allow rules: the stronger layer wins, within one layer ask wins.
//! 4. The mode.
//!
//! A call of many parts (the commands of a list, the files of a patch) is judged part by part and
//! gets the strictest of the verdicts. What cannot be decided is asked for.
#![deny(missing_docs)]

mod by_mode;
mod call;
mod judge;
mod keep;
mod layer;
mod place;
mod risk;
mod rule;
mod shell;
mod suggest;
mod tool_name;
mod verdict;
mod wildcard;

pub use call::{Call, Homes, PathUse};
pub use judge::{Explanation, LayerShare, List, Mention, ModeSays, PartExplanation, Policy};
pub use layer::{Layer, LayerName, covers_models};
pub use risk::risk;
pub use rule::{Rule, RuleError};
pub use tool_name::{UnknownTool, canonical, is_always_asked, nearest};
pub use verdict::{Decision, Verdict};
