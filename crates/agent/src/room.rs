//! The memory that pages can still be made of. The kernel does not refuse a page beyond the limit of a machine or a control
//! group, it kills: so whatever makes many pages present asks here first.

use std::sync::{Arc, Mutex, PoisonError};

use outboard_limits::{LimitSetter, MemoryLimit, MemoryLimits, show_bytes};
use outboard_wire::control::ControlFailure;

use crate::store::No;

/// How many bytes are made present between two looks at the limits: others use memory meanwhile.
pub(crate) const STEP: u64 = 32 << 20;

/// The memory that pages can still be made of.
pub(crate) struct Room {
    /// Bytes that will be made present, and are not yet.
    promised: Mutex<u64>,
    limits: fn() -> MemoryLimits,
}

/// Memory that is kept for the owner of this value.
pub(crate) struct Promise {
    room: Arc<Room>,
    bytes: u64,
}

impl Default for Room {
    /// That of this process.
    fn default() -> Self {
        Self { promised: Mutex::default(), limits: MemoryLimits::of_this_process }
    }
}

impl Room {
    /// Keeps memory for `bytes` that are to be made present.
    pub(crate) fn promise(self: &Arc<Self>, bytes: u64) -> Result<Promise, No> {
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = (self.limits)().tightest() {
            let spare = limit.spare().saturating_sub(*promised);
            if bytes > spare {
                return Err(refusal(bytes, spare, limit));
            }
        }
        *promised += bytes;
        Ok(Promise { room: Arc::clone(self), bytes })
    }
}

impl Promise {
    /// Has `make` make the next `bytes` present, unless others have used the memory in the meantime.
    pub(crate) fn keep<T, E>(
        &mut self,
        bytes: u64,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Result<T, E>, No> {
        if let Some(limit) = (self.room.limits)().tightest()
            && bytes.min(self.bytes) > limit.spare()
        {
            return Err(refusal(self.bytes, limit.spare(), limit));
        }
        let made = make();
        // From now on it counts as used.
        self.give_back(bytes);
        Ok(made)
    }

    fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        *self.room.promised.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// Whether `bytes` can be made present now.
pub(crate) fn has_room(bytes: u64) -> bool {
    MemoryLimits::of_this_process().tightest().is_none_or(|limit| bytes <= limit.spare())
}

/// What the asker is told; an answer has room for little more.
fn refusal(bytes: u64, spare: u64, limit: &MemoryLimit) -> No {
    let (bytes, spare, all) = (show_bytes(bytes), show_bytes(spare), show_bytes(limit.bytes));
    let place = match limit.set_by {
        LimitSetter::Machine => "machine",
        LimitSetter::Cgroup { .. } => "memory cgroup",
    };
    let detail = format!(
        "{bytes} more are to be present at once, and the server's {place} (limit {all}) has room for {spare}; free regions, \
         ask for less, do not populate, or raise the limit"
    );
    (ControlFailure::NoCapacity, detail)
}

#[cfg(test)]
mod tests {
    use outboard_limits::{Groups, with_files};
    use outboard_wire::Text;

    use super::*;

    /// A group that allows 160 MiB, of which 50 MiB are used and 10 MiB are kept free.
    fn limits() -> MemoryLimits {
        let files = [
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", "30 23 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw\n"),
            ("/cg/memory.max", "167772160\n"),
            ("/cg/memory.current", "52428800\n"),
        ];
        with_files(&files, |files| MemoryLimits::read(files, &Groups::read(files)))
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_promised_to_one_is_not_promised_to_another() {
        let room = Arc::new(Room { promised: Mutex::default(), limits });
        let mut first = room.promise(60 * MIB).unwrap();
        let (failure, detail) = room.promise(41 * MIB).err().unwrap();
        assert_eq!(failure, ControlFailure::NoCapacity);
        assert!(
            detail.contains("41 MiB more") && detail.contains("(limit 160 MiB) has room for 40 MiB"),
            "{detail}"
        );
        let second = room.promise(40 * MIB).unwrap();
        assert!(room.promise(1).is_err());
        drop(second);
        // What is present is no longer promised; here the group does not notice that it is used.
        first.keep(30 * MIB, || Ok::<_, ()>(())).unwrap().unwrap();
        drop(room.promise(70 * MIB).unwrap());
        drop(first);
        drop(room.promise(100 * MIB).unwrap());
    }

    #[test]
    fn a_promise_cannot_be_kept_when_others_have_used_the_memory() {
        let room = Arc::new(Room { promised: Mutex::default(), limits: MemoryLimits::default });
        let mut promise = room.promise(1 << 40).unwrap();
        promise.keep(STEP, || Ok::<_, ()>(())).unwrap().unwrap();
        let room = Arc::new(Room { promised: Mutex::new(0), limits });
        let mut late = Promise { room, bytes: 0 };
        late.bytes = 1 << 40;
        *late.room.promised.lock().unwrap() = 1 << 40;
        let refused = late.keep(101 * MIB, || -> Result<(), ()> { panic!("there is no room") });
        assert!(refused.err().unwrap().1.contains("room for 100 MiB"));
    }

    #[test]
    fn an_answer_has_room_for_every_refusal() {
        let limit = MemoryLimit {
            bytes: u64::MAX - 1,
            left: 0,
            set_by: LimitSetter::Cgroup { file: "/sys/fs/cgroup/x".repeat(20) },
        };
        let (_, detail) = refusal(u64::MAX - 12_345, u64::MAX - 12_345, &limit);
        assert_eq!(Text::<238>::new(&detail).as_str(), detail);
    }
}
