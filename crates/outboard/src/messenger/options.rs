//! How messages are bundled.

use std::time::Duration;

use outboard_routing::Buffers;
use outboard_settings::{MessagesPlacement, MessagesSettings, Settings};

use super::error::MessengerError;

/// How messages are bundled and moved. All ranks of a job need the same bundles.
#[derive(Clone, Debug)]
pub struct MessengerOptions {
    /// The process that moves bundles to other ranks; default [`Auto`](MessagesPlacement::Auto). Ranks may differ in it.
    pub placement: MessagesPlacement,
    /// The size of a bundle; default 32 KiB.
    pub bundle: usize,
    /// How many bundles may be under way to each rank; default 16.
    pub buffers: usize,
    /// How much memory all bundles use at most; default 64 MiB. Large jobs get fewer and smaller ones.
    pub memory: usize,
    /// How long a message may be; default 64 MiB.
    pub longest: usize,
    /// How many independent message spaces there are, numbered from 0; default 1, at most 64.
    pub spaces: u8,
    /// How long ranks wait for each other; default 10 minutes.
    pub deadline: Duration,
}

/// How many message spaces there can be.
const SPACES_MAX: u8 = 64;
const BUNDLE_MIN: usize = 1 << 10;
const BUFFERS_MIN: usize = 2;

impl Default for MessengerOptions {
    fn default() -> Self {
        Self::from_settings(&Settings::default())
    }
}

impl MessengerOptions {
    /// As configured.
    #[doc(hidden)]
    pub fn from_settings(settings: &Settings) -> Self {
        let MessagesSettings { placement, bundle, buffers, memory, longest, patience: deadline } =
            settings.messages;
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            placement,
            bundle: size(bundle.0),
            buffers,
            memory: size(memory.0),
            longest: size(longest.0),
            spaces: 1,
            deadline,
        }
    }

    /// Sets how many message spaces there are.
    pub fn with_spaces(self, spaces: u8) -> Self {
        Self { spaces, ..self }
    }

    /// Sets the process that moves bundles.
    pub fn with_placement(self, placement: MessagesPlacement) -> Self {
        Self { placement, ..self }
    }

    /// Sets how many bytes a bundle has.
    pub fn with_bundle(self, bundle: usize) -> Self {
        Self { bundle, ..self }
    }

    /// Sets how many bytes a message has at most.
    pub fn with_longest(self, longest: usize) -> Self {
        Self { longest, ..self }
    }

    /// Sets how long ranks wait for each other at most.
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Whether they can be used.
    pub(super) fn check(&self, has_agent: bool) -> Result<(), MessengerError> {
        let wrong = if self.spaces == 0 || self.spaces > SPACES_MAX {
            format!("{} message spaces: there can be from 1 to {SPACES_MAX}", self.spaces)
        } else if self.placement == MessagesPlacement::Agent && !has_agent {
            "messages.placement is agent, and there is no agent: start one with `outboard agent`, or choose auto"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(MessengerError::BadOptions(wrong))
    }

    /// The sizes that fit into the memory in a job of so many ranks: the size of bundles, how many there are to send, and how
    /// many slots to receive.
    pub(super) fn fit(&self, ranks: usize) -> (usize, u32, u32) {
        // Every space has an open bundle for each rank, and so have signals.
        let (open, slots) = Buffers::least(usize::from(self.spaces) + 1, ranks as u32);
        let (open, slots) = (open as usize, slots as usize + (2 * ranks).max(SLOTS_MIN));
        let needed = |bundle: usize, buffers: usize| (open + slots + ranks * buffers) * bundle;
        let (mut bundle, mut buffers) = (self.bundle, self.buffers);
        while needed(bundle, buffers) > self.memory && buffers > BUFFERS_MIN {
            buffers -= 1;
        }
        while needed(bundle, buffers) > self.memory && bundle > BUNDLE_MIN {
            bundle /= 2;
        }
        (bundle, (open + ranks * buffers) as u32, slots as u32)
    }
}

const SLOTS_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_jobs_get_fewer_and_smaller_bundles() {
        let options = MessengerOptions::default();
        assert_eq!(options.fit(2), (32 << 10, 38, 22));
        let (bundle, sending, _) = options.fit(64);
        assert!(bundle == 32 << 10 && sending < 64 * 32, "{bundle} {sending}");
        let (bundle, sending, receiving) = options.fit(2000);
        assert!(bundle * (sending + receiving) as usize <= 2 * options.memory, "{bundle} {sending}");
    }
}
