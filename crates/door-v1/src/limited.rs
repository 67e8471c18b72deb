//! Texts, words, lists and objects that hold what their schema says.

pub(crate) use native_wire::limited::{List, Object, Text, Word};
