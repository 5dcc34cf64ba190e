//! Which provider moves the bytes, and why.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use super::library::{FabricFault, Library, LoadError};
use super::offer::Offer;
use super::sys::{FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL, FI_PROGRESS_UNSPEC};
use super::{OfiConfig, Progress};

/// Providers that are passed over unless they are asked for by name.
const PASSED_OVER: &[&str] = &[
    // Shared memory has a link of its own, and a process that is killed may leave a lock that its peer waits for.
    "shm",
    // No longer maintained.
    "sockets",
    // Datagrams that get lost, and what tries to make up for it.
    "udp",
    "ofi_rxd",
    // Experiments, and what is for debugging.
    "net",
    "ofi_mrail",
    "ofi_hook",
];

/// The provider that runs on any network.
const EVERYWHERE: &str = "tcp;ofi_rxm";

/// Why no endpoint could be opened.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FabricError {
    /// The library cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The library refused something.
    #[error("libfabric: {0}")]
    Fault(#[from] FabricFault),
    /// No provider moves bytes from there.
    #[error("libfabric has no provider for this address; see fi_info -l")]
    NoProvider,
    /// The provider that was asked for is not there.
    #[error("libfabric has no provider “{wanted}” for this address; see fi_info -l")]
    NotThere {
        /// Which one.
        wanted: String,
    },
    /// Both sides insist on different providers, or the other has none.
    #[error(
        "this side uses provider “{ours}”, the other {}; set link.provider to the same on both sides",
        if .theirs.is_empty() { "cannot".to_owned() } else { format!("“{theirs}”") }
    )]
    Disagreement {
        /// The provider that this side uses.
        ours: String,
        /// The provider that the other side names; empty if it has none to offer.
        theirs: String,
    },
    /// The other side asks for a provider that may harm this one.
    #[error("provider “{wanted}” is used only where this side asks for it too, by link.provider")]
    NotOffered {
        /// Which one.
        wanted: String,
    },
}

outboard_wire::debug_with_causes!(FabricError);

/// A provider that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name in libfabric.
    pub provider: String,
    /// The network card or interface.
    pub device: String,
    /// Whether a network card reads and writes memory by itself.
    pub is_hardware: bool,
    /// Why this one.
    pub reason: String,
    /// Whether it works without being called.
    pub is_automatic: bool,
    /// Why it does, or does not.
    pub progress_reason: &'static str,
}

impl Choice {
    /// How the provider comes to its work, and why.
    pub fn progress(&self) -> String {
        format!("{}: {}", if self.is_automatic { "automatic" } else { "manual" }, self.progress_reason)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: {}", self.provider, self.device, self.reason)
    }
}

/// The release of libfabric that is loaded, such as 1.17.
pub fn version() -> Result<(u32, u32), LoadError> {
    Library::get().map(Library::version)
}

/// Which provider a link from `source` would use, and why. Loads libfabric.
pub fn choose(source: Option<IpAddr>, wanted: Option<&str>) -> Result<Choice, FabricError> {
    select(source, wanted, Progress::Fitting).map(|(_, choice)| choice)
}

impl OfiConfig {
    /// Which provider a link from `source` with these settings would use, and why. Loads libfabric.
    pub fn choose(&self, source: Option<IpAddr>) -> Result<Choice, FabricError> {
        select(source, self.provider.as_deref(), self.progress).map(|(_, choice)| choice)
    }
}

/// Chooses an offer for endpoints at `source`.
pub(super) fn select(
    source: Option<IpAddr>,
    wanted: Option<&str>,
    progress: Progress,
) -> Result<(Offer, Choice), FabricError> {
    let library = Library::get()?;
    // Providers that work by themselves offer to be called as well, so this leaves none out.
    let offers = Offer::list(library, source, wanted, FI_PROGRESS_MANUAL)?;
    let candidates = offers.iter().map(|offer| (&offer.provider[..], offer.is_hardware));
    let (index, reason) = match (pick(candidates, wanted), wanted) {
        (Some(picked), _) => picked,
        (None, Some(wanted)) => return Err(FabricError::NotThere { wanted: wanted.to_owned() }),
        (None, None) => return Err(FabricError::NoProvider),
    };
    let offer = offers.into_iter().nth(index).ok_or(FabricError::NoProvider)?;
    let (offer, progress_reason) = set_going(library, source, offer, progress)?;
    let Offer { provider, device, is_hardware, is_automatic, .. } = &offer;
    let choice = Choice {
        provider: provider.clone(),
        device: device.clone(),
        is_hardware: *is_hardware,
        reason: reason.to_owned(),
        is_automatic: *is_automatic,
        progress_reason,
    };
    Ok((offer, choice))
}

/// The offer `offer` with the progress that is wanted, if there is one, and why it has what it has.
fn set_going(
    library: &'static Library,
    source: Option<IpAddr>,
    manual: Offer,
    progress: Progress,
) -> Result<(Offer, &'static str), FabricError> {
    let ask = |how| -> Result<Option<Offer>, FabricFault> {
        let offers = Offer::list(library, source, Some(&manual.provider), how)?;
        Ok(offers.into_iter().find(|offer| {
            offer.is_automatic && offer.provider == manual.provider && offer.device == manual.device
        }))
    };
    Ok(match progress {
        Progress::Manual => (manual, "it was asked for"),
        Progress::Automatic => match ask(FI_PROGRESS_AUTO)? {
            Some(automatic) => (automatic, "it was asked for"),
            None => (manual, "this provider has no other, although link.progress asks for it"),
        },
        Progress::Fitting
            if !prefers_automatic(&manual.provider, || Ok(ask(FI_PROGRESS_UNSPEC)?.is_some()))? =>
        {
            (manual, "this provider prefers it")
        }
        Progress::Fitting => match ask(FI_PROGRESS_UNSPEC)? {
            Some(automatic) => (automatic, "this provider prefers it"),
            None => (manual, "this provider prefers it"),
        },
    })
}

/// Whether a provider works by itself unless it is told otherwise. It is asked once in the life of a process, because
/// that takes as long as everything else here.
fn prefers_automatic(
    provider: &str,
    ask: impl FnOnce() -> Result<bool, FabricFault>,
) -> Result<bool, FabricFault> {
    static KNOWN: Mutex<Vec<(String, bool)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, prefers)) = known.iter().find(|(name, _)| name == provider) {
        return Ok(*prefers);
    }
    let prefers = ask()?;
    known.push((provider.to_owned(), prefers));
    Ok(prefers)
}

/// The provider of the side that is connected to: the one that it is set to, otherwise the one that the other side asks for. A stranger does not
/// choose one that is passed over: locks in shared memory would let it stop this process.
pub(super) fn agree(ours: Option<&str>, theirs: &str) -> Result<String, FabricError> {
    match ours {
        Some(ours) => Ok(ours.to_owned()),
        None if is_passed_over(theirs) => Err(FabricError::NotOffered { wanted: theirs.to_owned() }),
        None => Ok(theirs.to_owned()),
    }
}

fn is_passed_over(provider: &str) -> bool {
    provider.split(';').any(|part| PASSED_OVER.iter().any(|name| part.starts_with(name)))
}

/// The place of the best among providers, of which it is known whether a network card does their work.
fn pick<'a>(
    offers: impl Iterator<Item = (&'a str, bool)> + Clone,
    wanted: Option<&str>,
) -> Option<(usize, &'static str)> {
    let mut numbered = offers.enumerate();
    if let Some(wanted) = wanted {
        let (index, _) = numbered.find(|(_, (provider, _))| *provider == wanted)?;
        return Some((index, "it was asked for"));
    }
    let usable = numbered.filter(|(_, (provider, _))| !is_passed_over(provider));
    let hardware = usable.clone().find(|(_, (_, is_hardware))| *is_hardware);
    if let Some((index, _)) = hardware {
        return Some((index, "its network card moves the bytes by itself"));
    }
    let plain = usable.clone().find(|(_, (provider, _))| *provider == EVERYWHERE);
    if let Some((index, _)) = plain {
        return Some((index, "no network card at this address moves bytes by itself"));
    }
    usable.clone().next().map(|(index, _)| (index, "there is no other"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(offers: &[(&str, bool)], wanted: Option<&str>) -> Option<usize> {
        pick(offers.iter().copied(), wanted).map(|(index, _)| index)
    }

    #[test]
    fn hardware_comes_first_and_what_loses_messages_never() {
        let all = [("udp;ofi_rxd", false), ("shm", false), ("tcp;ofi_rxm", false), ("verbs;ofi_rxm", true)];
        assert_eq!(picked(&all, None), Some(3));
        assert_eq!(picked(&all[..3], None), Some(2));
        assert_eq!(picked(&all[..2], None), None);
        // A card that is made of software is no better than plain TCP.
        assert_eq!(picked(&[("verbs;ofi_rxm", false), ("tcp;ofi_rxm", false)], None), Some(1));
        assert_eq!(picked(&[("verbs;ofi_rxm", false)], None), Some(0));
    }

    #[test]
    fn a_peer_chooses_only_what_cannot_harm() {
        assert_eq!(agree(None, "tcp;ofi_rxm"), Ok("tcp;ofi_rxm".to_owned()));
        for wanted in PASSED_OVER {
            let refused = Err(FabricError::NotOffered { wanted: (*wanted).to_owned() });
            assert_eq!(agree(None, wanted), refused);
            assert_eq!(agree(Some(wanted), wanted), Ok((*wanted).to_owned()));
        }
    }

    #[test]
    fn what_is_asked_for_is_taken_or_nothing() {
        let all = [("shm", false), ("tcp;ofi_rxm", false)];
        assert_eq!(picked(&all, Some("shm")), Some(0));
        assert_eq!(picked(&all, Some("verbs;ofi_rxm")), None);
    }
}
