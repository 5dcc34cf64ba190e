//! Reads Rust source just well enough to check its style.
//!
//! A scanner and not a parser: a parser sees nothing inside macro calls, where many of our tests stand
//! (`proptest! { … }`). Rust's comments, literals and braces are all that these checks need to tell apart.

use std::ops::Range;

/// A file of Rust code.
pub(super) struct Source<'a> {
    /// The text as it is.
    pub(super) text: &'a str,
    /// The text with every comment and literal blanked out, byte by byte: offsets and lines are the same.
    pub(super) code: String,
    line_starts: Vec<usize>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line_first: usize,
    pub(super) line_last: usize,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { text, code: blank_comments_and_literals(text), line_starts }
    }

    /// The line of a byte, counted from 1.
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    /// Where `word` stands in the code as a whole word (or path), outside comments and literals.
    pub(super) fn find_word(&self, word: &str) -> Vec<usize> {
        find_word(&self.code, word)
    }

    /// All functions that have a body, those inside macro calls too.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for at in self.find_word("fn") {
            let rest = self.code[at + 2..].trim_start();
            let name: String = rest.chars().take_while(|c| is_word(*c) || *c == '$').collect();
            // `fn(u32) -> u32` is a type.
            if name.is_empty() {
                continue;
            }
            if let Some(body) = self.body_after(at) {
                let (line_first, line_last) = (self.line_of(at), self.line_of(body.end - 1));
                functions.push(Function { name, line_first, line_last });
            }
        }
        functions
    }

    /// The parts of the file that only tests are built from: items marked `#[test]` or `#[cfg(test)]`.
    pub(super) fn test_parts(&self) -> Vec<Range<usize>> {
        const MARKS: [&str; 4] = ["#[test]", "#[cfg(test)]", "#[cfg(all(test", "#[cfg(all(loom, test"];
        let mut parts = Vec::new();
        for mark in MARKS {
            for (at, _) in self.code.match_indices(mark) {
                if let Some(body) = self.body_after(at) {
                    parts.push(at..body.end);
                }
            }
        }
        parts
    }

    /// The braces that follow the head of an item at `at`; `None` if the item ends without a body.
    fn body_after(&self, at: usize) -> Option<Range<usize>> {
        let mut nesting = 0_u32;
        for (offset, byte) in self.code.bytes().enumerate().skip(at) {
            match byte {
                b'(' | b'[' => nesting += 1,
                b')' | b']' => nesting = nesting.saturating_sub(1),
                b';' if nesting == 0 => return None,
                b'{' if nesting == 0 => return Some(offset..self.closing_brace(offset)),
                _ => {}
            }
        }
        None
    }

    /// One past the brace that closes the one at `open`.
    fn closing_brace(&self, open: usize) -> usize {
        let mut nesting = 0_u32;
        for (offset, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'{' => nesting += 1,
                b'}' if nesting == 1 => return offset + 1,
                b'}' => nesting -= 1,
                _ => {}
            }
        }
        self.code.len()
    }
}

/// Where `word` stands in `text` with no letter, digit or underscore on either side.
pub(super) fn find_word(text: &str, word: &str) -> Vec<usize> {
    let whole = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    };
    text.match_indices(word).map(|(at, _)| at).filter(whole).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn blank_comments_and_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = at + comment_or_literal(bytes, at);
        if end > at {
            code.extend(bytes[at..end].iter().map(|byte| if *byte == b'\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            // Outside literals and comments Rust is ASCII but for identifiers; keep the offsets equal.
            code.push(if bytes[at].is_ascii() { char::from(bytes[at]) } else { '_' });
            at += 1;
        }
    }
    code
}

/// The length of the comment or literal that starts at `at`; 0 if none does.
fn comment_or_literal(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => quoted(rest, b'"'),
        [b'r', b'"' | b'#', ..] if starts_token(bytes, at) => raw_string(rest),
        [b'\'', b'\\', ..] => quoted(rest, b'\''),
        // A lifetime has no closing quote after its first character.
        [b'\'', first, ..] => {
            let width = match first {
                0x00..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
        }
        _ => 0,
    }
}

/// Whether a raw string can start at `at`: after no word, or after the `b` or `c` of its own prefix.
fn starts_token(bytes: &[u8], at: usize) -> bool {
    let word_at = |at: Option<usize>| at.is_some_and(|at| is_word(char::from(bytes[at])));
    match at.checked_sub(1).map(|before| bytes[before]) {
        Some(b'b' | b'c') => !word_at(at.checked_sub(2)),
        _ => !word_at(at.checked_sub(1)),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let mut nesting = 0_u32;
    let mut at = 0;
    while at < rest.len() {
        match rest[at..] {
            [b'/', b'*', ..] => {
                nesting += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                nesting -= 1;
                at += 2;
                if nesting == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        // `r#type` is an identifier.
        return 0;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    let end = rest[body..].windows(close.len()).position(|window| window == close);
    end.map_or(rest.len(), |end| body + end + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_nothing_else() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"y", z)"#, "f(      , z)"),
            (r##"f(r#"a"b"#, c)"##, "f(        , c)"),
            (r##"f(br"a\", c)"##, "f(b     , c)"),
            ("let r#type = 'x';", "let r#type =    ;"),
            ("fn f<'a>(c: &'a u8) { '{' }", "fn f<'a>(c: &'a u8) {     }"),
            (r"('\'', '\u{7b}', b'{')", "(    ,         , b   )"),
            ("\"é\";'é';é", "    ;    ;__"),
            ("for r in a", "for r in a"),
        ];
        for (text, code) in cases {
            let source = Source::new(text);
            assert_eq!(source.code, code, "{text}");
            assert_eq!(source.code.len(), text.len(), "{text}");
        }
    }

    #[test]
    fn functions_are_found_with_their_lines() {
        let text = "\
            type F = fn(u32) -> u32;\n\
            trait T { fn declared(&self) -> [u8; 4]; }\n\
            proptest! {\n\
                #[test]\n\
                fn inside(x in 0..3) {\n\
                    let text = \"}\"; // }\n\
                }\n\
            }\n\
            const fn short() -> [u8; 2] { [b'{', 2] }\n";
        let found: Vec<_> =
            Source::new(text).functions().into_iter().map(|f| (f.name, f.line_first, f.line_last)).collect();
        assert_eq!(found, [("inside".to_owned(), 5, 7), ("short".to_owned(), 9, 9)]);
    }

    #[test]
    fn test_parts_end_with_their_items() {
        let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod t { fn b() {} }\nfn c() {}\n";
        let source = Source::new(text);
        let parts = source.test_parts();
        assert_eq!(parts.len(), 1);
        assert!(source.text[parts[0].clone()].contains("fn b()"));
        assert!(!source.text[parts[0].clone()].contains("fn c()"));
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(find_word("todo todos a_todo (todo)", "todo"), [0, 19]);
    }
}
