//! Handles: numbers that look like pointers and are looked up in a table.
//!
//! A handle is the number of a slot and the slot's generation, which grows when an object goes. So a handle that was closed is known
//! as such for ever, and a number that never was a handle is refused. Slots are never given back to the system: there are as many
//! as were open at once.

use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use crate::status::{Failure, OUTBOARD_BUSY, OUTBOARD_CLOSED, OUTBOARD_NO_ROOM};

/// A kind of handle, as C knows it.
pub(crate) trait Handle {
    /// What such a handle stands for.
    type Object: Any + Send;
    /// Its name in C.
    const NAME: &'static str;
}

/// One place for an object.
struct Slot {
    /// Odd while there is an object.
    generation: AtomicU32,
    /// How many calls have the object now, or [`ALONE`].
    calls: AtomicU32,
    /// How often this process had been forked from another when the object was made.
    forks: AtomicU32,
    object: UnsafeCell<Option<Object>>,
}

struct Object {
    kind: &'static str,
    it: Box<dyn Any + Send>,
}

// SAFETY: the object is changed by the one call that has it alone. Calls that share it get a shared reference, of types that are
// `Sync` only (`shared`).
unsafe impl Sync for Slot {}

/// In place of a number of calls: one call that no other may run beside.
const ALONE: u32 = u32::MAX;
/// How many slots the first part of the table has; each further part has twice as many as the one before.
const FIRST: usize = 64;
const PARTS: usize = 24;

const _: () = assert!(size_of::<usize>() == 8, "a handle has room for two numbers of 32 bits");

static TABLE: [OnceLock<Box<[Slot]>>; PARTS] = [const { OnceLock::new() }; PARTS];
static FREE: Mutex<Free> = Mutex::new(Free { slots: Vec::new(), next: 0 });

struct Free {
    slots: Vec<u32>,
    next: u32,
}

/// The part of the table that has a slot, and which of its slots that is.
fn place(index: u32) -> (usize, usize) {
    let counted = index as usize + FIRST;
    let part = (counted / FIRST).ilog2() as usize;
    (part, counted - (FIRST << part))
}

fn slot(index: u32) -> Option<&'static Slot> {
    let (part, at) = place(index);
    TABLE.get(part)?.get()?.get(at)
}

fn made_slot(index: u32) -> Option<&'static Slot> {
    let (part, at) = place(index);
    let empty = || Slot {
        generation: AtomicU32::new(0),
        calls: AtomicU32::new(0),
        forks: AtomicU32::new(0),
        object: UnsafeCell::new(None),
    };
    TABLE.get(part)?.get_or_init(|| (0..FIRST << part).map(|_| empty()).collect()).get(at)
}

/// How often this process, and those that it was forked from, have been forked from another since handles are used.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has the child of every fork know that what is open here is its parent's: links are, and threads are not there at all.
fn watch_forks() {
    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> i32;
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a function of the C library, as POSIX declares it; the handler adds to a number, which is allowed after any fork. Without
        // memory for it there is no handler, and children are not told.
        let _ = unsafe { pthread_atfork(None, None, Some(after_fork_in_child)) };
    });
}

/// Makes an object one of C's.
pub(crate) fn open<H: Handle>(object: H::Object) -> Result<*mut H, Failure> {
    watch_forks();
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let index = free.slots.pop().unwrap_or(free.next);
    let full =
        || Failure::new(OUTBOARD_NO_ROOM, "there are as many open handles as there can be: close some");
    let slot = made_slot(index).ok_or_else(full)?;
    free.next = free.next.max(index + 1);
    drop(free);
    // SAFETY: no call looks at the object: the slot has no generation that an open handle could have, a call with one that was closed
    // looks at the generation first, and no other call of `open` was given this slot.
    unsafe { *slot.object.get() = Some(Object { kind: H::NAME, it: Box::new(object) }) };
    slot.forks.store(FORKS.load(Ordering::Relaxed), Ordering::Relaxed);
    let generation = slot.generation.fetch_add(1, Ordering::Release).wrapping_add(1);
    Ok(((generation as usize) << 32 | (index as usize + 1)) as *mut H)
}

/// The slot of a handle, and which generation of it is meant.
fn find<H: Handle>(handle: *mut H) -> Result<(&'static Slot, u32), Failure> {
    let number = handle as usize;
    if number == 0 {
        return Err(Failure::invalid(format!("the {} is NULL", H::NAME)));
    }
    let (index, generation) = ((number as u32).wrapping_sub(1), (number >> 32) as u32);
    let slot = slot(index).filter(|slot| is_open(slot, generation)).ok_or_else(gone::<H>)?;
    if slot.forks.load(Ordering::Relaxed) != FORKS.load(Ordering::Relaxed) {
        let text =
            format!("the {} was opened by the process that has forked this one: open it anew", H::NAME);
        return Err(Failure::new(OUTBOARD_CLOSED, text));
    }
    Ok((slot, generation))
}

/// Refuses a handle of the process that has forked this one, and one that is not open.
pub(crate) fn check<H: Handle>(handle: *mut H) -> Result<(), Failure> {
    find(handle).map(|_| ())
}

fn is_open(slot: &Slot, generation: u32) -> bool {
    generation % 2 == 1 && slot.generation.load(Ordering::Acquire) == generation
}

fn gone<H: Handle>() -> Failure {
    Failure::new(OUTBOARD_CLOSED, format!("the {} was closed, or never was one", H::NAME))
}

fn busy<H: Handle>() -> Failure {
    let text = format!(
        "another call has this {}: one thread at a time, and in a handler only outboard_messenger_send",
        H::NAME
    );
    Failure::new(OUTBOARD_BUSY, text)
}

fn other<H: Handle>(kind: &str) -> Failure {
    Failure::new(OUTBOARD_CLOSED, format!("an {} was given where an {} belongs", kind, H::NAME))
}

/// The right to use a slot, until it is dropped.
struct Turn {
    slot: &'static Slot,
    is_alone: bool,
}

impl Turn {
    /// Begins a call beside others that share the object.
    fn shared<H: Handle>(handle: *mut H) -> Result<Self, Failure> {
        let (slot, generation) = find(handle)?;
        let more = |calls: u32| (calls < ALONE - 1).then(|| calls + 1);
        let begun = slot.calls.fetch_update(Ordering::Acquire, Ordering::Relaxed, more);
        begun.map_err(|_| busy::<H>())?;
        Self { slot, is_alone: false }.checked(handle, generation)
    }

    /// Begins a call that has the object alone.
    fn alone<H: Handle>(handle: *mut H) -> Result<Self, Failure> {
        let (slot, generation) = find(handle)?;
        let begun = slot.calls.compare_exchange(0, ALONE, Ordering::Acquire, Ordering::Relaxed);
        begun.map_err(|_| busy::<H>())?;
        Self { slot, is_alone: true }.checked(handle, generation)
    }

    /// The handle may have been closed between the look and the beginning; from here on it cannot be.
    fn checked<H: Handle>(self, _: *mut H, generation: u32) -> Result<Self, Failure> {
        if is_open(self.slot, generation) { Ok(self) } else { Err(gone::<H>()) }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_alone {
            self.slot.calls.store(0, Ordering::Release);
        } else {
            self.slot.calls.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Uses an object beside other calls.
pub(crate) fn shared<H: Handle<Object: Sync>, R>(
    handle: *mut H,
    work: impl FnOnce(&H::Object) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let turn = Turn::shared(handle)?;
    // SAFETY: while calls share the slot none changes it.
    let Some(object) = (unsafe { &*turn.slot.object.get() }) else { return Err(gone::<H>()) };
    work(object.it.downcast_ref().ok_or_else(|| other::<H>(object.kind))?)
}

/// Uses an object alone.
pub(crate) fn alone<H: Handle, R>(
    handle: *mut H,
    work: impl FnOnce(&mut H::Object) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let turn = Turn::alone(handle)?;
    // SAFETY: this call has the slot alone.
    let Some(object) = (unsafe { &mut *turn.slot.object.get() }) else { return Err(gone::<H>()) };
    let kind = object.kind;
    work(object.it.downcast_mut().ok_or_else(|| other::<H>(kind))?)
}

/// Takes an object back. The handle means nothing from then on.
pub(crate) fn close<H: Handle>(handle: *mut H) -> Result<H::Object, Failure> {
    close_after(handle, |_| Ok(()))
}

/// Takes an object back when something was done with it for the last time. If that fails it stays.
pub(crate) fn close_after<H: Handle>(
    handle: *mut H,
    last: impl FnOnce(&mut H::Object) -> Result<(), Failure>,
) -> Result<H::Object, Failure> {
    let turn = Turn::alone(handle)?;
    // SAFETY: this call has the slot alone.
    let place = unsafe { &mut *turn.slot.object.get() };
    let Some(mut object) = place.take() else { return Err(gone::<H>()) };
    let kind = object.kind;
    if let Some(it) = object.it.downcast_mut()
        && let Err(failure) = last(it)
    {
        *place = Some(object);
        return Err(failure);
    }
    match object.it.downcast() {
        Ok(object) => {
            turn.slot.generation.fetch_add(1, Ordering::Release);
            drop(turn);
            let index = (handle as usize as u32).wrapping_sub(1);
            FREE.lock().unwrap_or_else(PoisonError::into_inner).slots.push(index);
            Ok(*object)
        }
        Err(it) => {
            *place = Some(Object { kind, it });
            Err(other::<H>(kind))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    enum Number {}
    enum Word {}

    impl Handle for Number {
        type Object = u64;
        const NAME: &'static str = "number";
    }

    impl Handle for Word {
        type Object = String;
        const NAME: &'static str = "word";
    }

    fn add_one(number: &mut u64) -> Result<(), Failure> {
        *number += 1;
        Ok(())
    }

    fn status<T>(result: Result<T, Failure>) -> i32 {
        result.err().unwrap().status
    }

    #[test]
    fn slots_follow_one_another_through_all_parts() {
        assert_eq!([0, 63, 64, 191, 192].map(place), [(0, 0), (0, 63), (1, 0), (1, 127), (2, 0)]);
        assert_eq!(place(u32::MAX).0, 26, "more than there are parts");
    }

    #[test]
    fn a_handle_is_good_until_it_is_closed_and_only_for_its_kind() {
        let handle = open::<Number>(7).unwrap();
        assert_eq!(shared(handle, |number| Ok(*number)).unwrap(), 7);
        alone(handle, add_one).unwrap();
        assert_eq!(status(shared(handle.cast::<Word>(), |_| Ok(()))), OUTBOARD_CLOSED);
        assert_eq!(status(close(handle.cast::<Word>())), OUTBOARD_CLOSED);
        assert_eq!(close(handle).unwrap(), 8);
        assert_eq!(status(close(handle)), OUTBOARD_CLOSED);
        let again = open::<Number>(9).unwrap();
        assert_eq!(status(alone(handle, |_| Ok(()))), OUTBOARD_CLOSED, "also if its slot has another object");
        close(again).unwrap();
    }

    #[test]
    fn numbers_that_never_were_handles_are_refused() {
        let somewhere = Box::new(0);
        let address = std::ptr::from_ref(&*somewhere) as usize;
        for number in [1, 64, usize::MAX, 1 << 32, (3 << 32) | 70_000_000, address] {
            assert_eq!(status(shared(number as *mut Number, |_| Ok(()))), OUTBOARD_CLOSED, "{number:x}");
        }
        let null = alone(std::ptr::null_mut::<Number>(), |_| Ok(())).unwrap_err();
        assert!(null.text.contains("number is NULL"), "{}", null.text);
    }

    #[test]
    fn one_call_alone_keeps_others_out_and_is_not_kept_out_for_ever() {
        let handle = open::<Number>(0).unwrap() as usize;
        let as_handle = move || handle as *mut Number;
        alone(as_handle(), |_| {
            assert_eq!(status(alone(as_handle(), |_| Ok(()))), OUTBOARD_BUSY);
            assert_eq!(status(shared(as_handle(), |_| Ok(()))), OUTBOARD_BUSY);
            assert_eq!(status(close(as_handle())), OUTBOARD_BUSY);
            Ok(())
        })
        .unwrap();
        shared(as_handle(), |_| {
            shared(as_handle(), |_| Ok(())).unwrap();
            assert_eq!(status(alone(as_handle(), |_| Ok(()))), OUTBOARD_BUSY);
            Ok(())
        })
        .unwrap();
        let refused = AtomicUsize::new(0);
        let add = |_: usize| {
            for _ in 0..1000 {
                while alone(as_handle(), add_one).is_err() {
                    refused.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            }
        };
        let add = &add;
        std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || add(thread)))));
        assert_eq!(close(as_handle()).unwrap(), 4000, "{refused:?} calls were refused");
    }

    #[test]
    fn closing_races_with_calls_and_ends_once() {
        for _ in 0..200 {
            let handle = open::<Number>(1).unwrap() as usize;
            let closed = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        loop {
                            match close(handle as *mut Number) {
                                Ok(_) => drop(closed.fetch_add(1, Ordering::Relaxed)),
                                Err(failure) if failure.status == OUTBOARD_CLOSED => break,
                                Err(_) => std::hint::spin_loop(),
                            }
                        }
                    });
                }
            });
            assert_eq!(closed.into_inner(), 1);
        }
    }
}
