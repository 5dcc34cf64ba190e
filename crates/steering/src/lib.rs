//! Steering.
