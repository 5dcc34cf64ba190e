//! A file that is read from front to back.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::ReadError;
use crate::memory::{OutOfMemory, zeroed};
use crate::progress::FormatProgress;
use crate::text::{Bad, is_space, shown};
use crate::words::{self, Word};

/// An open file. It may be a pipe as well.
pub(crate) struct Source {
    path: PathBuf,
    file: BufReader<File>,
    size: Option<u64>,
    line: u64,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let open = || {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
            }
            Ok((metadata.is_file().then_some(metadata.len()), file))
        };
        let (size, file) = open().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ReadError::Absent { path: path.to_owned() },
            _ => ReadError::Io { path: path.to_owned(), source },
        })?;
        Ok(Self { path: path.to_owned(), file: BufReader::with_capacity(1 << 16, file), size, line: 1 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it has, unless it is a pipe or the like.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// The line that comes next, counted from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// What comes next, without taking it.
    pub(crate) fn peek(&mut self) -> Result<&[u8], ReadError> {
        let path = &self.path;
        self.file.fill_buf().map_err(|source| ReadError::Io { path: path.clone(), source })
    }

    /// The next line, without its end; `None` at the end of the file. Lines longer than a header has are cut short,
    /// which cannot be mistaken for one.
    pub(crate) fn header_line(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        const LONGEST: u64 = 1 << 16;
        let mut line = Vec::new();
        let read = self.file.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        if read.map_err(|source| self.failed(source))? == 0 {
            return Ok(None);
        }
        if line.pop_if(|last| *last == b'\n').is_some() {
            self.line += 1;
        }
        Ok(Some(line))
    }

    /// The next word, however many spaces and lines precede it; empty at the end of the file, and cut short if it is
    /// longer than any that belongs into a header.
    pub(crate) fn header_word(&mut self) -> Result<Vec<u8>, ReadError> {
        const LONGEST: usize = 64;
        let mut word = Vec::new();
        while let Some(&byte) = self.peek()?.first() {
            if is_space(byte) {
                if !word.is_empty() {
                    break;
                }
                self.line += u64::from(byte == b'\n');
            } else if word.len() == LONGEST {
                break;
            } else {
                word.push(byte);
            }
            self.file.consume(1);
        }
        Ok(word)
    }

    /// The next word, which must be a number.
    pub(crate) fn header_number(&mut self, expected: &str) -> Result<u64, ReadError> {
        let word = self.header_word()?;
        let number = std::str::from_utf8(&word).ok().filter(|word| word.bytes().all(|b| b.is_ascii_digit()));
        match number.and_then(|word| word.parse().ok()) {
            Some(number) => Ok(number),
            None => {
                let found = if word.is_empty() { "the end of the file".to_owned() } else { shown(&word) };
                Err(self.wrong_line(self.line, Bad { expected: expected.to_owned(), found }))
            }
        }
    }

    /// The next few bytes.
    pub(crate) fn header_bytes<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(|source| self.failed(source))?;
        Ok(bytes)
    }

    /// So many numbers as they lie there.
    pub(crate) fn words<T: Word>(
        &mut self,
        len: usize,
        progress: &dyn FormatProgress,
    ) -> Result<Vec<T>, ReadError> {
        let mut numbers = zeroed(len).map_err(|source| self.too_large(source))?;
        words::read(&mut self.file, &mut numbers, progress).map_err(|source| self.failed(source))?;
        Ok(numbers)
    }

    pub(crate) fn failed(&self, source: io::Error) -> ReadError {
        ReadError::Io { path: self.path.clone(), source }
    }

    pub(crate) fn too_large(&self, source: OutOfMemory) -> ReadError {
        ReadError::Memory { path: self.path.clone(), source }
    }

    pub(crate) fn wrong_line(&self, line: u64, Bad { expected, found }: Bad) -> ReadError {
        ReadError::Line { path: self.path.clone(), line, expected, found }
    }

    /// The file is too short for what it announces, or too long.
    pub(crate) fn wrong_size(&self, expected: impl ToString, because: impl ToString) -> ReadError {
        ReadError::Size {
            path: self.path.clone(),
            expected: expected.to_string(),
            found: self.size.unwrap_or(0),
            because: because.to_string(),
        }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}
