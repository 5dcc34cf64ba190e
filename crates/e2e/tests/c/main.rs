//! The library for C and C++.
#[test]
fn nothing() {}
