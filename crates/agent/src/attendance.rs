//! Whether a client still uses a daemon.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outboard_wire::Role;

/// How long the first application may take to come.
const FIRST_WITHIN: Duration = Duration::from_secs(10);
/// How long a daemon stays without a client between two of them.
const NEXT_WITHIN: Duration = Duration::from_millis(100);

/// Which applications are there. Other daemons do not count: two that only keep each other would never end.
pub(crate) struct Attendance {
    state: Mutex<State>,
}

struct State {
    present: usize,
    /// Until when a client has to come while there is none.
    until: Instant,
}

impl Attendance {
    pub(crate) fn new() -> Self {
        let state = State { present: 0, until: Instant::now() + FIRST_WITHIN };
        Self { state: Mutex::new(state) }
    }

    /// A client has come.
    pub(crate) fn came(&self, role: Role) {
        if role == Role::Application {
            self.lock().present += 1;
        }
    }

    /// A client has gone.
    pub(crate) fn went(&self, role: Role) {
        if role == Role::Application {
            let mut state = self.lock();
            state.present = state.present.saturating_sub(1);
            state.until = Instant::now() + NEXT_WITHIN;
        }
    }

    /// Whether the last client has gone, and none has come after it.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        let state = self.lock();
        state.present == 0 && now >= state.until
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_when_the_last_application_has_gone() {
        let attendance = Attendance::new();
        let later = |by: Duration| Instant::now() + by;
        assert!(!attendance.is_over(later(FIRST_WITHIN / 2)), "a client may still come");
        assert!(attendance.is_over(later(FIRST_WITHIN * 2)));
        attendance.came(Role::Application);
        attendance.came(Role::Application);
        attendance.came(Role::Agent);
        attendance.went(Role::Application);
        assert!(!attendance.is_over(later(FIRST_WITHIN * 2)), "one is left");
        attendance.went(Role::Application);
        assert!(attendance.is_over(later(NEXT_WITHIN * 2)), "another agent does not count");
        attendance.came(Role::Application);
        assert!(!attendance.is_over(later(NEXT_WITHIN * 2)), "another has come in time");
    }
}
