//! The settings of a memory server.

use std::path::PathBuf;

use outboard_link::Address;

use crate::section::section;
use crate::{Capacity, Percent, default_socket};

section! {
    /// The settings of a memory server.
    "memory" => pub struct MemorySettings {
        /// The name by which others speak of it; the first 32 bytes travel.
        pub name: String = "memory".to_owned(),
        /// Where it listens.
        pub listen: Vec<Address> where not_empty = vec![default_socket("memory")],
        /// How many bytes of regions it gives out at most: a size, or a share of the machine's memory (of its
        /// control group's, where that is less). Memory is used as regions are written to, not before.
        pub capacity: Capacity = Capacity::Share(Percent::from_percent(50)),
        /// The folder below which clients may have files loaded into regions; none means that no files are loaded.
        pub data_dir: Option<PathBuf> = None,
    }
}

/// For daemons: one that listens nowhere serves nobody.
#[expect(clippy::ptr_arg, reason = "a check is given the field as it is")]
pub(super) fn not_empty(listen: &Vec<Address>) -> Result<(), &'static str> {
    if listen.is_empty() { Err("a daemon must listen somewhere; write at least one address") } else { Ok(()) }
}
