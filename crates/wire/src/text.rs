//! Short texts in fixed places.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::DecodeError;

/// Up to `N` bytes of UTF-8, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// As much of `text` as fits, cut between characters. Zero characters end it.
    pub fn new(text: &str) -> Self {
        let text = text.split('\0').next().unwrap_or_default();
        let end = (0..=N.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let mut bytes = [0; N];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Self(bytes)
    }

    /// The text, if it fits as it is: for names, where a part would be another name.
    pub fn exact(text: &str) -> Option<Self> {
        let whole = Self::new(text);
        (whole.as_str() == text).then_some(whole)
    }

    /// Whether a peer sent UTF-8 with nothing after the padding begins.
    pub(crate) fn check(&self, what: &'static str) -> Result<(), DecodeError> {
        let len = self.len();
        let stray = self.0[len..].iter().find(|byte| **byte != 0);
        match (core::str::from_utf8(&self.0[..len]), stray) {
            (Ok(_), None) => Ok(()),
            (Ok(_), Some(byte)) => Err(DecodeError::BadValue { what, value: (*byte).into() }),
            (Err(error), _) => Err(DecodeError::BadValue { what, value: self.0[error.valid_up_to()].into() }),
        }
    }

    /// The text with its padding.
    pub fn padded(&self) -> &[u8; N] {
        &self.0
    }

    fn len(&self) -> usize {
        self.0.iter().position(|byte| *byte == 0).unwrap_or(N)
    }

    /// The text; what is not UTF-8 is left out.
    pub fn as_str(&self) -> &str {
        let bytes = &self.0[..self.len()];
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_characters_and_refuses_bytes_behind_the_padding() {
        assert_eq!(Text::<4>::new("añño").as_str(), "añ");
        assert_eq!(Text::<8>::new("ab\0cd").as_str(), "ab");
        assert!(Text::<4>::exact("full").is_some() && Text::<4>::exact("longer").is_none());
        assert!(Text::<4>(*b"a\0b\0").check("name").is_err());
        assert!(Text::<2>([0xff, 0]).check("name").is_err());
        assert!(Text::<4>::new("full").check("name").is_ok());
    }
}
