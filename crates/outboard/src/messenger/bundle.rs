//! Messages as they arrive: many at once.

use std::marker::PhantomData;
use std::slice::ChunksExact;

use outboard_wire::Rank;
use outboard_wire::routing::{Form, MessageHead};

use crate::Plain;

/// Messages of one rank that have arrived together.
#[derive(Clone, Copy)]
pub struct Bundle<'a> {
    source: u32,
    rank: u32,
    bytes: &'a [u8],
    form: Form,
}

impl<'a> Bundle<'a> {
    /// The messages that a rank has sent to another one.
    pub(super) fn new((source, rank): (u32, u32), bytes: &'a [u8], form: Form) -> Self {
        Self { source, rank, bytes, form }
    }

    /// The rank that has sent them.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// The bytes as they came. Messages of [one size](Self::each) lie one behind the other; else there are eight bytes with
    /// its size and the rank that it is for before each. After each are as many as are missing to a multiple of eight.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The size that all messages have, if they came without heads.
    pub fn each(&self) -> Option<usize> {
        match self.form {
            Form::Equal(size) => Some(size.into()),
            _ => None,
        }
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
        Messages { bytes: self.bytes, rank: self.rank, each: self.each() }
    }

    /// All messages as values, if each of them is one of `T`. Any of them can be looked at, so that what a later one needs
    /// can be fetched into the processor's cache before its turn comes.
    pub fn values<T: Plain>(&self) -> Option<Values<'a, T>> {
        let values = self.known_values::<T>();
        let is_right = match self.each() {
            Some(size) => size == size_of::<T>(),
            None => {
                let expected = MessageHead { size: size_of::<T>() as u32, rank: Rank(self.rank) }.word();
                let mut heads = self.bytes.chunks_exact(values.stride());
                heads.by_ref().fold(true, |all, message| all & (word(message) == expected))
                    && heads.remainder().is_empty()
            }
        };
        is_right.then_some(values)
    }

    /// The messages of a bundle that has been looked at before.
    pub(super) fn known_values<T: Plain>(&self) -> Values<'a, T> {
        let head = if self.each().is_some() { 0 } else { MessageHead::LEN };
        Values { bytes: self.bytes, head, values: PhantomData }
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
    each: Option<usize>,
}

impl<'a> Iterator for Messages<'a> {
    /// The bytes of a message, or what is wrong with the rest.
    type Item = Result<&'a [u8], &'static str>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let (head, size, is_right) = match self.each {
            Some(size) => (0, size, true),
            None => {
                let MessageHead { size, rank } = MessageHead::from_word(word(self.bytes));
                (MessageHead::LEN, size as usize, rank.0 == self.rank)
            }
        };
        let stride = head + size.next_multiple_of(8);
        if !is_right || stride > self.bytes.len() {
            self.bytes = &[];
            return Some(Err("a message that is for another rank, or longer than its bundle"));
        }
        let (message, rest) = self.bytes.split_at(stride);
        self.bytes = rest;
        Some(Ok(&message[head..head + size]))
    }
}

impl<'a> IntoIterator for Bundle<'a> {
    type Item = Result<&'a [u8], &'static str>;
    type IntoIter = Messages<'a>;

    fn into_iter(self) -> Messages<'a> {
        self.messages()
    }
}

impl<'a> IntoIterator for &Bundle<'a> {
    type Item = Result<&'a [u8], &'static str>;
    type IntoIter = Messages<'a>;

    fn into_iter(self) -> Messages<'a> {
        self.messages()
    }
}

/// The messages of a bundle, all of one type.
#[derive(Clone, Copy)]
pub struct Values<'a, T> {
    bytes: &'a [u8],
    /// How many bytes are before each.
    head: usize,
    values: PhantomData<T>,
}

impl<T: Plain> Values<'_, T> {
    const SIZE: usize = size_of::<T>().next_multiple_of(8);

    #[inline(always)]
    fn stride(&self) -> usize {
        self.head + Self::SIZE
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        // Values without bytes always have heads.
        self.bytes.len() / self.stride().max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The value in a message, which is as long as all are.
    #[inline(always)]
    fn value(message: &[u8], head: usize) -> T {
        match T::read_from_prefix(&message[head..]) {
            Ok((value, _)) => value,
            Err(_) => unreachable!("a message is as long as its value"),
        }
    }

    /// One of them.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<T> {
        let at = index.checked_mul(self.stride())?.checked_add(self.head)?;
        let bytes = self.bytes.get(at..)?.get(..size_of::<T>())?;
        (index < self.len()).then(|| T::read_from_bytes(bytes).ok()).flatten()
    }

    /// All of them, in order, each with the one that comes `ahead` places later, to prepare for it.
    #[inline(always)]
    pub fn for_each_with_later(&self, ahead: usize, handle: impl FnMut(T, Option<T>)) {
        // Each loop is compiled for messages that lie so far apart.
        match self.head {
            0 if Self::SIZE > 0 => self.walk::<0>(ahead, handle),
            _ => self.walk::<{ MessageHead::LEN }>(ahead, handle),
        }
    }

    #[inline(always)]
    fn walk<const HEAD: usize>(&self, ahead: usize, mut handle: impl FnMut(T, Option<T>)) {
        let stride = HEAD + Self::SIZE;
        let messages = self.bytes.chunks_exact(stride);
        let later = self.bytes.get(ahead.saturating_mul(stride)..).unwrap_or_default();
        let both = messages.len().min(later.len() / stride);
        // Two loops, neither of which asks whether there is a later one.
        for (message, later) in messages.clone().zip(later.chunks_exact(stride)) {
            handle(Self::value(message, HEAD), Some(Self::value(later, HEAD)));
        }
        messages.skip(both).for_each(|message| handle(Self::value(message, HEAD), None));
    }
}

impl<'a, T: Plain> Values<'a, T> {
    /// All of them, in order.
    pub fn iter(&self) -> ValuesIter<'a, T> {
        let messages = self.bytes.chunks_exact(self.stride().max(1));
        ValuesIter { messages, head: self.head, values: PhantomData }
    }
}

/// The [values](Values) of a bundle, one after the other.
#[derive(Clone)]
pub struct ValuesIter<'a, T> {
    messages: ChunksExact<'a, u8>,
    head: usize,
    values: PhantomData<T>,
}

impl<T: Plain> Iterator for ValuesIter<'_, T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        let head = self.head;
        self.messages.next().map(|message| Values::value(message, head))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.messages.size_hint()
    }

    /// Without a question for each value whether there is one more.
    #[inline]
    fn fold<A, F: FnMut(A, T) -> A>(self, first: A, mut add: F) -> A {
        let head = self.head;
        self.messages.fold(first, |sum, message| add(sum, Values::value(message, head)))
    }
}

impl<T: Plain> ExactSizeIterator for ValuesIter<'_, T> {}

impl<'a, T: Plain> IntoIterator for Values<'a, T> {
    type Item = T;
    type IntoIter = ValuesIter<'a, T>;

    fn into_iter(self) -> ValuesIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Plain> IntoIterator for &Values<'a, T> {
    type Item = T;
    type IntoIter = ValuesIter<'a, T>;

    fn into_iter(self) -> ValuesIter<'a, T> {
        self.iter()
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
        let bundle = Bundle::new((0, 3), &bytes, Form::Messages);
        assert_eq!(bundle.messages().collect::<Result<Vec<_>, _>>().unwrap(), messages);
        assert!(bundle.values::<u64>().is_none());
    }

    #[test]
    fn values_can_be_looked_at_in_any_order() {
        let words: Vec<[u8; 8]> = (0..10u64).map(u64::to_le_bytes).collect();
        let bytes = bundle_of(&words.iter().map(|word| &word[..]).collect::<Vec<_>>());
        let bundle = Bundle::new((0, 3), &bytes, Form::Messages);
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
    fn bundles_and_values_are_iterated_as_they_are() {
        let words: Vec<[u8; 8]> = (0..10u64).map(u64::to_le_bytes).collect();
        let bytes = bundle_of(&words.iter().map(|word| &word[..]).collect::<Vec<_>>());
        let bundle = Bundle::new((0, 3), &bytes, Form::Messages);
        let (mut messages, mut values) = (0, Vec::new());
        for message in &bundle {
            messages += message.unwrap().len();
        }
        let all = bundle.values::<u64>().unwrap();
        for value in &all {
            values.push(value);
        }
        assert_eq!((messages, bundle.into_iter().count(), all.iter().len()), (80, 10, 10));
        assert_eq!((values, all.into_iter().sum::<u64>()), ((0..10).collect(), 45));
    }

    #[test]
    fn nonsense_ends_the_bundle() {
        let mut bytes = bundle_of(&[b"good", b"bad"]);
        bytes[16] = 200;
        let messages: Vec<_> = Bundle::new((0, 3), &bytes, Form::Messages).messages().collect();
        assert!(messages.len() == 2 && messages[0] == Ok(&b"good"[..]) && messages[1].is_err());
        assert!(
            Bundle::new((0, 4), &bytes, Form::Messages).messages().next().is_some_and(|first| first.is_err()),
            "not for 4"
        );
    }

    #[test]
    fn messages_of_one_size_need_no_heads() {
        let bytes: Vec<u8> = (0..48).collect();
        let bundle = Bundle::new((0, 3), &bytes, Form::Equal(12));
        let messages = bundle.messages().collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(messages, [&bytes[..12], &bytes[16..28], &bytes[32..44]]);
        assert!(bundle.values::<u64>().is_none(), "another size");
        let bundle = Bundle::new((0, 3), &bytes, Form::Equal(8));
        let values = bundle.values::<u64>().unwrap();
        assert_eq!((values.len(), values.get(5), values.get(6)), (6, values.iter().last(), None));
        let mut later = 0;
        values.for_each_with_later(2, |_, next| later += usize::from(next.is_some()));
        assert_eq!(later, 4);
    }
}
