//! Takes a text apart into blocks that all threads work on while the next ones are read.

use std::io::Read;

use rayon::prelude::*;

use super::cursor::{Bad, Cursor};
use crate::error::ReadError;
use crate::progress::FormatProgress;
use crate::source::Source;

/// How much is read at a time.
const BATCH: usize = 16 << 20;
/// How much of it is one piece of work.
const BLOCK: usize = 256 << 10;

/// A piece of a text, from the beginning of a line or word to the end of one.
pub(crate) struct Block<'a> {
    /// Its bytes.
    pub(crate) text: &'a [u8],
    /// The line in which it begins, counted from 1.
    pub(crate) line: u64,
}

/// Something is wrong in a block.
pub(crate) struct BadLine {
    /// In which of its lines, counted from 0.
    pub(crate) line: u64,
    /// What.
    pub(crate) bad: Bad,
}

/// Reads the rest of a text. Every block is parsed to something and the number of lines that end in it, and what
/// came of it is handed on in the order of the text. Blocks end after a byte where the text can be cut.
pub(crate) fn scan<T: Send>(
    source: &mut Source,
    can_cut: fn(u8) -> bool,
    parse: impl Fn(&[u8]) -> Result<(T, u64), BadLine> + Sync,
    mut take: impl FnMut(T, Block<'_>, &Source) -> Result<(), ReadError>,
    progress: &dyn FormatProgress,
) -> Result<(), ReadError> {
    progress.begin("reading", source.size().unwrap_or(0));
    let mut line = source.line();
    let mut reader = Reader { can_cut, carried: Vec::new(), ended: false };
    let (mut batch, mut spare) = (reader.next(source, Vec::new())?, Vec::new());
    while !batch.is_empty() {
        let blocks = cut(&batch, can_cut);
        let parse_all = || blocks.par_iter().map(|text| parse(text)).collect::<Vec<_>>();
        let (next, parsed) = rayon::join(|| reader.next(source, spare), parse_all);
        for (text, parsed) in blocks.into_iter().zip(parsed) {
            let (value, lines) = parsed.map_err(|wrong| source.wrong_line(line + wrong.line, wrong.bad))?;
            take(value, Block { text, line }, source)?;
            line += lines;
        }
        progress.advance(batch.len() as u64);
        spare = batch;
        batch = next?;
    }
    Ok(())
}

struct Reader {
    can_cut: fn(u8) -> bool,
    carried: Vec<u8>,
    ended: bool,
}

impl Reader {
    /// The next batch, in the memory of an old one; empty at the end.
    fn next(&mut self, source: &mut Source, mut batch: Vec<u8>) -> Result<Vec<u8>, ReadError> {
        batch.clear();
        batch.append(&mut self.carried);
        if self.ended {
            return Ok(batch);
        }
        let wanted = BATCH.saturating_sub(batch.len());
        let expected = source.size().map_or(0, |bytes| bytes.min(wanted as u64) as usize);
        batch.reserve(expected);
        let read = source.by_ref().take(wanted as u64).read_to_end(&mut batch);
        let read = read.map_err(|error| source.failed(error))?;
        self.ended = read < wanted;
        if self.ended {
            return Ok(batch);
        }
        match batch.iter().rposition(|byte| (self.can_cut)(*byte)) {
            Some(last) => {
                self.carried.extend_from_slice(&batch[last + 1..]);
                batch.truncate(last + 1);
                Ok(batch)
            }
            None => {
                let expected = format!("lines and words shorter than {BATCH} bytes");
                let found = "none that ends; this is no text".to_owned();
                Err(source.wrong_line(source.line(), Bad { expected, found }))
            }
        }
    }
}

fn cut(batch: &[u8], can_cut: fn(u8) -> bool) -> Vec<&[u8]> {
    let mut blocks = Vec::with_capacity(batch.len() / BLOCK + 1);
    let mut rest = batch;
    while !rest.is_empty() {
        let after = rest.get(BLOCK..).and_then(|after| after.iter().position(|byte| can_cut(*byte)));
        let (block, others) = rest.split_at(after.map_or(rest.len(), |after| BLOCK + after + 1));
        blocks.push(block);
        rest = others;
    }
    blocks
}

/// Texts of one edge a line can be cut where a line ends.
pub(crate) fn is_line_end(byte: u8) -> bool {
    byte == b'\n'
}

/// Parses line after line. Returns how many line ends there are.
pub(crate) fn each_line(
    text: &[u8],
    mut parse: impl FnMut(&mut Cursor<'_>) -> Result<(), Bad>,
) -> Result<u64, BadLine> {
    let mut cursor = Cursor::new(text);
    let mut line = 0;
    loop {
        parse(&mut cursor).map_err(|bad| BadLine { line, bad })?;
        if !cursor.next_line() {
            return Ok(line + u64::from(text.ends_with(b"\n")));
        }
        line += 1;
    }
}
