//! Texts of many numbers, read and written by all threads.

mod cursor;
mod print;
mod scan;

pub(crate) use cursor::{Bad, Cursor, is_space, shown};
pub(crate) use print::{print_rows, push_number};
pub(crate) use scan::{BadLine, Block, each_line, is_line_end, scan};
