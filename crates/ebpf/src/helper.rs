//! Helpers: what a program may ask of the site it runs at.
//!
//! A helper is declared in a table that the analysis believes, and answered by a [`HelperHost`] that is held to it:
//! memory can be written only where a declared argument points to, buffers can be granted only where the
//! declaration says so.

use std::sync::Arc;

use crate::memory::{GRANTS, MemoryAccess, MemoryFault, ProgramMemory, grant_address};

/// How many arguments a helper can have.
pub const ARGUMENTS: usize = 5;

/// A number in a declaration: known beforehand, or what the program passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Always this.
    Fixed(u32),
    /// The argument with this number, the first is 0.
    Argument(u8),
}

impl Quantity {
    /// Its value in a call.
    #[inline]
    pub fn of(self, arguments: &[u64; ARGUMENTS]) -> u64 {
        match self {
            Quantity::Fixed(value) => value.into(),
            Quantity::Argument(number) => arguments[usize::from(number) % ARGUMENTS],
        }
    }
}

/// What an argument is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Argument {
    /// A number.
    Scalar,
    /// The address of so many bytes that the helper reads.
    Reads(Quantity),
    /// The address of so many bytes that the helper may write, and read.
    Writes(Quantity),
}

/// What is in r0 after the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Returns {
    /// A number.
    Scalar,
    /// The address of a granted buffer, or zero. Whatever was granted in that slot before is gone.
    Buffer {
        /// Which of the slots for granted buffers it lies in.
        slot: Quantity,
        /// How many bytes it has at least, unless the answer is zero.
        length: Quantity,
    },
}

/// The declaration of one helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helper {
    /// What programs call it by.
    pub id: u32,
    /// What people and the text form call it by: letters, digits and underscores.
    pub name: String,
    /// Its arguments, at most five.
    pub arguments: Vec<Argument>,
    /// Its answer.
    pub returns: Returns,
    /// Whether [`HelperAnswer::Pending`] is a possible answer.
    pub may_suspend: bool,
}

/// A table of helpers that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelperError {
    /// Two helpers have the same number.
    #[error("two helpers have the number {id}")]
    Twice {
        /// The number.
        id: u32,
    },
    /// A name that the text form could not tell from something else.
    #[error("helper {id} needs a name of letters, digits and underscores that no other has, not `{name}`")]
    Name {
        /// The number.
        id: u32,
        /// The name.
        name: String,
    },
    /// More arguments than registers for them.
    #[error("helper {id} has {count} arguments, more than {ARGUMENTS}")]
    Arguments {
        /// The number.
        id: u32,
        /// How many.
        count: usize,
    },
    /// A quantity refers to an argument that is no number.
    #[error("helper {id} takes a quantity from argument {argument}, which is no scalar of it")]
    Quantity {
        /// The number.
        id: u32,
        /// Of the argument, the first is 0.
        argument: u8,
    },
    /// A slot for granted buffers that does not exist.
    #[error("helper {id} grants a buffer in slot {slot}, of {GRANTS}")]
    Slot {
        /// The number.
        id: u32,
        /// The slot.
        slot: u32,
    },
}

/// The helpers of a site, ordered by number. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Helpers(Arc<Table>);

/// Helpers by number, and where those with low numbers are: a run that is resumed looks for its helper.
#[derive(Debug)]
struct Table {
    all: Box<[Helper]>,
    places: [u8; LOW],
}

/// Numbers below this are found at once.
const LOW: usize = 64;
/// No helper has this number.
const NOWHERE: u8 = u8::MAX;

impl Default for Table {
    fn default() -> Table {
        Table { all: Box::default(), places: [NOWHERE; LOW] }
    }
}

impl Helpers {
    /// A table of these.
    pub fn new(mut helpers: Vec<Helper>) -> Result<Helpers, HelperError> {
        helpers.sort_by_key(|helper| helper.id);
        for (index, helper) in helpers.iter().enumerate() {
            check(helper)?;
            if helpers[..index].last().is_some_and(|before| before.id == helper.id) {
                return Err(HelperError::Twice { id: helper.id });
            }
            if helpers[..index].iter().any(|before| before.name == helper.name) {
                return Err(HelperError::Name { id: helper.id, name: helper.name.clone() });
            }
        }
        let mut places = [NOWHERE; LOW];
        for (index, helper) in helpers.iter().enumerate() {
            // There are no more than `LOW` with such numbers, so their places fit.
            if let Some(place) = places.get_mut(helper.id as usize) {
                *place = index as u8;
            }
        }
        Ok(Helpers(Arc::new(Table { all: helpers.into(), places })))
    }

    /// The helper with this number.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&Helper> {
        self.index_of(id).map(|index| &self.0.all[index])
    }

    /// Where in [`all`](Self::all) the helper with this number is.
    #[inline]
    pub fn index_of(&self, id: u32) -> Option<usize> {
        match self.0.places.get(id as usize) {
            Some(&place) => (place != NOWHERE).then_some(usize::from(place)),
            None => self.0.all.binary_search_by_key(&id, |helper| helper.id).ok(),
        }
    }

    /// All of them, by number.
    #[inline]
    pub fn all(&self) -> &[Helper] {
        &self.0.all
    }
}

fn check(helper: &Helper) -> Result<(), HelperError> {
    let id = helper.id;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let starts_well = helper.name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !starts_well || !helper.name.chars().all(plain) {
        return Err(HelperError::Name { id, name: helper.name.clone() });
    }
    if helper.arguments.len() > ARGUMENTS {
        return Err(HelperError::Arguments { id, count: helper.arguments.len() });
    }
    let mut quantities = Vec::new();
    for argument in &helper.arguments {
        if let Argument::Reads(quantity) | Argument::Writes(quantity) = argument {
            quantities.push(*quantity);
        }
    }
    if let Returns::Buffer { slot, length } = helper.returns {
        quantities.extend([slot, length]);
        if let Quantity::Fixed(slot) = slot
            && slot as usize >= GRANTS
        {
            return Err(HelperError::Slot { id, slot });
        }
    }
    for quantity in quantities {
        if let Quantity::Argument(argument) = quantity
            && helper.arguments.get(usize::from(argument)) != Some(&Argument::Scalar)
        {
            return Err(HelperError::Quantity { id, argument });
        }
    }
    Ok(())
}

/// What a host says to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperAnswer {
    /// This goes into r0, and the program goes on.
    Value(u64),
    /// It takes longer: the run is suspended until its owner resumes it with the value. Only helpers that are
    /// declared so may say this.
    Pending,
    /// The run ends with this code in its trap.
    Trap(u32),
}

/// The site's side of helpers.
pub trait HelperHost {
    /// A program calls `helper`. All five argument registers are given, whatever the declaration says.
    fn call(
        &mut self,
        helper: &Helper,
        arguments: &[u64; ARGUMENTS],
        memory: &mut HelperMemory<'_>,
    ) -> HelperAnswer;
}

/// A host for programs that call nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

impl HelperHost for NoHost {
    fn call(&mut self, _: &Helper, _: &[u64; ARGUMENTS], _: &mut HelperMemory<'_>) -> HelperAnswer {
        HelperAnswer::Trap(0)
    }
}

/// A program's memory, as far as the helper it has called may reach.
pub struct HelperMemory<'a> {
    memory: &'a mut ProgramMemory,
    helper: &'a Helper,
    // Not a copy: a processor that reads by wide loads what it has just written by narrow stores has to wait.
    arguments: &'a [u64; ARGUMENTS],
}

/// A helper that wanted more than its declaration allows, or than the program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    /// The program has no such memory.
    #[error(transparent)]
    Fault(#[from] MemoryFault),
    /// The helper may not write there.
    #[error("{length} bytes at {address:#x} are not within an argument that the helper is declared to write")]
    Undeclared {
        /// Where.
        address: u64,
        /// How many bytes.
        length: usize,
    },
    /// The helper may not grant buffers, or not in that slot.
    #[error("the helper is not declared to grant a buffer, or the program asked for one in no slot")]
    NoGrant,
    /// A buffer larger than the instance allows.
    #[error("a buffer of {length} bytes is larger than the limit of {limit}")]
    TooLong {
        /// How many bytes.
        length: usize,
        /// How many are allowed.
        limit: usize,
    },
}

impl<'a> HelperMemory<'a> {
    #[inline]
    pub(crate) fn new(
        memory: &'a mut ProgramMemory,
        helper: &'a Helper,
        arguments: &'a [u64; ARGUMENTS],
    ) -> Self {
        HelperMemory { memory, helper, arguments }
    }

    /// What the program has at `address`.
    #[inline]
    pub fn read(&self, address: u64, length: usize) -> Result<&[u8], ReachError> {
        Ok(self.memory.read(address, length)?)
    }

    /// Writes into the program's memory, within an argument that is declared as [`Argument::Writes`].
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), ReachError> {
        self.writable(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// As [`write`](Self::write), to be filled by the caller.
    #[inline]
    pub fn writable(&mut self, address: u64, length: usize) -> Result<&mut [u8], ReachError> {
        let declared = self.helper.arguments.iter().zip(self.arguments).any(|(argument, start)| {
            let Argument::Writes(quantity) = argument else { return false };
            let Some(offset) = address.checked_sub(*start) else { return false };
            offset.checked_add(length as u64).is_some_and(|end| end <= quantity.of(self.arguments))
        });
        if !declared {
            return Err(ReachError::Undeclared { address, length });
        }
        Ok(self.memory.write(address, length)?)
    }

    /// Grants a buffer of `length` zeroed bytes in the slot that the declaration names, for the caller to fill.
    /// Its address is the answer to give.
    pub fn grant(&mut self, length: usize) -> Result<(u64, &mut [u8]), ReachError> {
        let slot = self.granted_slot().ok_or(ReachError::NoGrant)?;
        let buffer = self.memory.grant(slot, length)?;
        Ok((grant_address(slot), buffer))
    }

    /// As [`grant`](Self::grant), for a caller that fills all of it or clears it: what earlier runs have left in it is
    /// none of this program's business.
    #[inline]
    pub fn grant_to_fill(&mut self, length: usize) -> Result<(u64, &mut [u8]), ReachError> {
        let slot = self.granted_slot().ok_or(ReachError::NoGrant)?;
        let buffer = self.memory.grant_uncleared(slot, length)?;
        Ok((grant_address(slot), buffer))
    }

    #[inline]
    fn granted_slot(&self) -> Option<usize> {
        let Returns::Buffer { slot, .. } = self.helper.returns else { return None };
        usize::try_from(slot.of(self.arguments)).ok().filter(|slot| *slot < GRANTS)
    }

    /// Whether `value` is an answer that the declaration allows.
    #[inline]
    pub(crate) fn allows(&self, value: u64) -> bool {
        let Returns::Buffer { length, .. } = self.helper.returns else { return true };
        if value == 0 {
            return true;
        }
        let Some(slot) = self.granted_slot() else { return false };
        let length = length.of(self.arguments);
        value == grant_address(slot) && self.memory.length_of_grant(slot) as u64 >= length
    }

    /// Whether the program could access these bytes so.
    pub fn check(&self, address: u64, length: usize, access: MemoryAccess) -> Result<(), ReachError> {
        Ok(self.memory.check(address, length, access)?)
    }
}

#[cfg(test)]
mod tests;
