//! Reads numbers from a line.

use crate::csr::VERTICES_MAX;

/// A place in a text.
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

/// Something else is there than should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// What separates words.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// A word as a message can show it: not too long, and nothing that a terminal would obey.
pub(crate) fn shown(word: &[u8]) -> String {
    const LONGEST: usize = 24;
    let text: String = word
        .iter()
        .take(LONGEST)
        .flat_map(|byte| std::ascii::escape_default(*byte))
        .map(char::from)
        .collect();
    format!("`{text}{}`", if word.len() > LONGEST { "…" } else { "" })
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Goes to the next word of this line. Returns its first byte, or `None` if there is no other.
    pub(crate) fn word_begin(&mut self) -> Option<u8> {
        while let Some(byte) = self.byte() {
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\n' => return None,
                other => return Some(other),
            }
        }
        None
    }

    /// Goes to the next word, whatever lines it crosses, and counts them. Returns whether there is one.
    pub(crate) fn any_word_begin(&mut self, lines: &mut u64) -> bool {
        while let Some(byte) = self.byte() {
            if !is_space(byte) {
                return true;
            }
            *lines += u64::from(byte == b'\n');
            self.at += 1;
        }
        false
    }

    /// Takes the next word of this line, which may be empty.
    pub(crate) fn word(&mut self) -> &'a [u8] {
        self.word_begin();
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|byte| is_space(*byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Takes what is left of this line.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Goes to the next line. Returns whether there is one.
    pub(crate) fn next_line(&mut self) -> bool {
        self.rest();
        self.at += 1;
        self.at < self.text.len()
    }

    /// Takes a number of this line.
    pub(crate) fn number(&mut self, expected: &str) -> Result<u64, Bad> {
        self.word_begin();
        let begin = self.at;
        let mut number = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        // Nineteen digits always fit into 64 bits, and no file means a longer number.
        let is_number = (1..=19).contains(&(self.at - begin)) && self.byte().is_none_or(is_space);
        if is_number { Ok(number) } else { Err(self.bad_at(begin, expected)) }
    }

    /// Takes the number of a vertex.
    pub(crate) fn vertex(&mut self) -> Result<u32, Bad> {
        const LAST: u64 = VERTICES_MAX - 1;
        self.word_begin();
        let begin = self.at;
        match self.number("a vertex number") {
            Ok(number @ 0..=LAST) => Ok(number as u32),
            Ok(_) => Err(self.bad_at(begin, &format!("a vertex number up to {LAST}"))),
            Err(bad) => Err(bad),
        }
    }

    /// The line must end here.
    pub(crate) fn end(&mut self) -> Result<(), Bad> {
        match self.word_begin() {
            None => Ok(()),
            Some(_) => Err(self.bad_at(self.at, "the end of the line")),
        }
    }

    fn bad_at(&mut self, begin: usize, expected: &str) -> Bad {
        self.at = begin;
        let word = self.word();
        let found = if word.is_empty() { "the end of the line".to_owned() } else { shown(word) };
        Bad { expected: expected.to_owned(), found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_other_words() {
        let number = |text: &str| Cursor::new(text.as_bytes()).number("a number");
        assert_eq!(number("7"), Ok(7));
        assert_eq!(number(" \t0042\r\n8"), Ok(42));
        assert_eq!(number("9999999999999999999"), Ok(9_999_999_999_999_999_999));
        for (text, found) in [
            ("", "the end of the line"),
            ("\n7", "the end of the line"),
            ("-5", "`-5`"),
            ("7.5 3", "`7.5`"),
            ("x7", "`x7`"),
            ("00000000000000000001", "`00000000000000000001`"),
            ("\u{1b}[31m", "`\\x1b[31m`"),
            ("1234567890123456789012345", "`123456789012345678901234…`"),
        ] {
            assert_eq!(number(text), Err(Bad { expected: "a number".into(), found: found.into() }));
        }
    }

    #[test]
    fn vertices_have_32_bits() {
        let vertex = |text: &str| Cursor::new(text.as_bytes()).vertex();
        assert_eq!(vertex("4294967294"), Ok(u32::MAX - 1));
        let bad = vertex("4294967295").unwrap_err();
        assert!(bad.expected.contains("4294967294") && bad.found == "`4294967295`");
    }

    #[test]
    fn lines_are_walked_through() {
        let mut cursor = Cursor::new(b"1 2\n\n# three\n4");
        assert_eq!(cursor.number("").ok(), Some(1));
        assert_eq!(cursor.end().unwrap_err().found, "`2`");
        assert!(cursor.next_line());
        assert_eq!((cursor.word_begin(), cursor.end()), (None, Ok(())));
        assert!(cursor.next_line());
        assert_eq!(cursor.rest(), b"# three");
        assert!(cursor.next_line());
        assert_eq!(cursor.word(), b"4");
        assert!(!cursor.next_line());
    }
}
