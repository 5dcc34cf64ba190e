//! Messages as they arrive: many at once.

use std::marker::PhantomData;

use outboard_wire::Rank;
use outboard_wire::routing::MessageHead;

use crate::Plain;

/// Messages of one rank that have arrived together.
#[derive(Clone, Copy)]
pub struct Bundle<'a> {
    source: u32,
    rank: u32,
    bytes: &'a [u8],
}

impl<'a> Bundle<'a> {
    pub(super) fn new(source: u32, rank: u32, bytes: &'a [u8]) -> Self {
        Self { source, rank, bytes }
    }

    /// Whose messages they are.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// The bytes as they came, heads included: before each message eight bytes with its size and the rank that it is for,
    /// and after it as many as are missing to a multiple of eight.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many bytes they have, heads included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The messages, one after the other.
    pub fn messages(&self) -> Messages<'a> {
        Messages { bytes: self.bytes, rank: self.rank }
    }

    /// All messages as values, if each of them is one of `T`. Any of them can be looked at, so that what a later one needs
    /// can be fetched into the processor's cache before its turn comes.
    pub fn values<T: Plain>(&self) -> Option<Values<'a, T>> {
        let (stride, expected) = (MessageHead::stride(size_of::<T>()), self.head_of::<T>());
        let (heads, is_whole) = (self.bytes.chunks_exact(stride), self.bytes.len().is_multiple_of(stride));
        let is_right = |message: &[u8]| word(message) == expected;
        (is_whole && heads.fold(true, |all, message| all & is_right(message)))
            .then_some(Values { bytes: self.bytes, values: PhantomData })
    }

    /// The same for a bundle that has been looked at before.
    pub(super) fn known_values<T: Plain>(&self) -> Values<'a, T> {
        Values { bytes: self.bytes, values: PhantomData }
    }

    fn head_of<T>(&self) -> u64 {
        MessageHead { size: size_of::<T>() as u32, rank: Rank(self.rank) }.word()
    }
}

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => 0,
    }
}

/// The messages of a bundle.
#[derive(Clone)]
pub struct Messages<'a> {
    bytes: &'a [u8],
    rank: u32,
}

impl<'a> Iterator for Messages<'a> {
    /// The bytes of a message, or what is wrong with the rest.
    type Item = Result<&'a [u8], &'static str>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let MessageHead { size, rank } = MessageHead::from_word(word(self.bytes));
        let stride = MessageHead::stride(size as usize);
        if rank.0 != self.rank || stride > self.bytes.len() {
            self.bytes = &[];
            return Some(Err("a message that is for another rank, or longer than its bundle"));
        }
        let (message, rest) = self.bytes.split_at(stride);
        self.bytes = rest;
        Some(Ok(&message[MessageHead::LEN..MessageHead::LEN + size as usize]))
    }
}

/// The messages of a bundle, all of one type.
#[derive(Clone, Copy)]
pub struct Values<'a, T> {
    bytes: &'a [u8],
    values: PhantomData<T>,
}

impl<T: Plain> Values<'_, T> {
    const STRIDE: usize = MessageHead::stride(size_of::<T>());

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.len() / Self::STRIDE
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The value in a message, which is as long as all are.
    #[inline(always)]
    fn value(message: &[u8]) -> T {
        match T::read_from_prefix(&message[MessageHead::LEN..]) {
            Ok((value, _)) => value,
            Err(_) => unreachable!("a message is as long as its value"),
        }
    }

    /// One of them.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<T> {
        let at = index.checked_mul(Self::STRIDE)?.checked_add(MessageHead::LEN)?;
        let bytes = self.bytes.get(at..)?.get(..size_of::<T>())?;
        T::read_from_bytes(bytes).ok()
    }

    /// All of them, in order, each with the one that comes `ahead` places later, to prepare for it.
    #[inline(always)]
    pub fn for_each_with_later(&self, ahead: usize, mut handle: impl FnMut(T, Option<T>)) {
        let messages = self.bytes.chunks_exact(Self::STRIDE);
        let later = self.bytes.get(ahead.saturating_mul(Self::STRIDE)..).unwrap_or_default();
        let both = messages.len().min(later.len() / Self::STRIDE);
        // Two loops, neither of which asks whether there is a later one.
        for (message, later) in messages.clone().zip(later.chunks_exact(Self::STRIDE)) {
            handle(Self::value(message), Some(Self::value(later)));
        }
        messages.skip(both).for_each(|message| handle(Self::value(message), None));
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.bytes.chunks_exact(Self::STRIDE).map(Self::value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle_of(messages: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            let head = MessageHead { size: message.len() as u32, rank: Rank(3) };
            bytes.extend(head.word().to_le_bytes());
            bytes.extend(*message);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }

    #[test]
    fn messages_of_any_size_come_apart_again() {
        let messages: [&[u8]; 5] = [b"", b"a", b"eight by", b"nine byte", &[7; 100]];
        let bytes = bundle_of(&messages);
        let bundle = Bundle::new(0, 3, &bytes);
        assert_eq!(bundle.messages().collect::<Result<Vec<_>, _>>().unwrap(), messages);
        assert!(bundle.values::<u64>().is_none());
    }

    #[test]
    fn values_can_be_looked_at_in_any_order() {
        let words: Vec<[u8; 8]> = (0..10u64).map(u64::to_le_bytes).collect();
        let bytes = bundle_of(&words.iter().map(|word| &word[..]).collect::<Vec<_>>());
        let bundle = Bundle::new(0, 3, &bytes);
        let values = bundle.values::<u64>().unwrap();
        assert_eq!((values.len(), values.get(4), values.get(10)), (10, Some(4), None));
        let (mut handled, mut later) = (Vec::new(), Vec::new());
        values.for_each_with_later(3, |value, next| {
            handled.push(value);
            later.extend(next);
        });
        assert_eq!((handled, later), ((0..10).collect(), (3..10).collect()));
        assert!(bundle.values::<u32>().is_none() && bundle.values::<[u64; 2]>().is_none());
    }

    #[test]
    fn nonsense_ends_the_bundle() {
        let mut bytes = bundle_of(&[b"good", b"bad"]);
        bytes[16] = 200;
        let messages: Vec<_> = Bundle::new(0, 3, &bytes).messages().collect();
        assert!(messages.len() == 2 && messages[0] == Ok(&b"good"[..]) && messages[1].is_err());
        assert!(Bundle::new(0, 4, &bytes).messages().next().is_some_and(|first| first.is_err()), "not for 4");
    }
}
