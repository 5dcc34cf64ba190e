//! Look-ups, scans and inserts by functions.

use outboard::{CallId, Caller, FunctionHandle, FunctionImage, FunctionOptions, Rights};

use crate::layout::{INFINITE, SCAN_MAX, pairs};
use crate::{BTreeError, Tree};

/// The functions, as clang made them of `functions/btree.c`.
const OBJECT: &[u8] = include_bytes!("../functions/btree-v3.o");

/// Fuel for a call: an insert that ran out of it would leave a node locked, so it has far more than it takes.
const FUEL: u64 = 1_000_000;
/// The longest reply of a scan, in bytes.
const REPLY_MAX: u32 = 16 * SCAN_MAX as u32;
/// How often something is tried that others are in the way of.
const TRIES: usize = 100;

/// What a call gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeAnswer<'a> {
    /// It is done; for a look-up, this is the value, and for a scan the pairs, as bytes.
    Done(&'a [u8]),
    /// The key is not there.
    NotFound,
}

impl<'a> TreeAnswer<'a> {
    fn read((value, reply): (u64, &'a [u8])) -> Result<Self, BTreeError> {
        match value {
            0 => Ok(Self::Done(reply)),
            1 => Ok(Self::NotFound),
            2 => Err(BTreeError::Full),
            3 => Err(BTreeError::Busy),
            5 => Err(BTreeError::BadArguments { scan_max: SCAN_MAX }),
            value => Err(BTreeError::Unknown { value }),
        }
    }

    /// The value that a look-up has found.
    pub fn value(&self) -> Option<u64> {
        match self {
            Self::Done(bytes) => bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
            Self::NotFound => None,
        }
    }
}

fn register(
    caller: &mut Caller,
    tree: &Tree,
    name: &str,
    rights: Rights,
) -> Result<FunctionHandle, BTreeError> {
    let image = FunctionImage::from_object(OBJECT, name)?;
    let options = FunctionOptions::default().with_fuel(FUEL).with_reply_max(REPLY_MAX);
    Ok(caller.register(&image, options.with_region(&tree.region, rights))?)
}

fn call(caller: &mut Caller, function: FunctionHandle, words: &[u64]) -> Result<Option<Vec<u8>>, BTreeError> {
    let arguments: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for _ in 0..TRIES {
        let reply = caller.call(function, &arguments)?;
        match TreeAnswer::read((reply.value, &reply.bytes)) {
            Ok(TreeAnswer::Done(_)) => return Ok(Some(reply.bytes)),
            Ok(TreeAnswer::NotFound) => return Ok(None),
            Err(BTreeError::Busy) => {}
            Err(error) => return Err(error),
        }
    }
    Err(BTreeError::Busy)
}

/// Looks keys of one tree up, from wherever its caller calls.
///
/// A look-up is done at one moment between its call and its return, whatever other clients do. What a scan gives of one leaf is
/// from one moment, and later leaves are from later ones.
pub struct BTree {
    caller: Caller,
    lookup: FunctionHandle,
    scan: FunctionHandle,
}

/// Inserts keys into one tree, each at one moment.
///
/// Nodes are locked meanwhile, so inserts run where nothing dies without the tree: at the memory server.
pub struct Inserter {
    caller: Caller,
    insert: FunctionHandle,
}

impl Inserter {
    /// Inserts into `tree` by a function that `caller` calls. It must be fixed [at](outboard::CallerOptions::with_placement) the server.
    pub fn new(mut caller: Caller, tree: &Tree) -> Result<Self, BTreeError> {
        let insert = register(&mut caller, tree, "btree_insert", Rights::READ.and(Rights::WRITE))?;
        Ok(Self { caller, insert })
    }

    /// Begins to give a key a value; [`drain`](Self::drain) tells when it is done.
    pub fn begin_insert(&mut self, key: u64, value: u64) -> Result<CallId, BTreeError> {
        Ok(self.caller.begin(self.insert, [key, value].map(u64::to_le_bytes).as_flattened())?)
    }

    /// Hands out what has ended. Returns how many there were.
    pub fn drain(&mut self, mut tell: impl FnMut(CallId, Result<(), BTreeError>)) -> usize {
        self.caller.drain(|id, result| {
            tell(id, result.map_err(BTreeError::from).and_then(TreeAnswer::read).map(|_| ()));
        })
    }

    /// How many have begun and were not told.
    pub fn under_way(&self) -> usize {
        self.caller.under_way()
    }

    /// Gives a key a value, whether it had one or not.
    pub fn insert(&mut self, key: u64, value: u64) -> Result<(), BTreeError> {
        call(&mut self.caller, self.insert, &[key, value]).map(|_| ())
    }
}

impl BTree {
    /// Uses `tree` by functions that `caller` calls.
    pub fn new(mut caller: Caller, tree: &Tree) -> Result<Self, BTreeError> {
        let lookup = register(&mut caller, tree, "btree_lookup", Rights::READ)?;
        let scan = register(&mut caller, tree, "btree_scan", Rights::READ)?;
        Ok(Self { caller, lookup, scan })
    }

    /// Who calls.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Begins to look a key up; [`drain`](Self::drain) tells its value.
    #[inline]
    pub fn begin_lookup(&mut self, key: u64) -> Result<CallId, BTreeError> {
        Ok(self.caller.begin(self.lookup, &key.to_le_bytes())?)
    }

    /// Hands out what has ended. Returns how many there were.
    pub fn drain(&mut self, mut tell: impl FnMut(CallId, Result<TreeAnswer<'_>, BTreeError>)) -> usize {
        self.caller.drain(|id, result| tell(id, result.map_err(BTreeError::from).and_then(TreeAnswer::read)))
    }

    /// How many have begun and were not told.
    pub fn under_way(&self) -> usize {
        self.caller.under_way()
    }

    /// The value of a key.
    pub fn lookup(&mut self, key: u64) -> Result<Option<u64>, BTreeError> {
        Ok(call(&mut self.caller, self.lookup, &[key])?.and_then(|bytes| TreeAnswer::Done(&bytes).value()))
    }

    /// So many pairs from a key on, in the order of their keys; less, if there are not more.
    pub fn scan(&mut self, from: u64, count: usize) -> Result<Vec<(u64, u64)>, BTreeError> {
        if count > SCAN_MAX || from == INFINITE {
            return Err(BTreeError::BadArguments { scan_max: SCAN_MAX });
        }
        let reply = call(&mut self.caller, self.scan, &[from, count as u64])?;
        Ok(pairs(&reply.unwrap_or_default()))
    }
}
