//! Gets, puts and deletes by functions.

use std::time::Duration;

use outboard::{
    CallError, CallId, Caller, FunctionHandle, FunctionImage, FunctionOptions, ImageError, Rights,
};

use crate::{KvError, KvTable, Layout};

/// The functions, as clang made them of `functions/kv.c`.
const OBJECT: &[u8] = include_bytes!("../functions/kv-v3.o");

/// Fuel for a call: enough for the longest values, tried several times.
const FUEL: u64 = 500_000;
/// The longest value that a reply brings.
const REPLY_MAX: u32 = 16 << 10;
/// How often something is tried that others are in the way of.
const TRIES: usize = 100;

/// One of the functions: `kv_get`, `kv_put` or `kv_delete`.
pub fn image(name: &str) -> Result<FunctionImage, ImageError> {
    FunctionImage::from_object(OBJECT, name)
}

/// What a call gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAnswer<'a> {
    /// It is done; for a get, this is the value.
    Done(&'a [u8]),
    /// The key is not there.
    NotFound,
}

impl<'a> TableAnswer<'a> {
    fn read((value, reply): (u64, &'a [u8])) -> Result<Self, KvError> {
        match value {
            0 => Ok(Self::Done(reply)),
            1 => Ok(Self::NotFound),
            2 => Err(KvError::Full),
            3 => Err(KvError::Busy),
            value => Err(KvError::Unknown { value }),
        }
    }
}

/// Gets, puts and deletes keys of one table.
///
/// Each is done as a whole or not at all, at one moment between its call and its return, whatever other clients do.
pub struct Kv {
    caller: Caller,
    get: FunctionHandle,
    put: FunctionHandle,
    delete: FunctionHandle,
    layout: Layout,
    arguments: Vec<u8>,
}

impl Kv {
    /// Uses `table` by functions that `caller` calls.
    pub fn new(mut caller: Caller, table: &KvTable) -> Result<Self, KvError> {
        let mut register = |name, rights| -> Result<FunctionHandle, KvError> {
            let image = image(name)?;
            let options = FunctionOptions::default().with_fuel(FUEL).with_reply_max(REPLY_MAX);
            Ok(caller.register(&image, options.with_region(&table.region, rights))?)
        };
        let both = Rights::READ.and(Rights::WRITE);
        let get = register("kv_get", Rights::READ)?;
        let (put, delete) = (register("kv_put", both)?, register("kv_delete", both)?);
        Ok(Self { caller, get, put, delete, layout: table.layout, arguments: Vec::new() })
    }

    /// The same, waiting for `deadline` at most in every operation.
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { caller: self.caller.with_deadline(deadline), ..self }
    }

    /// Who calls.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The arguments of a function: a slot with key and value, and with the table's shape in place of its sum.
    fn arguments(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        let (key_max, value_max) = (self.layout.key_max(), self.layout.value_max());
        if key.is_empty() || key.len() > key_max || value.len() > value_max {
            return Err(KvError::DoesNotFit { key: key.len(), value: value.len(), key_max, value_max });
        }
        let head = (key.len() as u64) << 32 | value.len() as u64;
        self.arguments.clear();
        for word in [head, self.layout.shape(), 0] {
            self.arguments.extend_from_slice(&word.to_le_bytes());
        }
        for part in [key, value] {
            self.arguments.extend_from_slice(part);
            self.arguments.resize(self.arguments.len().next_multiple_of(8), 0);
        }
        Ok(())
    }

    /// Begins to get a value; [`drain`](Self::drain) tells it.
    pub fn begin_get(&mut self, key: &[u8]) -> Result<CallId, KvError> {
        self.arguments(key, &[])?;
        Ok(self.caller.begin_keyed(self.get, key, &self.arguments)?)
    }

    /// Begins to put a value; [`drain`](Self::drain) tells when it is done.
    pub fn begin_put(&mut self, key: &[u8], value: &[u8]) -> Result<CallId, KvError> {
        self.arguments(key, value)?;
        Ok(self.caller.begin_keyed(self.put, key, &self.arguments)?)
    }

    /// Begins to delete a key; [`drain`](Self::drain) tells whether it was there.
    pub fn begin_delete(&mut self, key: &[u8]) -> Result<CallId, KvError> {
        self.arguments(key, &[])?;
        Ok(self.caller.begin_keyed(self.delete, key, &self.arguments)?)
    }

    /// Hands out what has ended. Returns how many there were.
    pub fn drain(&mut self, mut tell: impl FnMut(CallId, Result<TableAnswer<'_>, KvError>)) -> usize {
        self.caller.drain(|id, result| tell(id, result.map_err(KvError::from).and_then(TableAnswer::read)))
    }

    /// How many have begun and were not told.
    pub fn under_way(&self) -> usize {
        self.caller.under_way()
    }

    fn call(&mut self, function: FunctionHandle, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        for _ in 0..TRIES {
            let reply = self.caller.call_keyed(function, key, &self.arguments)?;
            match TableAnswer::read((reply.value, &reply.bytes)) {
                Ok(TableAnswer::Done(_)) => return Ok(Some(reply.bytes)),
                Ok(TableAnswer::NotFound) => return Ok(None),
                Err(KvError::Busy) => {}
                Err(error) => return Err(error),
            }
        }
        Err(KvError::Busy)
    }

    /// The value of a key.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.arguments(key, &[])?;
        self.call(self.get, key)
    }

    /// Gives a key a value.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.arguments(key, value)?;
        self.call(self.put, key).map(|_| ())
    }

    /// Removes a key. Returns whether it was there.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, KvError> {
        self.arguments(key, &[])?;
        Ok(self.call(self.delete, key)?.is_some())
    }

    /// Whether an error leaves open if something was done.
    pub fn may_have_run(error: &KvError) -> bool {
        matches!(error, KvError::Call(error) if CallError::may_have_run(error))
    }
}
