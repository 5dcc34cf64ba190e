//! How a site is told of a function.

use std::time::Duration;

use outboard_calling::FunctionImage;
use outboard_link::{Link, LinkError, Loss, SendError};
use outboard_wire::calling::{
    Allowed, CODE, CodePart, REGIONS_MAX, REGISTER, Register, RegisterRefusal, Registered, Verdict,
};
use outboard_wire::{FrameHead, Time};
use thiserror::Error;

use super::SiteLink;

/// How much code one frame brings, in bytes.
const PART_LEN: usize = 16 << 10;
/// How long to wait before asking again for a function that the site is looking at.
const PAUSE: Duration = Duration::from_millis(1);

/// What a function needs at a site.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The number that calls will say.
    pub handle: u32,
    /// The regions it may use.
    pub regions: Vec<Allowed>,
    /// Fuel for each call.
    pub fuel: u64,
    /// The longest reply, in bytes.
    pub reply_max: u32,
}

/// Why a function cannot be called.
#[derive(Debug, Error)]
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
    /// The site is gone, or says nothing.
    #[error(transparent)]
    Lost(#[from] LinkError),
}

impl<L: Link> SiteLink<L> {
    /// Makes a function known to the site, and waits until it can be called. Calls that end meanwhile are kept.
    pub fn register(
        &mut self,
        image: &FunctionImage,
        wanted: Wanted,
        patience: Duration,
    ) -> Result<(), RegisterError> {
        let Wanted { handle, regions, fuel, reply_max } = wanted;
        if regions.len() > REGIONS_MAX {
            return Err(RegisterError::TooManyRegions { regions: regions.len() });
        }
        let limit = self.clock().now() + patience;
        let mut question = Vec::new();
        Register { handle, reply_max, fuel, name: image.name(), regions }.encode(&mut question);
        loop {
            self.registered.clear();
            self.send_soon(FrameHead::new(REGISTER), &[&question], (limit, patience))?;
            let Registered { verdict, detail, .. } = self.await_verdict(handle, (limit, patience))?;
            match verdict {
                Verdict::Ready => return Ok(()),
                Verdict::NeedsCode => self.ship(image, (limit, patience))?,
                Verdict::Preparing => self.pause(self.clock().now() + PAUSE)?,
                Verdict::Refused(refusal) => {
                    let site = self.link.peer().to_string();
                    return Err(RegisterError::Refused { site, refusal, detail });
                }
            }
            self.in_time((limit, patience))?;
        }
    }

    /// Sends the code, in parts.
    fn ship(&mut self, image: &FunctionImage, patience: (Time, Duration)) -> Result<(), RegisterError> {
        let (bytes, name) = (image.bytes(), image.name());
        let most = self.longest().min(PART_LEN + CodePart::LEN) - CodePart::LEN;
        for (number, code) in bytes.chunks(most).enumerate() {
            let part = CodePart { name, total: bytes.len() as u32, offset: (number * most) as u32 };
            self.send_soon(FrameHead::new(CODE), &[&part.encode(), code], patience)?;
        }
        Ok(())
    }

    /// Sends a frame as soon as there is room for it.
    fn send_soon(
        &mut self,
        head: FrameHead,
        parts: &[&[u8]],
        patience: (Time, Duration),
    ) -> Result<(), RegisterError> {
        let payload = parts.concat();
        loop {
            match self.link.send(head, &payload) {
                Ok(()) => {
                    self.flush();
                    return Ok(());
                }
                Err(SendError::Full) => self.pause(patience.0)?,
                Err(SendError::Lost(error)) => {
                    self.lose(error.clone());
                    return Err(error.into());
                }
                Err(SendError::TooLong { len, max }) => {
                    let site = self.link.peer().to_string();
                    let detail = format!(
                        "its registration has {len} bytes and the link carries {max}; raise link.ring"
                    );
                    return Err(RegisterError::Refused { site, refusal: RegisterRefusal::TooMuch, detail });
                }
            }
            self.in_time(patience)?;
        }
    }

    fn await_verdict(
        &mut self,
        handle: u32,
        patience: (Time, Duration),
    ) -> Result<Registered, RegisterError> {
        loop {
            self.turn_and_keep();
            if let Some(answer) = self.registered.pop_front().filter(|answer| answer.handle == handle) {
                return Ok(answer);
            }
            self.in_time(patience)?;
            self.pause(patience.0)?;
        }
    }

    /// Lets the link work until `limit`, or until something has happened.
    fn pause(&mut self, limit: Time) -> Result<(), RegisterError> {
        self.turn_and_keep();
        if let Some(lost) = self.lost() {
            return Err(lost.clone().into());
        }
        if self.registered.is_empty() {
            self.sleep(limit)?;
        }
        Ok(())
    }

    fn in_time(&self, (limit, patience): (Time, Duration)) -> Result<(), RegisterError> {
        if let Some(lost) = self.lost() {
            return Err(lost.clone().into());
        }
        if self.clock().now() < limit {
            return Ok(());
        }
        let loss = Loss::Stalled { silent: patience, awaited: "a function to be registered" };
        Err(LinkError { peer: self.link.peer().clone(), loss }.into())
    }
}
