//! What C gives: pointers that are as the header says, and checked as far as they can be.

use std::ffi::{CStr, c_char};
use std::slice;
use std::time::Duration;

use crate::status::{Failure, OUTBOARD_TOO_SHORT};
use crate::structures::{self, Structure};

/// That every pointer which the present call was given is as the header says: NULL, or to as much as the header or the argument
/// beside it says, for the duration of the call.
#[derive(Clone, Copy)]
pub(crate) struct Promise(());

impl Promise {
    /// # Safety
    ///
    /// It is so.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }

    /// A text that has to be there.
    pub(crate) fn text<'a>(self, name: &str, text: *const c_char) -> Result<&'a str, Failure> {
        self.optional_text(name, text)?.ok_or_else(|| Failure::invalid(format!("{name} is NULL")))
    }

    /// A text, or NULL.
    pub(crate) fn optional_text<'a>(
        self,
        name: &str,
        text: *const c_char,
    ) -> Result<Option<&'a str>, Failure> {
        if text.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller has promised a string that ends with a zero.
        let text = unsafe { CStr::from_ptr(text) }.to_str().map_err(|error| {
            Failure::invalid(format!("{name} is no UTF-8 from its byte {} on", error.valid_up_to()))
        })?;
        Ok(Some(text))
    }

    /// Bytes that are read.
    pub(crate) fn bytes<'a>(
        self,
        name: &str,
        bytes: *const std::ffi::c_void,
        length: usize,
    ) -> Result<&'a [u8], Failure> {
        self.items(name, bytes.cast(), length)
    }

    /// So many of something that is read.
    pub(crate) fn items<'a, T>(self, name: &str, first: *const T, count: usize) -> Result<&'a [T], Failure> {
        check::<T>(name, first, count)?;
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: the caller has promised so many, and they are not more than there are addresses.
        Ok(unsafe { slice::from_raw_parts(first, count) })
    }

    /// Bytes that are written.
    pub(crate) fn room<'a>(
        self,
        name: &str,
        bytes: *mut std::ffi::c_void,
        length: usize,
    ) -> Result<&'a mut [u8], Failure> {
        check::<u8>(name, bytes.cast(), length)?;
        if length == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as above, and that they may be written. That they were never written before does not matter: they are only
        // written here.
        Ok(unsafe { slice::from_raw_parts_mut(bytes.cast(), length) })
    }

    /// Options, or the defaults for NULL.
    pub(crate) fn options<T: Structure>(self, options: *const T) -> Result<T, Failure> {
        // SAFETY: the caller has promised as many bytes as the structure says.
        unsafe { structures::read(options) }
    }

    /// Fills a structure of the caller.
    pub(crate) fn fill<T: Structure>(self, structure: *mut T, value: &T) -> Result<(), Failure> {
        // SAFETY: as above, and that they may be written.
        unsafe { structures::fill(structure, value) }
    }

    /// A place for a result that has to be there.
    pub(crate) fn out<T>(self, name: &str, place: *mut T) -> Result<Out<T>, Failure> {
        if place.is_null() { Err(Failure::invalid(format!("{name} is NULL"))) } else { Ok(Out(place)) }
    }

    /// A place for a handle, which is NULL until there is one.
    pub(crate) fn handle<H>(self, name: &str, place: *mut *mut H) -> Result<Out<*mut H>, Failure> {
        let out = self.out(name, place)?;
        out.put(std::ptr::null_mut());
        Ok(out)
    }

    /// A place for a result that may be left out.
    pub(crate) fn maybe<T>(self, place: *mut T, value: T) {
        if !place.is_null() {
            Out(place).put(value);
        }
    }

    /// Gives a text to a caller, cut to fit and always ended by a zero, and says how long the whole of it is.
    pub(crate) fn give_text(
        self,
        lines: &[String],
        (text, room): (*mut c_char, usize),
        length: *mut usize,
    ) -> Result<(), Failure> {
        let whole = lines.join("\n");
        let place = self.room("text", text.cast(), room)?;
        self.maybe(length, whole.len());
        let mut fits = whole.len().min(room.saturating_sub(1));
        while !whole.is_char_boundary(fits) {
            fits -= 1;
        }
        if room > 0 {
            place[..fits].copy_from_slice(&whole.as_bytes()[..fits]);
            place[fits] = 0;
        }
        let too_short = room > 0 && fits < whole.len();
        if too_short { Err(too_long(whole.len(), room)) } else { Ok(()) }
    }
}

fn too_long(length: usize, room: usize) -> Failure {
    Failure::new(
        OUTBOARD_TOO_SHORT,
        format!("the text has {length} bytes and a zero, and there is room for {room}"),
    )
}

fn check<T>(name: &str, first: *const T, count: usize) -> Result<(), Failure> {
    if count > 0 && first.is_null() {
        return Err(Failure::invalid(format!("{name} is NULL, and {count} of it are asked for")));
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(Failure::invalid(format!(
            "{name} cannot have {count} items: that is more than all addresses"
        )));
    }
    if !first.is_null() && !first.is_aligned() {
        return Err(Failure::invalid(format!("{name} is not aligned to {} bytes", align_of::<T>())));
    }
    Ok(())
}

/// A place for a result.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn put(&self, value: T) {
        // SAFETY: not NULL, and the caller has promised a place for one.
        unsafe { self.0.write_unaligned(value) }
    }
}

/// The body of a function of C: its promise, and what is done with it.
macro_rules! body {
    (|$promise:ident| $work:expr) => {
        $crate::status::guard(|| {
            // SAFETY: the header demands it of those who call.
            let $promise = unsafe { $crate::arguments::Promise::new() };
            $work
        })
    };
}

/// No program waits for longer: some centuries are more than clocks can count.
const LONGEST: Duration = Duration::from_secs(1 << 32);

/// In place of milliseconds: however long it takes.
pub const OUTBOARD_FOREVER: u64 = u64::MAX;

/// How long a caller waits.
pub(crate) fn duration(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).min(LONGEST)
}

/// A deadline in options, where zero is the default.
pub(crate) fn deadline(milliseconds: u64) -> Option<Duration> {
    (milliseconds > 0).then(|| duration(milliseconds))
}

/// A size in options, where zero is the default.
pub(crate) fn size(name: &str, bytes: u64) -> Result<Option<usize>, Failure> {
    match usize::try_from(bytes) {
        Ok(0) => Ok(None),
        Ok(bytes) if bytes <= isize::MAX as usize => Ok(Some(bytes)),
        _ => Err(Failure::invalid(format!("{name} is {bytes}, more than there are addresses"))),
    }
}

/// One of several choices, which are counted from zero.
pub(crate) fn choice<T: Copy>(name: &str, number: u32, all: &[T]) -> Result<T, Failure> {
    let known = all.get(number as usize).copied();
    known.ok_or_else(|| Failure::invalid(format!("{name} is {number}, and there are 0 to {}", all.len() - 1)))
}

/// Options that are on or off: refuses those that are not known.
pub(crate) fn flags(name: &str, given: u32, known: u32) -> Result<u32, Failure> {
    match given & !known {
        0 => Ok(given),
        other => Err(Failure::invalid(format!("{name} has the unknown flags 0x{other:x}"))),
    }
}
