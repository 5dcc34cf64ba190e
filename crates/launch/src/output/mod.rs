//! What processes print, on its way to the person who started them.

mod console;
mod lines;
mod sink;

pub use console::{Console, Style};
pub(crate) use lines::{Cut, LineSplitter};
pub use sink::{Acceptance, OutputSource, Piece, Sink, Stream};
