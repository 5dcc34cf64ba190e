//! Cuts a stream of bytes into lines, in bounded memory.

/// A line longer than this is passed on in pieces.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;

/// A buffer that had to grow beyond this is given back when its line is complete.
const KEEP_BYTES_MAX: usize = 4 << 10;

/// One piece of output, as it leaves the splitter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) starts_line: bool,
    pub(crate) ends_line: bool,
}

/// Holds the line that is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    partial: Vec<u8>,
    /// Whether a piece of the current line was passed on already.
    mid_line: bool,
}

impl LineSplitter {
    /// Passes on every line that `bytes` completes and keeps the rest.
    pub(crate) fn push(&mut self, mut bytes: &[u8], emit: &mut dyn FnMut(Cut<'_>)) {
        while !bytes.is_empty() {
            let room = LINE_BYTES_MAX - self.partial.len();
            let window = &bytes[..bytes.len().min(room + 1)];
            if let Some(at) = window.iter().position(|byte| *byte == b'\n') {
                self.pass_on(&bytes[..at], true, emit);
                bytes = &bytes[at + 1..];
            } else if bytes.len() > room {
                self.pass_on(&bytes[..room], false, emit);
                bytes = &bytes[room..];
            } else {
                self.partial.extend_from_slice(bytes);
                return;
            }
        }
    }

    /// Passes on what is held, complete or not.
    pub(crate) fn flush(&mut self, emit: &mut dyn FnMut(Cut<'_>)) {
        if !self.partial.is_empty() {
            self.pass_on(&[], false, emit);
        }
    }

    fn pass_on(&mut self, rest: &[u8], ends_line: bool, emit: &mut dyn FnMut(Cut<'_>)) {
        let starts_line = !self.mid_line;
        self.mid_line = !ends_line;
        if self.partial.is_empty() {
            emit(Cut { bytes: rest, starts_line, ends_line });
            return;
        }
        self.partial.extend_from_slice(rest);
        emit(Cut { bytes: &self.partial, starts_line, ends_line });
        self.partial.clear();
        self.partial.shrink_to(KEEP_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Puts the pieces together again, and checks on the way that each says rightly where it stands.
    #[derive(Default)]
    struct Rejoined {
        bytes: Vec<u8>,
        pieces: usize,
        mid_line: bool,
    }

    impl Rejoined {
        fn add(&mut self, cut: Cut<'_>) {
            assert_eq!(cut.starts_line, !self.mid_line);
            assert!(cut.bytes.len() <= LINE_BYTES_MAX && !cut.bytes.contains(&b'\n'));
            self.bytes.extend_from_slice(cut.bytes);
            if cut.ends_line {
                self.bytes.push(b'\n');
            }
            self.mid_line = !cut.ends_line;
            self.pieces += 1;
        }
    }

    fn rejoined(input: &[u8], step: usize, flush_each: bool) -> Rejoined {
        let (mut splitter, mut out) = (LineSplitter::default(), Rejoined::default());
        for bytes in input.chunks(step) {
            splitter.push(bytes, &mut |cut| out.add(cut));
            if flush_each {
                splitter.flush(&mut |cut| out.add(cut));
                assert!(splitter.partial.is_empty());
            }
        }
        splitter.flush(&mut |cut| out.add(cut));
        out
    }

    #[test]
    fn a_line_is_held_until_it_is_complete() {
        let mut splitter = LineSplitter::default();
        splitter.push(b"half", &mut |_| panic!("not complete"));
        let mut seen = Vec::new();
        splitter.push(b" a line\n\nrest", &mut |cut| seen.push(cut.bytes.to_vec()));
        assert_eq!(seen, [b"half a line".to_vec(), Vec::new()]);
        splitter.flush(&mut |cut| assert!(cut.bytes == b"rest" && cut.starts_line && !cut.ends_line));
    }

    #[test]
    fn a_line_of_just_the_longest_length_stays_whole_and_one_byte_more_is_cut() {
        for (len, pieces) in [(LINE_BYTES_MAX, 1), (LINE_BYTES_MAX + 1, 2), (3 * LINE_BYTES_MAX, 3)] {
            let mut input = vec![b'x'; len];
            input.push(b'\n');
            for step in [1000, LINE_BYTES_MAX, 1 << 20] {
                let out = rejoined(&input, step, false);
                assert_eq!((out.pieces, out.bytes == input), (pieces, true), "{len} by {step}");
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_whatever_the_bytes(
            lines in prop::collection::vec((any::<u8>(), 0usize..90_000), 0..6),
            step in 1usize..40_000,
            flush_each: bool,
            newline_last: bool,
        ) {
            let mut input = lines.iter().map(|(byte, len)| vec![*byte; *len]).collect::<Vec<_>>().join(&b'\n');
            if newline_last {
                input.push(b'\n');
            }
            prop_assert!(rejoined(&input, step, flush_each).bytes == input);
        }
    }
}
