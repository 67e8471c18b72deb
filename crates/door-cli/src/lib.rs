//! door-cli
