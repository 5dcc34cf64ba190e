//! A suspended run as bytes, to be resumed in another process.
//!
//! Numbers are little-endian, and there is only one way to write a run:
//!
//! | part | bytes |
//! |---|---|
//! | magic and version | 4 |
//! | hash of the program | 32 |
//! | fuel | 8 |
//! | helper that is waited for | 4 |
//! | its arguments | 5 × 8 |
//! | how many bytes of context | 4 |
//! | how many frames | 1 |
//! | how many granted buffers | 1 |
//! | for each frame, the outermost first: slot of the call, r6 to r9, how many bytes of stack | 4 + 4 × 8 + 2 |
//! | … and its stack, without the zeros at the lower end | at most 512 |
//! | context | |
//! | for each buffer, by slot: slot, how many bytes | 1 + 4 |
//! | … and what is in it | |
//!
//! Who reads it need not trust who wrote it: [`Continuation::parse`] checks the form, [`Instance::restore`] checks
//! that the frames can be those of the program. Registers and memory may then be anything, and executors know.

use std::sync::Arc;

use crate::helper::ARGUMENTS;
use crate::insn::Insn;
use crate::instance::{CallFrame, Instance};
use crate::memory::{FRAME_LEN, GRANTS, MAX_FRAMES};
use crate::program::{FunctionId, Program, ProgramHash};

/// The first bytes of every continuation; the last of them is the version.
pub const MAGIC: [u8; 4] = *b"obC\x01";

/// Bytes that are no continuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContinuationError {
    /// It begins with something else.
    #[error("not a continuation, or of another version: it begins with {found:02x?}")]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// It ends too early.
    #[error("the continuation ends in the middle of {part}")]
    Truncated {
        /// What was being read.
        part: &'static str,
    },
    /// Something follows its end.
    #[error("{length} bytes follow the end of the continuation")]
    TooLong {
        /// How many bytes.
        length: usize,
    },
    /// A number that cannot be.
    #[error("the continuation has {value} as {part}")]
    Range {
        /// What was read.
        part: &'static str,
        /// The number.
        value: u64,
    },
}

/// A run that is not one of the program it is to be resumed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It belongs to another program.
    #[error("the continuation belongs to program {wanted}, not to {found}")]
    Program {
        /// The one it belongs to.
        wanted: ProgramHash,
        /// The one that was given.
        found: ProgramHash,
    },
    /// A frame that cannot wait there.
    #[error("frame {frame} waits at instruction {index}, which is not the call it would have to be")]
    Frame {
        /// The outermost one is 0.
        frame: usize,
        /// The slot.
        index: u32,
    },
    /// The outermost frame is not of a function that can be started.
    #[error("the continuation begins in a function that is no entry point")]
    NoEntry,
    /// More bytes than the instance takes.
    #[error("{part} of {length} bytes is longer than the limit of {limit}")]
    Limit {
        /// What is too long.
        part: &'static str,
        /// How many bytes.
        length: usize,
        /// How many are allowed.
        limit: usize,
    },
}

/// A continuation whose form was checked.
#[derive(Debug, Clone, Copy)]
pub struct Continuation<'a> {
    hash: ProgramHash,
    fuel: u64,
    helper: u32,
    arguments: [u64; ARGUMENTS],
    frames: [(CallFrame, &'a [u8]); MAX_FRAMES],
    depth: usize,
    context: &'a [u8],
    grants: [&'a [u8]; GRANTS],
}

impl<'a> Continuation<'a> {
    /// Checks the form of these bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Continuation<'a>, ContinuationError> {
        let mut reader = Reader { rest: bytes };
        let magic = reader.array("the magic")?;
        if magic != MAGIC {
            return Err(ContinuationError::Magic { found: magic });
        }
        let hash = ProgramHash(reader.array("the program's hash")?);
        let fuel = u64::from_le_bytes(reader.array("fuel")?);
        let helper = u32::from_le_bytes(reader.array("the helper's number")?);
        let arguments = reader.words("arguments")?;
        let context_length = u32::from_le_bytes(reader.array("the context's length")?);
        let frame_count = reader.within("number of frames", 1, MAX_FRAMES)?;
        let grant_count = reader.within("number of buffers", 0, GRANTS)?;
        let mut frames = [(CallFrame::default(), &[][..]); MAX_FRAMES];
        for frame in &mut frames[..frame_count] {
            *frame = reader.frame()?;
        }
        let context = reader.slice("the context", context_length as usize)?;
        let grants = reader.grants(grant_count)?;
        if !reader.rest.is_empty() {
            return Err(ContinuationError::TooLong { length: reader.rest.len() });
        }
        Ok(Continuation { hash, fuel, helper, arguments, frames, depth: frame_count - 1, context, grants })
    }

    /// The program it belongs to.
    pub fn program(&self) -> ProgramHash {
        self.hash
    }

    /// What the run has left, if its sender is to be believed.
    pub fn fuel(&self) -> u64 {
        self.fuel
    }

    /// The number of the helper it waits for.
    pub fn helper(&self) -> u32 {
        self.helper
    }

    /// What the helper was called with.
    pub fn arguments(&self) -> [u64; ARGUMENTS] {
        self.arguments
    }

    /// The run's context.
    pub fn context(&self) -> &'a [u8] {
        self.context
    }

    /// That every frame waits for the next one, and the innermost for the helper.
    fn fits(&self, program: &Program) -> Result<FunctionId, RestoreError> {
        if self.hash != program.hash() {
            return Err(RestoreError::Program { wanted: self.hash, found: program.hash() });
        }
        let frames = &self.frames[..=self.depth];
        for (number, (CallFrame { index, .. }, _)) in frames.iter().enumerate() {
            let inner = frames.get(number + 1).and_then(|(inner, _)| program.function_at(inner.index));
            let fits = match (program.code().get(*index as usize), inner) {
                (Some(Insn::CallLocal { target }), Some(inner)) => program.function(inner).start == *target,
                (Some(Insn::CallHelper { id }), None) => {
                    *id == self.helper && program.helpers().get(*id).is_some_and(|helper| helper.may_suspend)
                }
                _ => false,
            };
            if !fits {
                return Err(RestoreError::Frame { frame: number, index: *index });
            }
        }
        let function = program.function_at(frames[0].0.index);
        function.filter(|id| program.function(*id).is_entry).ok_or(RestoreError::NoEntry)
    }
}

/// Takes parts from the front.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn slice(&mut self, part: &'static str, length: usize) -> Result<&'a [u8], ContinuationError> {
        let (slice, rest) =
            self.rest.split_at_checked(length).ok_or(ContinuationError::Truncated { part })?;
        self.rest = rest;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N], ContinuationError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(ContinuationError::Truncated { part })?;
        self.rest = rest;
        Ok(*array)
    }

    fn words<const N: usize>(&mut self, part: &'static str) -> Result<[u64; N], ContinuationError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = u64::from_le_bytes(self.array(part)?);
        }
        Ok(words)
    }

    /// A byte from `least` to `most`.
    fn within(&mut self, part: &'static str, least: usize, most: usize) -> Result<usize, ContinuationError> {
        let [byte] = self.array(part)?;
        if (least..=most).contains(&byte.into()) {
            Ok(byte.into())
        } else {
            Err(ContinuationError::Range { part, value: byte.into() })
        }
    }

    fn frame(&mut self) -> Result<(CallFrame, &'a [u8]), ContinuationError> {
        let index = u32::from_le_bytes(self.array("a frame's call")?);
        let saved = self.words("a frame's registers")?;
        let length = usize::from(u16::from_le_bytes(self.array("a stack's length")?));
        let stack = self.slice("a frame's stack", length)?;
        if length > FRAME_LEN {
            return Err(ContinuationError::Range { part: "a stack's length", value: length as u64 });
        }
        if stack.first() == Some(&0) {
            return Err(ContinuationError::Range { part: "a stack's lowest byte", value: 0 });
        }
        Ok((CallFrame { saved, index, unused: 0 }, stack))
    }

    fn grants(&mut self, count: usize) -> Result<[&'a [u8]; GRANTS], ContinuationError> {
        let mut grants = [&[][..]; GRANTS];
        let mut least = 0;
        for _ in 0..count {
            let slot = self.within("a buffer's slot", least, GRANTS - 1)?;
            let length = u32::from_le_bytes(self.array("a buffer's length")?);
            if length == 0 {
                return Err(ContinuationError::Range { part: "a buffer's length", value: 0 });
            }
            grants[slot] = self.slice("a buffer", length as usize)?;
            least = slot + 1;
        }
        Ok(grants)
    }
}

impl Instance {
    /// Appends the suspended run to `bytes`, and says whether there was one. The instance stays as it is.
    pub fn save(&self, bytes: &mut Vec<u8>) -> bool {
        let Some((program, _)) = self.suspended() else { return false };
        bytes.extend(MAGIC);
        bytes.extend(program.hash().0);
        bytes.extend(self.fuel.to_le_bytes());
        bytes.extend(self.helper.to_le_bytes());
        for argument in self.arguments {
            bytes.extend(argument.to_le_bytes());
        }
        let granted = |slot: &usize| self.memory.length_of_grant(*slot) > 0;
        bytes.extend((self.context().len() as u32).to_le_bytes());
        bytes.push(self.depth as u8 + 1);
        bytes.push((0..GRANTS).filter(granted).count() as u8);
        for (depth, frame) in self.frames[..=self.depth as usize].iter().enumerate() {
            let stack = used(&self.memory.frame(depth)[frame.unused as usize..]);
            bytes.extend(frame.index.to_le_bytes());
            for register in frame.saved {
                bytes.extend(register.to_le_bytes());
            }
            bytes.extend((stack.len() as u16).to_le_bytes());
            bytes.extend(stack);
        }
        bytes.extend(self.context());
        for slot in (0..GRANTS).filter(granted) {
            let buffer = self.memory.granted(slot);
            bytes.push(slot as u8);
            bytes.extend((buffer.len() as u32).to_le_bytes());
            bytes.extend(buffer);
        }
        true
    }

    /// Becomes the suspended run that a continuation tells of, with no more than `most_fuel`. What the instance
    /// had before is lost if that works, and is as it was if not.
    pub fn restore(
        &mut self,
        program: &Arc<Program>,
        continuation: &Continuation<'_>,
        most_fuel: u64,
    ) -> Result<(), RestoreError> {
        let function = continuation.fits(program)?;
        let limits = self.memory.limits();
        let context = [("a context", continuation.context, limits.context)];
        let buffers = continuation.grants.iter().map(|buffer| ("a buffer", *buffer, limits.grant));
        for (part, bytes, limit) in context.into_iter().chain(buffers) {
            if bytes.len() > limit {
                return Err(RestoreError::Limit { part, length: bytes.len(), limit });
            }
        }
        self.begin(program, function, continuation.fuel.min(most_fuel));
        self.memory.restore(continuation.context, &continuation.grants);
        for (depth, (frame, stack)) in continuation.frames[..=continuation.depth].iter().enumerate() {
            self.frames[depth] = *frame;
            self.memory.push_frame(depth);
            self.memory.frame_mut(depth)[FRAME_LEN - stack.len()..].copy_from_slice(stack);
        }
        self.depth = continuation.depth as u32;
        self.helper = continuation.helper;
        self.arguments = continuation.arguments;
        self.is_foreign = true;
        self.suspend();
        Ok(())
    }
}

/// Without the zeros at the beginning.
fn used(stack: &[u8]) -> &[u8] {
    let (words, _) = stack.as_chunks::<8>();
    let zeros = words.iter().take_while(|word| **word == [0; 8]).count() * 8;
    let stack = &stack[zeros..];
    &stack[stack.iter().take_while(|byte| **byte == 0).count()..]
}

#[cfg(test)]
mod tests;
