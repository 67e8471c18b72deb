//! memory_store
