//! Processes that stand still for a while.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::process::Process;

impl Process {
    /// Stops it as if its machine hung. None of its threads does anything afterwards: a busy machine lets some of them go on
    /// for a while after the signal was sent.
    pub(crate) fn stop(&self) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a process has a number");
        kill_process(pid, Signal::STOP).expect("it lives");
        waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is a child of ours");
    }

    /// Lets it go on after [`stop`](Self::stop).
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }
}
