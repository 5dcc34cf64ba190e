//! How sites are told of a function.

use std::sync::Arc;
use std::time::Duration;

use outboard_calling::{Function, FunctionImage};
use outboard_link::{Link, LinkError, Loss, RemoteMemory, SendError};
use outboard_steering::Site;
use outboard_wire::calling::{
    Allowed, CODE, CodePart, HANDLES_MAX, REGIONS_MAX, REGISTER, Register, RegisterRefusal, Registered,
    Verdict,
};
use outboard_wire::{FrameHead, Rights, Time};
use thiserror::Error;

use super::prepare::Preparation;
use super::{Dispatcher, Placement, SiteEnd};
use crate::calling::desk::{Refused, Regions};
use crate::calling::remote::RemoteRegion;

/// How much code one frame brings, in bytes.
pub(super) const PART_LEN: usize = 16 << 10;
/// How long to wait before asking again for a function that the site is looking at.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a site may take that calls can do without.
const DISPENSABLE: Duration = Duration::from_secs(2);

/// What a function needs at a site.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The regions it may use.
    pub regions: Vec<Allowed>,
    /// Fuel for each call.
    pub fuel: u64,
    /// The longest reply, in bytes.
    pub reply_max: u32,
}

/// What is known of a function.
pub(super) struct Known {
    image: FunctionImage,
    wanted: Wanted,
    /// Which sites know it, by their places in [`Site::ALL`].
    at: [bool; 3],
    /// Why it cannot run here.
    not_here: Option<Refused>,
    /// It has no right to write, so that it does no harm to run it twice.
    pub(super) only_reads: bool,
    /// Its code says that it can go on as another function, here or at another server.
    pub(super) may_forward: bool,
    /// Nobody calls it: its registration was not answered in time. An answer may come still, so that its number cannot be
    /// given to another.
    is_given_up: bool,
}

impl Known {
    #[inline]
    pub(super) fn is_at(&self, site: Site) -> bool {
        self.at[site as usize]
    }

    /// Whether somebody may call it, and the agent does not know it.
    pub(super) fn is_missed_by_agent(&self) -> bool {
        !self.is_given_up && !self.is_at(Site::Agent)
    }

    /// From now on the site knows it, or does not.
    pub(super) fn set_at(&mut self, site: Site, knows: bool) {
        self.at[site as usize] = knows;
    }

    pub(super) fn image(&self) -> &FunctionImage {
        &self.image
    }

    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }
}

/// Why a function cannot be called.
#[derive(Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The site refuses.
    #[error("{site} does not take the function: {detail}")]
    Refused {
        /// Which site.
        site: String,
        /// Why, for programs.
        refusal: RegisterRefusal,
        /// Why, for people.
        detail: String,
    },
    /// More regions than a function can have.
    #[error("the function is given {regions} regions, and can have {REGIONS_MAX}")]
    TooManyRegions {
        /// How many.
        regions: usize,
    },
    /// More functions than a caller can have.
    #[error("a caller can have {max} functions; use another for more")]
    TooManyFunctions {
        /// How many it can have.
        max: u32,
    },
    /// The caller has no such memory server.
    #[error("the caller has no memory server {server}; open it first")]
    NoServer {
        /// Its number.
        server: u32,
    },
    /// There is no agent.
    #[error("calls are to run at an agent, and there is none: name it, or start one")]
    NoAgent,
    /// The site is gone, or says nothing.
    #[error(transparent)]
    Lost(#[from] LinkError),
}

outboard_wire::debug_with_causes!(RegisterError);

/// Until when to wait, and how long that is.
type Limit = (Time, Duration);

impl<L: Link + RemoteMemory + Send> Dispatcher<L> {
    /// Makes a function known to the sites where its calls may run, and waits until it can be called. Returns its number.
    /// Calls that end meanwhile are kept.
    pub fn register(
        &mut self,
        image: &FunctionImage,
        wanted: Wanted,
        patience: Duration,
    ) -> Result<u32, RegisterError> {
        if wanted.regions.len() > REGIONS_MAX {
            return Err(RegisterError::TooManyRegions { regions: wanted.regions.len() });
        }
        let handle = self.functions.len() as u32;
        if handle >= HANDLES_MAX {
            return Err(RegisterError::TooManyFunctions { max: HANDLES_MAX });
        }
        // What goes on as another function may write then.
        let writes = wanted.regions.iter().any(|allowed| allowed.rights.includes(Rights::WRITE));
        let may_forward = image.may_forward();
        let only_reads = !writes && !may_forward;
        let (at, not_here, is_given_up) = ([false; 3], None, false);
        let image = image.clone();
        let known = Known { image, wanted, at, not_here, only_reads, may_forward, is_given_up };
        self.functions.push(known);
        // Whoever waits hears the answers.
        self.reminder.is_needed = false;
        let introduced = self.introduce(handle, patience);
        match &introduced {
            Ok(()) => {}
            // That was the answer.
            Err(RegisterError::Refused { .. }) => drop(self.functions.pop()),
            Err(_) => self.functions[handle as usize].is_given_up = true,
        }
        self.reminder.is_needed =
            self.may_use_agent() && self.functions.iter().any(Known::is_missed_by_agent);
        introduced.map(|()| handle)
    }

    /// Whether calls may run at an agent that is there.
    pub(super) fn may_use_agent(&self) -> bool {
        let may_be_there = self.placement.is_free() || self.placement == Placement::Fixed(Site::Agent);
        may_be_there && self.agent.is_some()
    }

    fn introduce(&mut self, handle: u32, patience: Duration) -> Result<(), RegisterError> {
        let first = match self.placement {
            Placement::Steered | Placement::Hinted(_) => Site::Server,
            Placement::Fixed(site) => site,
        };
        let now = self.clock().now();
        match first {
            Site::Application => self.await_here(handle, (now + patience, patience))?,
            site => self.introduce_at(site, handle, (now + patience, patience))?,
        }
        if self.placement == Placement::Hinted(Site::Application) {
            // Without it calls run at the server.
            let _ = self.await_here(handle, (now + patience, patience));
        }
        if self.placement.is_free() && self.agent.is_some() {
            let most = patience.min(DISPENSABLE);
            // Without the agent calls run at the server.
            let _ = self.introduce_at(Site::Agent, handle, (self.clock().now() + most, most));
        }
        Ok(())
    }

    fn end(&mut self, site: Site) -> Result<&mut dyn SiteEnd, RegisterError> {
        match (site, &mut self.agent) {
            (Site::Agent, Some(agent)) => Ok(agent.as_mut()),
            (Site::Agent, None) => Err(RegisterError::NoAgent),
            _ => Ok(&mut self.server),
        }
    }

    fn introduce_at(&mut self, site: Site, handle: u32, limit: Limit) -> Result<(), RegisterError> {
        let Known { image, wanted: Wanted { regions, fuel, reply_max }, .. } =
            &self.functions[handle as usize];
        let (regions, image, mut question) = (regions.clone(), image.clone(), Vec::new());
        Register { handle, reply_max: *reply_max, fuel: *fuel, name: image.name(), regions }
            .encode(&mut question);
        loop {
            while self.end(site)?.next_registered().is_some() {}
            self.send_soon(site, FrameHead::new(REGISTER), &question, limit)?;
            let Registered { verdict, detail, .. } = self.await_verdict(site, handle, limit)?;
            match verdict {
                Verdict::Ready => break,
                Verdict::NeedsCode => self.ship(site, &image, limit)?,
                Verdict::Preparing => self.pause(site, self.clock().now() + PAUSE)?,
                Verdict::Refused(refusal) => {
                    let site = self.end(site)?.peer().to_string();
                    return Err(RegisterError::Refused { site, refusal, detail });
                }
            }
            self.in_time(site, limit)?;
        }
        self.functions[handle as usize].at[site as usize] = true;
        Ok(())
    }

    /// Sends the code, in parts.
    fn ship(&mut self, site: Site, image: &FunctionImage, limit: Limit) -> Result<(), RegisterError> {
        let (bytes, name) = (image.bytes(), image.name());
        let most = self.end(site)?.payload_max().min(PART_LEN + CodePart::LEN).saturating_sub(CodePart::LEN);
        for (number, code) in bytes.chunks(most.max(1)).enumerate() {
            let part = CodePart { name, total: bytes.len() as u32, offset: (number * most) as u32 };
            let payload = [part.encode().as_slice(), code].concat();
            self.send_soon(site, FrameHead::new(CODE), &payload, limit)?;
        }
        Ok(())
    }

    /// Sends a frame as soon as there is room for it.
    fn send_soon(
        &mut self,
        site: Site,
        head: FrameHead,
        payload: &[u8],
        limit: Limit,
    ) -> Result<(), RegisterError> {
        loop {
            match self.end(site)?.send(head, payload) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) => self.pause(site, limit.0)?,
                Err(SendError::Lost(error)) => return Err(error.into()),
                Err(SendError::TooLong { len, max }) => {
                    let site = self.end(site)?.peer().to_string();
                    let detail = format!(
                        "its registration has {len} bytes and the link carries {max}; raise link.ring"
                    );
                    return Err(RegisterError::Refused { site, refusal: RegisterRefusal::TooMuch, detail });
                }
            }
            self.in_time(site, limit)?;
        }
    }

    fn await_verdict(&mut self, site: Site, handle: u32, limit: Limit) -> Result<Registered, RegisterError> {
        loop {
            self.turn_and_keep();
            // All of them: some may be for functions that were given up.
            while let Some(answer) = self.end(site)?.next_registered() {
                if answer.handle == handle {
                    return Ok(answer);
                }
            }
            self.in_time(site, limit)?;
            self.sleep(limit.0)?;
        }
    }

    /// Lets the links work until `limit`, or until something has happened.
    fn pause(&mut self, site: Site, limit: Time) -> Result<(), RegisterError> {
        let moved = self.turn_and_keep();
        if let Some(lost) = self.lost_of(site) {
            return Err(lost.clone().into());
        }
        // What has moved may be what is awaited.
        if moved { Ok(()) } else { Ok(self.sleep(limit)?) }
    }

    fn in_time(&mut self, site: Site, (limit, patience): Limit) -> Result<(), RegisterError> {
        if let Some(lost) = self.lost_of(site) {
            return Err(lost.clone().into());
        }
        if self.clock().now() < limit {
            return Ok(());
        }
        let loss = Loss::Stalled { silent: patience, awaited: "a function to be registered" };
        Err(LinkError { peer: self.end(site)?.peer().clone(), loss }.into())
    }

    fn await_here(&mut self, handle: u32, limit: Limit) -> Result<(), RegisterError> {
        loop {
            // Whoever registers a function for this site waits for it anyway.
            let open = self.regions_here(handle);
            if let Some(regions) = open {
                let prepared = Function::prepare(&self.functions[handle as usize].image);
                self.bind_here(handle, prepared, regions);
            }
            let known = &mut self.functions[handle as usize];
            if known.is_at(Site::Application) {
                return Ok(());
            }
            if let Some((refusal, detail)) = known.not_here.clone() {
                let site = "the application itself".to_owned();
                return Err(RegisterError::Refused { site, refusal, detail });
            }
            self.in_time(Site::Application, limit)?;
            self.pause(Site::Application, limit.0)?;
        }
    }

    /// Has functions run here too if calls are to come here, one after the other: looking at one takes a while.
    #[inline]
    pub(super) fn introduce_here(&mut self) {
        if self.is_wanted_here && self.placement.is_free() {
            let awaited = |known: &Known| !known.is_at(Site::Application) && known.not_here.is_none();
            match self.functions.iter().position(awaited) {
                Some(handle) => self.introduce_one_here(handle as u32),
                None => self.is_wanted_here = false,
            }
        }
    }

    /// Has a function run here too, once its regions are open and a thread has looked at it; first of all the one that is
    /// being looked at.
    fn introduce_one_here(&mut self, handle: u32) {
        let Some(preparing) = &self.preparing else {
            if self.regions_here(handle).is_some() {
                let image = &self.functions[handle as usize].image;
                self.preparing = Preparation::begin(handle, image);
            }
            return;
        };
        let (handle, Some(prepared)) = (preparing.handle, preparing.result()) else { return };
        self.preparing = None;
        if let Some(regions) = self.regions_here(handle) {
            self.bind_here(handle, prepared, regions);
        }
    }

    /// The regions of a function, once all of them are open here.
    fn regions_here(&mut self, handle: u32) -> Option<Regions<RemoteRegion>> {
        let known = &mut self.functions[handle as usize];
        let found = self.here.find(&known.wanted.regions);
        found.unwrap_or_else(|refused| {
            known.not_here = Some(refused);
            None
        })
    }

    fn bind_here(
        &mut self,
        handle: u32,
        prepared: Result<Function, Refused>,
        regions: Regions<RemoteRegion>,
    ) {
        let known = &mut self.functions[handle as usize];
        let Wanted { fuel, reply_max, .. } = known.wanted;
        match prepared {
            Ok(function) => {
                self.here.bind(handle, Arc::new(function), regions, (fuel, reply_max));
                known.at[Site::Application as usize] = true;
            }
            Err(refused) => known.not_here = Some(refused),
        }
    }
}
