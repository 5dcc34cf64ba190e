//! What the crate documentation promises, tested through the public interface.

mod any_input;
mod explaining;
mod exploring;
mod reaction;
mod smoothing;
mod steady;
mod world;
