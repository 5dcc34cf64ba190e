//! The reference of all keys, as tables of Markdown.

use std::fmt::{self, Write};

use crate::socket::socket_prefix;
use crate::{Key, keys};

/// All keys as tables of Markdown, one per section. It is the same for all users and on all machines.
pub fn reference() -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = write(&mut out);
    out
}

fn write(out: &mut String) -> fmt::Result {
    let mut section = "";
    for key in keys() {
        if key.section != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            section = key.section;
            writeln!(out, "{gap}### `[{section}]`\n\n{HEAD}")?;
        }
        let (takes, default) = (cell(&key.takes()), cell(&default(&key)));
        writeln!(out, "| `{}` | {takes} | {default} | {} |", key.field, cell(&key.doc))?;
    }
    Ok(())
}

const HEAD: &str = "| key | takes | default | what it decides |\n|---|---|---|---|";

/// The default, with user 0 and all others alike.
fn default(key: &Key) -> String {
    let default = key.default.to_toml().unwrap_or_default();
    format!("`{}`", default.replace(&format!("@{}", socket_prefix()), "@outboard-UID-"))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
