//! Far memory through an agent, with real daemons and links.

mod attaching;
mod fetching;
mod losing;
mod random;
mod statics;
mod support;
mod writing;
