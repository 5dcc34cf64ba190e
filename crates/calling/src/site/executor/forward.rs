//! Runs that go on as another function, here or at another memory server.

use outboard_wire::calling::{
    CallFailure, FORWARDED_LEN_MAX, Forwarded, HANDLES_MAX, SERVERS_MAX, TrapReason,
};

use super::Executor;
use super::host::Overlap;
use super::run::Run;
use super::session::Session;
use super::site::SiteHost;

/// How a run goes on when its function returns.
#[derive(Debug, Default)]
pub(super) struct Forward {
    /// As which function, if any.
    pub(super) to: Option<u64>,
    /// At which of its caller's servers, if not here.
    pub(super) server: Option<u64>,
    /// What that is given.
    pub(super) arguments: Vec<u8>,
    /// What is left of the fuel when it leaves, and the instruction that said so.
    left: (u64, u32),
}

impl Forward {
    /// The latest counts.
    pub(super) fn set(&mut self, to: u64, server: Option<u64>, arguments: &[u8]) {
        (self.to, self.server) = (Some(to), server);
        self.arguments.clear();
        self.arguments.extend_from_slice(arguments);
    }
}

impl<R> Executor<R> {
    /// Goes on with a run that has returned and is to go on as another function. It ends at the latest with its fuel.
    /// Returns what that has cost.
    #[inline(always)]
    pub(super) fn follow<S: SiteHost<Region = R>>(
        session: &Session<R>,
        run: &mut Run<R>,
        site: &mut S,
        overlap: Overlap,
    ) -> u64 {
        if run.is_forwarded() { Self::go_on_elsewhere(session, run, site, overlap) } else { 0 }
    }

    #[cold]
    fn go_on_elsewhere<S: SiteHost<Region = R>>(
        session: &Session<R>,
        run: &mut Run<R>,
        site: &mut S,
        overlap: Overlap,
    ) -> u64 {
        let mut cost = 0u64;
        while let Some(Ok(_)) = run.ended
            && let Some(to) = run.forward.to
        {
            if run.forward.server.is_some() {
                if let Err(failure) = run.leave(session) {
                    run.end(Err(failure));
                }
                return cost;
            }
            run.forward.to = None;
            let found = u32::try_from(to).ok().and_then(|handle| Some((handle, session.bound(handle)?)));
            let more = found.and_then(|(handle, bound)| run.go_on_as(handle, bound, site, overlap));
            let more = more.unwrap_or_else(|| {
                let at = session.forwards(run.handle).and_then(|forwards| forwards.here);
                run.end(Err(trapped(at, TrapReason::NoForward)))
            });
            cost = cost.saturating_add(more);
        }
        cost
    }
}

fn trapped(at: Option<u32>, reason: TrapReason) -> CallFailure {
    CallFailure::Trapped { index: at.unwrap_or(0), reason, address: 0 }
}

impl<R> Run<R> {
    /// Prepares to go on at another server: nothing leaves that no caller would take.
    fn leave(&mut self, session: &Session<R>) -> Result<(), CallFailure> {
        let at = session.forwards(self.handle).and_then(|forwards| forwards.elsewhere);
        let (to, server) = (self.forward.to.unwrap_or(u64::MAX), self.forward.server.unwrap_or(u64::MAX));
        if server >= SERVERS_MAX.into() {
            return Err(trapped(at, TrapReason::NoServer));
        }
        self.forward.left = (self.fuel_left(session.bound(self.handle)), at.unwrap_or(0));
        if to >= HANDLES_MAX.into() || self.leaving().encoded_len() > FORWARDED_LEN_MAX {
            return Err(trapped(at, TrapReason::NoForward));
        }
        Ok(())
    }

    /// How it goes on at another server.
    #[cold]
    pub(super) fn leaving(&self) -> Forwarded<'_> {
        let (call, reply, (fuel, index)) = (self.call, self.reply(), self.forward.left);
        // Both were found to be less than 2^32.
        let (to, server) = (self.forward.to.unwrap_or(0), self.forward.server.unwrap_or(0));
        let (handle, server) = (to as u32, server as u32);
        Forwarded { call, server, handle, index, fuel, reply, arguments: &self.forward.arguments }
    }
}
