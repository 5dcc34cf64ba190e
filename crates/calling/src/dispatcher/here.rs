//! Functions that are to run here too, in the caller's own thread.
//!
//! Looking at one takes long, and calls go on meanwhile: the owner of the dispatcher looks at the one that
//! [`Dispatcher::unprepared`] names, in whichever thread it has for that, and hands the result to [`Dispatcher::prepared`].

use std::sync::Arc;

use outboard_contract::{Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::calling::FunctionName;

use super::Dispatcher;
use super::register::{Known, Wanted};
use crate::desk::Regions;
use crate::remote::RemoteRegion;
use crate::{Function, FunctionImage, Refused};

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// Has functions run here too if calls are to come here, one after the other.
    #[inline]
    pub(super) fn introduce_here(&mut self) {
        if self.is_wanted_here && self.unprepared.is_none() && self.placement.is_free() {
            let awaited = |known: &Known| !known.is_at(Site::Application) && known.not_here.is_none();
            match self.functions.iter().position(awaited) {
                Some(handle) => {
                    let handle = handle as u32;
                    self.unprepared = self.regions_here(handle).map(|_| handle);
                }
                None => self.is_wanted_here = false,
            }
        }
    }

    /// The function that is to be looked at.
    #[inline]
    pub fn unprepared(&self) -> Option<&FunctionImage> {
        self.unprepared.map(|handle| self.functions[handle as usize].image())
    }

    /// What came of looking at a function that was [to be looked at](Self::unprepared). It may be forgotten meanwhile.
    pub fn prepared(&mut self, name: FunctionName, prepared: Result<Function, Refused>) {
        let functions = &self.functions;
        let is_it = |handle: &mut u32| functions[*handle as usize].image().name() == name;
        let Some(handle) = self.unprepared.take_if(is_it) else { return };
        if let Some(regions) = self.regions_here(handle) {
            self.bind_here(handle, prepared, regions);
        }
    }

    /// The regions of a function, once all of them are open here.
    pub(super) fn regions_here(&mut self, handle: u32) -> Option<Regions<RemoteRegion>> {
        let known = &mut self.functions[handle as usize];
        let found = self.here.find(&known.wanted().regions);
        found.unwrap_or_else(|refused| {
            known.not_here = Some(refused);
            None
        })
    }

    pub(super) fn bind_here(
        &mut self,
        handle: u32,
        prepared: Result<Function, Refused>,
        regions: Regions<RemoteRegion>,
    ) {
        let known = &mut self.functions[handle as usize];
        let Wanted { fuel, reply_max, .. } = *known.wanted();
        match prepared {
            Ok(function) => {
                self.here.bind(handle, Arc::new(function), regions, (fuel, reply_max));
                known.set_at(Site::Application, true);
            }
            Err(refused) => known.not_here = Some(refused),
        }
    }
}
