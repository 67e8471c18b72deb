//! The tasks of the menu, one file each.

pub(crate) mod acceptance;
pub(crate) mod churn;
pub(crate) mod ci;
pub(crate) mod codegen;
pub(crate) mod conformance;
pub(crate) mod demo;
pub(crate) mod fuzz;
pub(crate) mod sdk;
pub(crate) mod suite;
