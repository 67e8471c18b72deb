//! workspace_suite
