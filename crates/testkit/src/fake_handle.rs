//! fake_handle
