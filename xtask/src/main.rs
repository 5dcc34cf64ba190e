//! Every habit of the project as a command.
fn main() {}
