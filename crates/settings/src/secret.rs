//! A text that only its users may see.

use std::fmt;
use std::hint::black_box;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::{Literal, ValueError};

/// A text that is never shown: not by `Debug`, not by `--print-config`, not in an error.
#[derive(Clone)]
pub struct Secret(String);

/// What is shorter can be guessed.
const LEN_MIN: usize = 16;
/// What [`Secret::draw`] draws, in bytes.
const DRAWN_LEN: usize = 16;

/// What the secret of ranks begins with that need none.
pub(crate) const SIBLINGS: &str = "ranks-of-";

impl Secret {
    /// Keeps a text of at least 16 bytes.
    pub fn new(text: impl Into<String>) -> Result<Self, ValueError> {
        let text = text.into();
        if text.len() < LEN_MIN {
            return Err(ValueError::Secret { why: "it must have at least 16 characters" });
        }
        Ok(Self(text))
    }

    /// A new secret: 128 bits from the kernel.
    pub fn draw() -> Result<Self, Errno> {
        let mut bytes = [0; DRAWN_LEN];
        let len = getrandom(&mut bytes[..], GetRandomFlags::empty())?;
        if len < DRAWN_LEN {
            return Err(Errno::AGAIN);
        }
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Whether it only names the ranks of one machine, which meet where no other process is let in.
    pub(crate) fn is_guessable(&self) -> bool {
        self.0.starts_with(SIBLINGS)
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Secret {
    /// Compares without telling by its duration how much was right.
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.0.as_bytes(), other.0.as_bytes());
        let difference = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
        one.len() == other.len() && black_box(difference) == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Literal::Secret)
    }
}
