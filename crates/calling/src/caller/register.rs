//! How sites are told of a function: a registration goes from site to site, one step after the other, between turns.

use std::collections::VecDeque;
use std::time::Duration;

use outboard_contract::{FrameSendError, Link, LinkError, Loss, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::calling::{
    Allowed, CODE, CodePart, HANDLES_MAX, REGIONS_MAX, REGISTER, Register, RegisterRefusal, RegisterVerdict,
    Registered,
};
use outboard_wire::{FrameHead, Rights, Time};
use thiserror::Error;

use super::{CallPlacement, Dispatcher};
use crate::{FunctionImage, PreparedFunction, Refused};

/// How much code one frame brings, in bytes.
const PART_LEN: usize = 16 << 10;
/// How long to wait before asking again for a function that the site is looking at.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a site may take that calls can do without.
const DISPENSABLE: Duration = Duration::from_secs(2);

/// What a function needs at a site.
#[derive(Clone, Debug)]
pub struct FunctionNeeds {
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
    wanted: FunctionNeeds,
    /// Which sites know it, by their places in [`Site::ALL`].
    at: [bool; 3],
    /// Why it cannot run here.
    pub(super) not_here: Option<Refused>,
    /// It has no right to write, so that it does no harm to run it twice.
    pub(super) only_reads: bool,
    /// Its code says that it can go on as another function, here or at another server.
    pub(super) may_forward: bool,
    /// The caller has given it up: the site did not answer its registration in time. The site may answer still, so the
    /// dispatcher gives its number to no other function.
    is_given_up: bool,
}

impl Known {
    #[inline]
    pub(super) fn is_at(&self, site: Site) -> bool {
        self.at[site as usize]
    }

    /// Whether it may be called, and the agent does not know it.
    pub(super) fn is_missed_by_agent(&self) -> bool {
        !self.is_given_up && !self.is_at(Site::Agent)
    }

    /// From now on the site knows it, or does not.
    pub(super) fn set_at(&mut self, site: Site, knows: bool) {
        self.at[site as usize] = knows;
    }

    /// The question by which a site is told of it.
    pub(super) fn question(&self, handle: u32) -> Vec<u8> {
        let FunctionNeeds { regions, fuel, reply_max } = &self.wanted;
        let (name, regions, mut question) = (self.image.name(), regions.clone(), Vec::new());
        Register { handle, reply_max: *reply_max, fuel: *fuel, name, regions }.encode(&mut question);
        question
    }

    /// The part of its code from `offset` on that a link carries whose frames have `payload_max` bytes, and where the next
    /// part begins, if there is one.
    pub(super) fn part(&self, offset: usize, payload_max: usize) -> (Vec<u8>, Option<usize>) {
        let (bytes, name) = (self.image.bytes(), self.image.name());
        let most = payload_max.min(PART_LEN + CodePart::LEN).saturating_sub(CodePart::LEN).max(1);
        let end = bytes.len().min(offset + most);
        let part = CodePart { name, total: bytes.len() as u32, offset: offset as u32 };
        let payload = [part.encode().as_slice(), &bytes[offset..end]].concat();
        (payload, (end < bytes.len()).then_some(end))
    }

    pub(super) fn image(&self) -> &FunctionImage {
        &self.image
    }

    pub(super) fn wanted(&self) -> &FunctionNeeds {
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

/// A function that sites are being told of.
#[derive(Debug)]
pub(super) struct Registration {
    handle: u32,
    /// The sites that are told, the present one first, and whether calls can do without them.
    stops: VecDeque<(Site, bool)>,
    step: Step,
    /// Until when the present site may take, and how long that is.
    until: Time,
    patience: Duration,
}

/// How far a site has been told.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It is to be asked whether it knows the function.
    Ask,
    /// It is to answer.
    Await,
    /// It is to be sent the code from there on.
    Ship(usize),
    /// It looks at the code, and is asked again then.
    Pause(Time),
}

impl Registration {
    /// When something is to be done though nothing is heard.
    fn next_deadline(&self) -> Time {
        match self.step {
            Step::Pause(until) => until.min(self.until),
            Step::Ask | Step::Await | Step::Ship(_) => self.until,
        }
    }
}

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// Begins to make a function known to the sites where its calls may run, each within `patience`. Make turns and
    /// [go on](Self::go_on_registering) until it can be called.
    pub fn begin_to_register(
        &mut self,
        image: &FunctionImage,
        wanted: FunctionNeeds,
        patience: Duration,
        now: Time,
    ) -> Result<(), RegisterError> {
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
        let stops = match self.placement {
            CallPlacement::Fixed(site) => VecDeque::from([(site, false)]),
            // Without the others calls run at the server.
            CallPlacement::Hinted(Site::Application) => {
                VecDeque::from([(Site::Server, false), (Site::Application, true), (Site::Agent, true)])
            }
            CallPlacement::Steered | CallPlacement::Hinted(_) => {
                VecDeque::from([(Site::Server, false), (Site::Agent, true)])
            }
        };
        let (step, until) = (Step::Ask, now + patience);
        self.registration = Some(Registration { handle, stops, step, until, patience });
        Ok(())
    }

    /// Goes on with a registration after a turn. Returns the number of the function once it can be called, or why it
    /// cannot.
    pub fn go_on_registering(&mut self, now: Time) -> Option<Result<u32, RegisterError>> {
        self.now = now;
        let mut registration = self.registration.take()?;
        let handle = registration.handle;
        while let Some((site, is_dispensable)) = registration.stops.front().copied() {
            match self.tell(site, &mut registration) {
                Ok(true) => {}
                Ok(false) => {
                    self.registration = Some(registration);
                    return None;
                }
                Err(_) if is_dispensable => {}
                Err(error) => return Some(Err(self.not_registered(handle, error))),
            }
            registration.stops.pop_front();
            registration.step = Step::Ask;
            if let Some((Site::Agent, true)) = registration.stops.front() {
                registration.patience = registration.patience.min(DISPENSABLE);
                registration.until = now + registration.patience;
            }
        }
        self.look_what_agent_misses();
        Some(Ok(handle))
    }

    /// Gives a registration up because of what happened to its owner.
    pub fn stop_registering(&mut self, error: LinkError) -> RegisterError {
        match self.registration.take() {
            Some(registration) => self.not_registered(registration.handle, error.into()),
            None => error.into(),
        }
    }

    /// When the registration has something to do though nothing is heard.
    pub(super) fn registration_deadline(&self) -> Option<Time> {
        self.registration.as_ref().map(Registration::next_deadline)
    }

    fn not_registered(&mut self, handle: u32, error: RegisterError) -> RegisterError {
        match error {
            // That was the answer.
            RegisterError::Refused { .. } => {
                self.functions.pop();
                self.unprepared.take_if(|unprepared| *unprepared == handle);
            }
            _ => self.functions[handle as usize].is_given_up = true,
        }
        self.look_what_agent_misses();
        error
    }

    fn look_what_agent_misses(&mut self) {
        self.reminder.is_needed =
            self.may_use_agent() && self.functions.iter().any(Known::is_missed_by_agent);
    }

    /// Whether calls may run at an agent that is there.
    pub(super) fn may_use_agent(&self) -> bool {
        let may_be_there = self.placement.is_free() || self.placement == CallPlacement::Fixed(Site::Agent);
        may_be_there && self.agent.is_some()
    }

    /// Tells a site of a function as far as it goes now. Returns whether the site knows it.
    fn tell(&mut self, site: Site, registration: &mut Registration) -> Result<bool, RegisterError> {
        let knows_it = match site {
            Site::Application => self.tell_here(registration.handle)?,
            Site::Server | Site::Agent => self.tell_far(site, registration)?,
        };
        if knows_it {
            return Ok(true);
        }
        if let Some(lost) = self.lost_of(site) {
            return Err(lost.clone().into());
        }
        if self.now < registration.until {
            return Ok(false);
        }
        let loss = Loss::Stalled { silent: registration.patience, awaited: "a function to be registered" };
        Err(LinkError { peer: self.peer_at(site).clone(), loss }.into())
    }

    fn tell_far(&mut self, site: Site, registration: &mut Registration) -> Result<bool, RegisterError> {
        let handle = registration.handle;
        loop {
            registration.step = match registration.step {
                Step::Ask => {
                    self.heard(site).ok_or(RegisterError::NoAgent)?.registered.clear();
                    let question = self.functions[handle as usize].question(handle);
                    if !self.has_sent(site, FrameHead::new(REGISTER), &question)? {
                        return Ok(false);
                    }
                    Step::Await
                }
                Step::Await => {
                    let answers = &mut self.heard(site).ok_or(RegisterError::NoAgent)?.registered;
                    // Some may be for functions that were given up.
                    let answer = answers.drain(..).find(|answer| answer.handle == handle);
                    let Some(Registered { verdict, detail, .. }) = answer else { return Ok(false) };
                    match verdict {
                        RegisterVerdict::Ready => {
                            self.functions[handle as usize].set_at(site, true);
                            return Ok(true);
                        }
                        RegisterVerdict::NeedsCode => Step::Ship(0),
                        RegisterVerdict::Preparing => Step::Pause(self.now + PAUSE),
                        RegisterVerdict::Refused(refusal) => {
                            let site = self.peer_at(site).to_string();
                            return Err(RegisterError::Refused { site, refusal, detail });
                        }
                    }
                }
                Step::Ship(offset) => {
                    let payload_max = self.payload_max(site);
                    let (part, next) = self.functions[handle as usize].part(offset, payload_max);
                    if !self.has_sent(site, FrameHead::new(CODE), &part)? {
                        return Ok(false);
                    }
                    next.map_or(Step::Ask, Step::Ship)
                }
                Step::Pause(until) if self.now < until => return Ok(false),
                Step::Pause(_) => Step::Ask,
            };
        }
    }

    /// Sends a frame about the registration, if there is room for it now.
    fn has_sent(&mut self, site: Site, head: FrameHead, payload: &[u8]) -> Result<bool, RegisterError> {
        match self.send(site, head, payload) {
            Ok(()) => Ok(true),
            Err(FrameSendError::Full) => Ok(false),
            Err(FrameSendError::Lost(error)) => Err(error.into()),
            Err(FrameSendError::TooLong { len, max }) => {
                let site = self.peer_at(site).to_string();
                let detail =
                    format!("its registration has {len} bytes and the link carries {max}; raise link.ring");
                Err(RegisterError::Refused { site, refusal: RegisterRefusal::TooMuch, detail })
            }
        }
    }

    /// Has a function run here as soon as its regions are open. The program that registers it waits for it anyway, so that it is
    /// looked at in this thread.
    fn tell_here(&mut self, handle: u32) -> Result<bool, RegisterError> {
        if let Some(regions) = self.regions_here(handle) {
            let prepared = PreparedFunction::prepare(&self.functions[handle as usize].image);
            self.bind_here(handle, prepared, regions);
        }
        let known = &self.functions[handle as usize];
        match &known.not_here {
            None => Ok(known.is_at(Site::Application)),
            Some((refusal, detail)) => {
                let (site, detail) = ("the application itself".to_owned(), detail.clone());
                Err(RegisterError::Refused { site, refusal: *refusal, detail })
            }
        }
    }
}
