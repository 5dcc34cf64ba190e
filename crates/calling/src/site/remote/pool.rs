//! Memory that links move bytes of accesses into and out of.

use outboard_contract::memory::{Buffer, Window, WindowMut};

/// How many bytes are asked of the operating system at once.
const CHUNK: usize = 256 << 10;
/// Lengths of pieces. The last is as long as the longest access of a function.
const LENGTHS: [usize; 2] = [1 << 10, 16 << 10];

/// A piece of a pool's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    class: usize,
    chunk: u32,
    offset: u32,
}

/// Pieces of memory, made once and used for many accesses.
#[derive(Default)]
pub(super) struct Pool {
    chunks: [Vec<Buffer>; LENGTHS.len()],
    free: [Vec<Piece>; LENGTHS.len()],
}

impl Pool {
    /// A piece of at least so many bytes, if there is any so long and the operating system has memory.
    pub(super) fn take(&mut self, length: usize) -> Option<Piece> {
        let class = LENGTHS.iter().position(|most| length <= *most)?;
        if self.free[class].is_empty() {
            let chunk = self.chunks[class].len() as u32;
            self.chunks[class].push(Buffer::allocate(CHUNK).ok()?);
            let offsets = (0..CHUNK as u32).step_by(LENGTHS[class]);
            self.free[class].extend(offsets.map(|offset| Piece { class, chunk, offset }));
        }
        self.free[class].pop()
    }

    pub(super) fn give_back(&mut self, piece: Piece) {
        self.free[piece.class].push(piece);
    }

    /// Where a piece is.
    pub(super) fn place(&self, piece: Piece) -> (&Buffer, usize) {
        (&self.chunks[piece.class][piece.chunk as usize], piece.offset as usize)
    }

    pub(super) fn window(&self, piece: Piece, length: usize) -> Window<'_> {
        let (buffer, offset) = self.place(piece);
        buffer.window().part(offset, length)
    }

    pub(super) fn window_mut(&self, piece: Piece, length: usize) -> WindowMut<'_> {
        let (buffer, offset) = self.place(piece);
        buffer.window_mut().part(offset, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_overlap_and_are_used_again() {
        let mut pool = Pool::default();
        let pieces: Vec<Piece> = (0..600).map(|number| pool.take(1 + number % 2000).unwrap()).collect();
        for (number, piece) in pieces.iter().enumerate() {
            pool.window_mut(*piece, 8).write(0, &number.to_le_bytes());
        }
        for (number, piece) in pieces.iter().enumerate() {
            assert_eq!(pool.window(*piece, 8).array(0), number.to_le_bytes());
        }
        let chunks = pool.chunks.each_ref().map(Vec::len);
        pieces.iter().for_each(|piece| pool.give_back(*piece));
        assert!((0..600).all(|number| pool.take(1 + number % 2000).is_some()));
        assert_eq!(pool.chunks.each_ref().map(Vec::len), chunks);
        assert!(pool.take((16 << 10) + 1).is_none());
    }
}
