//! Remembers what was printed last.

use std::collections::VecDeque;

use crate::output::{Acceptance, Piece, Sink, Stream};

const LINES_MAX: usize = 16;
const LINE_BYTES_MAX: usize = 400;

/// Passes everything on to another sink and keeps the last lines, in bounded memory.
pub(super) struct Tail {
    sink: Box<dyn Sink + Send>,
    lines: VecDeque<String>,
}

impl Tail {
    pub(super) fn new(sink: Box<dyn Sink + Send>) -> Self {
        Self { sink, lines: VecDeque::with_capacity(LINES_MAX) }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}

impl Sink for Tail {
    fn take(&mut self, piece: Piece<'_>) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        let shown = &piece.bytes[..piece.bytes.len().min(LINE_BYTES_MAX)];
        self.lines.push_back(String::from_utf8_lossy(shown).into_owned());
        self.sink.take(piece);
    }

    fn flush(&mut self) {
        self.sink.flush();
    }

    fn acceptance(&self, stream: Stream) -> Acceptance<'_> {
        self.sink.acceptance(stream)
    }

    fn whole_lines(&self) -> bool {
        self.sink.whole_lines()
    }
}
