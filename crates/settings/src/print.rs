//! A configuration as a TOML file that says where each value came from.

use std::fmt::{self, Write};

use crate::{Chosen, Configuration, Entry};

/// Where the origins begin, at the least.
const ORIGIN_COLUMN: usize = 48;

impl Configuration {
    /// All values as a TOML file, each with its origin in a comment, and with what it came to on this machine if that is
    /// among those `chosen`. Read back, the file gives the same values; secrets are left out of it.
    pub fn to_toml(&self, chosen: &[Chosen]) -> String {
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write(&mut out, chosen);
        out
    }

    fn write(&self, out: &mut String, chosen: &[Chosen]) -> fmt::Result {
        let mut section = "";
        for entry in self.entries() {
            if entry.key.section != section {
                let gap = if section.is_empty() { "" } else { "\n" };
                section = entry.key.section;
                writeln!(out, "{gap}[{section}]")?;
            }
            let came_to = chosen.iter().find(|chosen| chosen.key == entry.key.name());
            let came_to = came_to.map(|Chosen { value, why, .. }| format!("; here {value}, {why}"));
            let origin = format!("{}{}", entry.origin, came_to.unwrap_or_default());
            writeln!(out, "{:ORIGIN_COLUMN$} # {}", assignment(entry), comment(&origin))?;
        }
        Ok(())
    }
}

fn assignment(entry: &Entry) -> String {
    match entry.value.to_toml() {
        Some(value) => format!("{} = {value}", entry.key.field),
        None => format!("# {} = {}", entry.key.field, entry.value),
    }
}

/// A text that stays in its line.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
