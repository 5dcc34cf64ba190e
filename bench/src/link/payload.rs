//! The bytes that are moved, and the proof that they were.

use fastrand::Rng;
use zerocopy::IntoBytes;

/// Checksums are taken over blocks of this many bytes, a cache line.
pub(super) const BLOCK: usize = 64;

type Block = [u64; BLOCK / 8];

/// A checksum over blocks in their order: a block lost, repeated, moved or changed shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest(u64);

impl Digest {
    /// Adds one block.
    #[inline]
    pub(super) fn add(&mut self, block: &[u8; BLOCK]) {
        let block: Block = zerocopy::transmute!(*block);
        let sum = block.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
        self.0 = self.0.rotate_left(5).wrapping_add(sum);
    }

    /// Adds all whole blocks of `bytes`; returns how many bytes they were.
    #[inline]
    pub(super) fn add_all(&mut self, bytes: &[u8]) -> usize {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for block in blocks {
            self.add(block);
        }
        bytes.len() - rest.len()
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }
}

/// Messages of one size to send in turn, different in every round.
pub(super) struct Source {
    blocks: Vec<Block>,
    message_len: usize,
    /// Turns a message's number into its place; the count is a power of two.
    mask: usize,
}

impl Source {
    /// `messages` messages of `message_len` bytes, made from `seed`.
    pub(super) fn new(seed: u64, messages: usize, message_len: usize) -> Self {
        assert!(message_len.is_multiple_of(BLOCK) && messages.is_power_of_two(), "whole blocks");
        let mut rng = Rng::with_seed(seed);
        let blocks = (0..messages * message_len / BLOCK).map(|_| core::array::from_fn(|_| rng.u64(..)));
        Self { blocks: blocks.collect(), message_len, mask: messages - 1 }
    }

    /// All messages, one after the other.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.blocks.as_bytes()
    }

    /// The message that is sent as number `number`; they come round again.
    #[inline]
    pub(super) fn message(&self, number: u64) -> &[u8] {
        let index = number as usize & self.mask;
        &self.bytes()[index * self.message_len..][..self.message_len]
    }

    /// What a receiver of `count` messages must come to.
    pub(super) fn digest(&self, count: u64) -> Digest {
        let mut digest = Digest::default();
        for number in 0..count {
            digest.add_all(self.message(number));
        }
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_tells_order_loss_and_change() {
        let source = Source::new(7, 4, 128);
        let whole = source.digest(6);
        assert_ne!(whole, source.digest(5));
        assert_ne!(whole, Source::new(8, 4, 128).digest(6));
        let mut swapped = Digest::default();
        for number in [1, 0, 2, 3, 4, 5] {
            swapped.add_all(source.message(number));
        }
        assert_ne!(whole, swapped);
    }

    #[test]
    fn messages_come_round_and_whole_blocks_are_counted() {
        let source = Source::new(1, 2, 64);
        assert_eq!(source.message(0), source.message(2));
        assert_eq!(Digest::default().add_all(&source.bytes()[..100]), 64);
    }
}
