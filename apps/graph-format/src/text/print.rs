//! Writes many numbers as text.

use std::io::{self, Write};
use std::ops::Range;

use rayon::prelude::*;

use crate::csr::Csr;
use crate::progress::FormatProgress;

/// Has all threads print rows, and writes what they printed in order.
pub(crate) fn print_rows(
    to: &mut impl Write,
    rows: &Csr,
    print: impl Fn(Range<usize>, &mut Vec<u8>) + Sync,
    progress: &dyn FormatProgress,
) -> io::Result<()> {
    /// Edges per piece of work, and pieces printed before they are written.
    const PIECE: usize = 1 << 15;
    const WINDOW: usize = 64;
    progress.begin("writing", (rows.vertices() + rows.edges()) as u64);
    let blocks = rows.blocks((rows.vertices() + rows.edges()).div_ceil(PIECE));
    for window in blocks.chunks(WINDOW) {
        let print_one = |block: &Range<usize>| {
            let mut text = Vec::new();
            print(block.clone(), &mut text);
            text
        };
        let texts: Vec<Vec<u8>> = window.par_iter().map(print_one).collect();
        for (text, block) in texts.iter().zip(window) {
            to.write_all(text)?;
            let edges = rows.offsets()[block.end] - rows.offsets()[block.start];
            progress.advance(edges + block.len() as u64);
        }
    }
    Ok(())
}

/// Adds a number in decimal digits, and what follows it.
pub(crate) fn push_number(text: &mut Vec<u8>, mut number: u64, then: u8) {
    let mut digits = [0; 20];
    let mut begin = digits.len();
    loop {
        begin -= 1;
        digits[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[begin..]);
    text.push(then);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_digits() {
        let mut text = Vec::new();
        for number in [0, 9, 10, 4_294_967_295, u64::MAX] {
            push_number(&mut text, number, b' ');
        }
        assert_eq!(text, b"0 9 10 4294967295 18446744073709551615 ");
    }
}
