//! model_server
