//! The wheel in a clean virtual environment.
#[test]
fn x() {}
