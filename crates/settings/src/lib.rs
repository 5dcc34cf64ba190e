//! Finds a process's configuration and remembers where each value came from.
//! It does not act on any of it, print it or parse a command line: the programs do.
//!
//! A value is looked for in five places, and the last that has one wins:
//!
//! 1. the built-in default,
//! 2. what `mpirun`, `srun` or `torchrun` tells the processes it starts: which rank of how many they are,
//! 3. a TOML file: `--config FILE`, else `$OUTBOARD_CONFIG`, else the first that exists of `./outboard.toml`,
//!    `$XDG_CONFIG_HOME/outboard/config.toml` (by default under `~/.config`) and `/etc/outboard.toml`,
//! 4. the environment: `memory.listen` is `OUTBOARD_MEMORY_LISTEN`,
//! 5. a long flag: `memory.listen` is `--memory-listen`, and `--listen` where the command is about memory.
//!
//! ```
//! use outboard_settings::{Configuration, Inputs};
//!
//! // A program begins with `Inputs::from_process()`.
//! let inputs = Inputs::empty()
//!     .variable("OUTBOARD_AGENT_WORKERS", "4")
//!     .flag("memory.capacity", "--capacity", "4GiB");
//! let configuration = Configuration::load(&inputs)?;
//!
//! let settings = &configuration.settings;
//! assert_eq!(settings.agent.workers, 4.into());
//! // What is left to the machine is decided when it is known.
//! let here = outboard_limits::Allowance::of_this_process();
//! assert_eq!(settings.memory.plan(&here).capacity, 4 << 30);
//! for entry in configuration.entries().iter().filter(|entry| entry.key.section == "memory") {
//!     println!("{} = {}  ({})", entry.key, entry.value, entry.origin);
//! }
//! # Ok::<(), outboard_settings::SettingsError>(())
//! ```
//!
//! A flag for every key of a section takes a few lines with any command-line parser: [`keys`] has the name,
//! the kind, an example and a line of help for each, and what was given goes into [`Inputs::flag`].
//!
//! # To add a key
//! A line in the room's file in `sections/`. It appears in the file format, the environment, `--print-config`,
//! the help and [`reference()`] by that. A new room is one more file there and one more field of [`Settings`].
//!
//! # Caveats
//! - A variable that begins with `OUTBOARD_` and names no key is a [`Notice`], not an error: environments are
//!   inherited by programs of other versions. An unknown key in a file is an error.
//! - An empty variable counts as not set. `none` is how an optional value or a list is emptied.
//! - A value that a later source overrides is not looked at, so a mistake in it is not reported.
//! - Relative paths are relative to the working directory, not to the file they stand in.
//! - Secrets have no flag, since command lines are public, and are never shown.

#![forbid(unsafe_code)]

mod capacity;
mod configuration;
mod document;
mod error;
mod inputs;
mod keep_sync;
mod key;
mod keys_place;
mod launcher;
mod literal;
mod nearest;
mod origin;
mod plan;
mod print;
mod quantity;
mod reference;
mod secret;
mod section;
mod sections;
mod socket;
mod value;

pub use capacity::{Capacity, OrAuto};
pub use configuration::{Configuration, Entry};
pub use error::{KeyHint, Notice, SettingsError, ValueError};
pub use inputs::Inputs;
pub use keep_sync::KeepSync;
pub use key::{Key, keys};
pub use keys_place::KeysPlace;
pub use literal::Literal;
pub use origin::Origin;
pub use plan::{AgentPlan, Chosen, FarPlan, MemoryPlan, Reasons};
pub use quantity::{ByteSize, Percent, parse_count};
pub use reference::reference;
pub use secret::Secret;
pub use sections::{
    AddressChoice, AgentSettings, CacheChoice, CallingSettings, ChildrenChoice, FarSettings, FaultsChoice,
    ForwardingChoice, JobSettings, LinkSettings, LogFormat, LogLevel, LogSettings, LossChoice,
    MemorySettings, MessagesPlacement, MessagesSettings, MetricsSettings, NodeChoice, PathChoice, Settings,
};
pub use socket::default_socket;

#[cfg(test)]
mod tests;
