//! Makes new inputs from old ones, the same ones for the same seed.

use fastrand::Rng;

/// Longest input made, in bytes. Longer ones say nothing new about decoders of headers.
const LEN_MAX: usize = 4096;

/// Values at which lengths, counts and offsets go wrong.
const EDGES: [u64; 9] =
    [0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000_0000_0000, 0xffff_ffff_ffff_fff8];

/// A source of inputs that resemble the seeds it was given.
pub struct Mutator {
    rng: Rng,
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    /// A mutator whose inputs depend on `seed` and `seeds` alone.
    pub fn new(seed: u64, seeds: Vec<Vec<u8>>) -> Self {
        Self { rng: Rng::with_seed(seed), seeds }
    }

    /// The next input: a seed with one to eight changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.any_seed();
        for _ in 0..self.rng.usize(1..=8) {
            self.change(&mut input);
        }
        input.truncate(LEN_MAX);
        input
    }

    fn any_seed(&mut self) -> Vec<u8> {
        match self.seeds.len() {
            0 => Vec::new(),
            count => self.seeds[self.rng.usize(..count)].clone(),
        }
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.rng.usize(..=input.len());
        let len = self.rng.usize(..=(input.len() - at).min(16));
        match self.rng.u8(..8) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..at + len)),
            2 => {
                let copy = input[at..at + len].to_vec();
                let to = self.rng.usize(..=input.len());
                drop(input.splice(to..to, copy));
            }
            3 => {
                let other = self.any_seed();
                let from = self.rng.usize(..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            4 => input.insert(at, self.rng.u8(..)),
            5 => self.overwrite_with_edge(&mut input[at..]),
            _ if at == input.len() => input.push(self.rng.u8(..)),
            6 => input[at] = self.rng.u8(..),
            _ => input[at] ^= 1 << self.rng.u8(..8),
        }
    }

    /// Writes a value from [`EDGES`], or one next to it, over the first 1, 2, 4 or 8 bytes.
    fn overwrite_with_edge(&mut self, input: &mut [u8]) {
        let value = EDGES[self.rng.usize(..EDGES.len())].wrapping_add(self.rng.u64(..3)).wrapping_sub(1);
        let width = 1 << self.rng.u8(..4);
        for (byte, edge) in input.iter_mut().zip(value.to_le_bytes()).take(width) {
            *byte = edge;
        }
    }
}
