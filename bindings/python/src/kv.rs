//! Hash tables in a region of a memory server.

use std::sync::{Arc, Mutex, PoisonError};

use outboard::{CallId, CallerOptions, Memory, Outboard};
use outboard_kv::{Kv, KvError, KvTable, TableAnswer, TableOptions};
use pyo3::prelude::*;

use crate::batch::{Batched, Pending, Rows, run};
use crate::bytes::{Loan, Received};
use crate::errors::raise;
use crate::process::Owned;
use crate::wait::{locked, wait};

struct Open {
    kv: Kv,
    table: Option<KvTable>,
    /// A table without a name goes with it.
    memory: Memory,
}

/// A table of keys and values.
#[pyclass(frozen, name = "Kv", module = "outboard._native")]
pub(crate) struct PyKv {
    open: Owned<Mutex<Open>>,
    window: usize,
    key_max: usize,
    value_max: usize,
}

/// What a batch does with each key.
enum Work<'a> {
    Get { values: Vec<u8>, each: usize, lengths: Vec<i64> },
    Put { values: Rows<'a> },
    Delete { found: Vec<u8> },
}

struct KvBatch<'a> {
    kv: &'a mut Kv,
    keys: Rows<'a>,
    work: Work<'a>,
}

impl Work<'_> {
    fn tell(&mut self, number: usize, answer: &TableAnswer<'_>) {
        match (self, answer) {
            (Work::Get { values, each, lengths }, TableAnswer::Done(value)) => {
                lengths[number] = value.len() as i64;
                let len = value.len().min(*each);
                values[number * *each..][..len].copy_from_slice(&value[..len]);
            }
            (Work::Get { lengths, .. }, TableAnswer::NotFound) => lengths[number] = -1,
            (Work::Delete { found }, answer) => {
                found[number] = u8::from(matches!(answer, TableAnswer::Done(_)));
            }
            (Work::Put { .. }, _) => {}
        }
    }
}

impl Batched for KvBatch<'_> {
    type Error = KvError;

    fn begin(&mut self, number: usize) -> Result<CallId, KvError> {
        let key = self.keys.get(number);
        match &self.work {
            Work::Get { .. } => self.kv.begin_get(key),
            Work::Put { values } => self.kv.begin_put(key, values.get(number)),
            Work::Delete { .. } => self.kv.begin_delete(key),
        }
    }

    fn drain(&mut self, pending: &mut Pending) -> Result<usize, KvError> {
        let (work, mut failure) = (&mut self.work, None);
        let count = self.kv.drain(|id, answer| {
            let Some(number) = pending.end(id) else { return };
            match answer {
                Ok(answer) => work.tell(number, &answer),
                Err(KvError::Busy) => pending.again(number),
                Err(error) => failure = Some(error),
            }
        });
        failure.map_or(Ok(count), Err)
    }
}

impl PyKv {
    pub(crate) fn open(
        py: Python<'_>,
        outboard: Arc<Outboard>,
        name: Option<String>,
        create: Option<(u64, u64, u64)>,
        window: usize,
    ) -> PyResult<Self> {
        let opened = wait(py, move || -> Result<(Open, usize, usize), PyErr> {
            let mut memory = outboard.memory().map_err(raise)?;
            let table = match (create, name.as_deref()) {
                (Some((keys, key_max, value_max)), name) => {
                    let options = TableOptions { keys, key_max, value_max };
                    match name {
                        Some(name) => KvTable::create(&mut memory, name, &options),
                        None => KvTable::create_unnamed(&mut memory, &options),
                    }
                }
                (None, name) => KvTable::open(&mut memory, name.unwrap_or_default()),
            };
            let table = table.map_err(raise)?;
            let options = CallerOptions::default().with_under_way_max(window);
            let kv = Kv::new(outboard.caller_with(options).map_err(raise)?, &table).map_err(raise)?;
            let (key_max, value_max) = (table.layout().key_max(), table.layout().value_max());
            Ok((Open { kv, table: Some(table), memory }, key_max, value_max))
        })?;
        let (open, key_max, value_max) = opened?;
        Ok(Self { open: Owned::new(Mutex::new(open)), window, key_max, value_max })
    }
}

/// The numbers in a buffer of eight bytes each.
pub(crate) fn words(loan: &Loan) -> Vec<u64> {
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    loan.bytes().chunks_exact(8).map(word).collect()
}

#[pymethods]
impl PyKv {
    #[getter]
    fn key_max(&self) -> usize {
        self.key_max
    }

    #[getter]
    fn value_max(&self) -> usize {
        self.value_max
    }

    /// Values of keys, each of at most `each` bytes, and how long each is, or -1.
    fn get_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        key_ends: &Bound<'_, PyAny>,
        each: usize,
    ) -> PyResult<(Received, Received)> {
        let (keys, ends) = (Loan::read(keys)?, words(&Loan::read(key_ends)?));
        let mut open = locked(py, self.open.get()?);
        let work = Work::Get { values: vec![0; ends.len() * each], each, lengths: vec![0; ends.len()] };
        let mut batch = KvBatch { kv: &mut open.kv, keys: Rows::ending(keys.bytes(), &ends), work };
        run(py, &mut batch, ends.len(), self.window)?;
        let Work::Get { values, lengths, .. } = batch.work else { unreachable!("it is made above") };
        Ok((Received::new(values), Received::of_words(&lengths)))
    }

    fn put_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        key_ends: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        value_ends: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, ends) = (Loan::read(keys)?, words(&Loan::read(key_ends)?));
        let (values, value_ends) = (Loan::read(values)?, words(&Loan::read(value_ends)?));
        let mut open = locked(py, self.open.get()?);
        let work = Work::Put { values: Rows::ending(values.bytes(), &value_ends) };
        let mut batch = KvBatch { kv: &mut open.kv, keys: Rows::ending(keys.bytes(), &ends), work };
        run(py, &mut batch, ends.len(), self.window)
    }

    /// Removes keys, and says of each whether it was there.
    fn delete_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        key_ends: &Bound<'_, PyAny>,
    ) -> PyResult<Received> {
        let (keys, ends) = (Loan::read(keys)?, words(&Loan::read(key_ends)?));
        let mut open = locked(py, self.open.get()?);
        let work = Work::Delete { found: vec![0; ends.len()] };
        let mut batch = KvBatch { kv: &mut open.kv, keys: Rows::ending(keys.bytes(), &ends), work };
        run(py, &mut batch, ends.len(), self.window)?;
        let Work::Delete { found } = batch.work else { unreachable!("it is made above") };
        Ok(Received::new(found))
    }

    /// Gives the memory of the table back. No client can use it any more.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open.get()?;
        py.detach(|| {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            match open.table.take() {
                Some(table) => table.free(&mut open.memory),
                None => Ok(()),
            }
        })
        .map_err(raise)
    }
}
