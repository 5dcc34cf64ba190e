//! B-trees in a region of a memory server.

use std::sync::{Mutex, PoisonError};

use outboard::{CallId, CallSite, CallerOptions, Memory, Outboard};
use outboard_btree::{BTree, BTreeError, Inserter, Tree, TreeOptions};
use pyo3::prelude::*;

use crate::batch::{Batched, Pending, run};
use crate::bytes::{Loan, Received};
use crate::errors::raise;
use crate::kv::words;
use crate::process::Owned;
use crate::wait::{locked, wait};

struct Open {
    tree: Option<Tree>,
    reader: BTree,
    inserter: Inserter,
    /// A tree without a name goes with it.
    memory: Memory,
}

/// A tree of keys and values of 64 bits.
#[pyclass(frozen, name = "Tree", module = "outboard._native")]
pub(crate) struct PyTree {
    open: Owned<Mutex<Open>>,
    window: usize,
}

struct Lookups<'a> {
    reader: &'a mut BTree,
    keys: &'a [u64],
    values: Vec<u64>,
    found: Vec<u8>,
}

impl Batched for Lookups<'_> {
    type Error = BTreeError;

    fn begin(&mut self, number: usize) -> Result<CallId, BTreeError> {
        self.reader.begin_lookup(self.keys[number])
    }

    fn drain(&mut self, pending: &mut Pending) -> Result<usize, BTreeError> {
        let (values, found, mut failure) = (&mut self.values, &mut self.found, None);
        let count = self.reader.drain(|id, answer| {
            let Some(number) = pending.end(id) else { return };
            match answer.map(|answer| answer.value()) {
                Ok(Some(value)) => (values[number], found[number]) = (value, 1),
                Ok(None) => found[number] = 0,
                Err(BTreeError::Busy) => pending.again(number),
                Err(error) => failure = Some(error),
            }
        });
        failure.map_or(Ok(count), Err)
    }
}

struct Inserts<'a> {
    inserter: &'a mut Inserter,
    keys: &'a [u64],
    values: &'a [u64],
}

impl Batched for Inserts<'_> {
    type Error = BTreeError;

    fn begin(&mut self, number: usize) -> Result<CallId, BTreeError> {
        self.inserter.begin_insert(self.keys[number], self.values[number])
    }

    fn drain(&mut self, pending: &mut Pending) -> Result<usize, BTreeError> {
        let mut failure = None;
        let count = self.inserter.drain(|id, answer| {
            let Some(number) = pending.end(id) else { return };
            match answer {
                Ok(()) => {}
                Err(BTreeError::Busy) => pending.again(number),
                Err(error) => failure = Some(error),
            }
        });
        failure.map_or(Ok(count), Err)
    }
}

/// For how many keys a tree is made, and of which pairs.
pub(crate) type Made<'py> = (Option<u64>, Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>);

impl PyTree {
    pub(crate) fn open(
        py: Python<'_>,
        outboard: Outboard,
        name: Option<String>,
        (create, pairs): Made<'_>,
        window: usize,
    ) -> PyResult<Self> {
        let pairs: Vec<(u64, u64)> = match pairs {
            Some((keys, values)) => {
                let (keys, values) = (words(&Loan::read(&keys)?), words(&Loan::read(&values)?));
                keys.into_iter().zip(values).collect()
            }
            None => Vec::new(),
        };
        let open = wait(py, move || -> Result<Open, PyErr> {
            let mut memory = outboard.memory().map_err(raise)?;
            let tree = match (create, name.as_deref()) {
                (Some(keys), Some(name)) => {
                    Tree::create_with(&mut memory, name, &TreeOptions { keys }, pairs)
                }
                (Some(keys), None) => Tree::create_unnamed_with(&mut memory, &TreeOptions { keys }, pairs),
                (None, name) => Tree::open(&mut memory, name.unwrap_or_default()),
            };
            let tree = tree.map_err(raise)?;
            let options = CallerOptions::default().with_under_way_max(window);
            let reader = outboard.caller_with(options.clone()).map_err(raise)?;
            let reader = BTree::new(reader, &tree).map_err(raise)?;
            // Inserts lock, and belong to the server.
            let inserter = outboard.caller_with(options.with_placement(CallSite::Server)).map_err(raise)?;
            let inserter = Inserter::new(inserter, &tree).map_err(raise)?;
            Ok(Open { tree: Some(tree), reader, inserter, memory })
        })??;
        Ok(Self { open: Owned::new(Mutex::new(open)), window })
    }
}

#[pymethods]
impl PyTree {
    /// The values of keys, and of each whether it is there.
    fn get_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<(Received, Received)> {
        let keys = words(&Loan::read(keys)?);
        let mut open = locked(py, self.open.get()?);
        let (values, found) = (vec![0; keys.len()], vec![0; keys.len()]);
        let mut batch = Lookups { reader: &mut open.reader, keys: &keys, values, found };
        run(py, &mut batch, keys.len(), self.window)?;
        Ok((Received::of_words(&batch.values), Received::new(batch.found)))
    }

    fn put_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let (keys, values) = (words(&Loan::read(keys)?), words(&Loan::read(values)?));
        let mut open = locked(py, self.open.get()?);
        let mut batch = Inserts { inserter: &mut open.inserter, keys: &keys, values: &values };
        run(py, &mut batch, keys.len().min(values.len()), self.window)
    }

    /// So many pairs from a key on, in order.
    fn scan(&self, py: Python<'_>, from: u64, count: usize) -> PyResult<(Received, Received)> {
        let open = self.open.get()?;
        let pairs = py
            .detach(|| open.lock().unwrap_or_else(PoisonError::into_inner).reader.scan(from, count))
            .map_err(raise)?;
        let (keys, values): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
        Ok((Received::of_words(&keys), Received::of_words(&values)))
    }

    /// Gives the memory of the tree back. No client can use it any more.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open.get()?;
        py.detach(|| {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            match open.tree.take() {
                Some(tree) => tree.free(&mut open.memory),
                None => Ok(()),
            }
        })
        .map_err(raise)
    }
}
