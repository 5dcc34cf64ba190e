//! What `outboard far` tells this library, in one variable of the environment: `key=value` pairs between semicolons.
//!
//! All that is about far memory in general (`far.grace`, `link.deadline` and the rest) is read as in any other program, from the
//! configuration file and the environment.

use std::env;

use outboard::BufferSize;

/// The variable.
pub(crate) const VARIABLE: &str = "OUTBOARD_PRELOAD";
/// Names the libraries that the dynamic linker loads first.
pub(crate) const LOADER: &str = "LD_PRELOAD";

/// Which allocations are far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Mappings, and the C library's allocator in programs that have no other.
    Auto,
    /// Mappings.
    Mmap,
    /// Both, or the program is refused.
    Malloc,
}

/// The settings of this process.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The memory servers' addresses.
    pub(crate) servers: Vec<String>,
    pub(crate) buffer: BufferSize,
    /// From how many bytes on a mapping is far.
    pub(crate) threshold: usize,
    pub(crate) level: Level,
    /// Whether programs that this one starts have far memory too.
    pub(crate) children_inherit: bool,
    /// Programs that have none, by the names of their files.
    pub(crate) bypass: Vec<String>,
    /// Where counts are kept for `outboard far`.
    pub(crate) ledger: Option<String>,
    /// Whether to say what would be done, and end.
    pub(crate) is_dry_run: bool,
}

impl Settings {
    /// Those of this process, if it is to have far memory.
    pub(crate) fn read() -> Result<Option<Self>, String> {
        match env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => Self::parse(&text).map(Some),
            Ok(_) | Err(env::VarError::NotPresent) => Ok(None),
            Err(env::VarError::NotUnicode(_)) => Err("it is no text".to_owned()),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut settings = Self {
            servers: Vec::new(),
            buffer: BufferSize::Auto,
            threshold: 128 << 10,
            level: Level::Auto,
            children_inherit: true,
            bypass: Vec::new(),
            ledger: None,
            is_dry_run: false,
        };
        let list = |value: &str| value.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
        for pair in text.split(';').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("“{pair}” has no value"))?;
            let wrong = || format!("“{value}” is no value of {key}");
            match key {
                "servers" => settings.servers = list(value),
                "buffer" => settings.buffer = value.parse().map_err(|_| wrong())?,
                "threshold" => settings.threshold = value.parse().map_err(|_| wrong())?,
                "level" => {
                    settings.level = match value {
                        "auto" => Level::Auto,
                        "mmap" => Level::Mmap,
                        "malloc" => Level::Malloc,
                        _ => return Err(wrong()),
                    }
                }
                "children" => {
                    settings.children_inherit = match value {
                        "inherit" => true,
                        "bypass" => false,
                        _ => return Err(wrong()),
                    }
                }
                "bypass" => settings.bypass = list(value),
                "ledger" => settings.ledger = Some(value.to_owned()),
                "dry-run" => settings.is_dry_run = value == "yes",
                _ => return Err(format!("{key} is no setting of this build")),
            }
        }
        Ok(settings)
    }
}

/// Has programs that this one starts go without this library.
///
/// # Safety
///
/// No other thread of this process uses the environment.
pub(crate) unsafe fn leave_environment() {
    let own = |library: &str| library.ends_with("liboutboard_preload.so");
    let libraries = env::var(LOADER).unwrap_or_default();
    let others: Vec<&str> =
        libraries.split([':', ' ']).filter(|library| !library.is_empty() && !own(library)).collect();
    // SAFETY: by the contract of this function.
    unsafe {
        env::remove_var(VARIABLE);
        if others.is_empty() { env::remove_var(LOADER) } else { env::set_var(LOADER, others.join(":")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_and_strange_ones_refused() {
        let text = "servers=unix:@a,tcp:127.0.0.1:1;buffer=1/3;threshold=65536;level=mmap;children=bypass;bypass=sh,bash";
        let settings = Settings::parse(text).unwrap();
        assert_eq!((settings.servers.len(), settings.bypass.len()), (2, 2));
        assert_eq!(settings.buffer, BufferSize::Fraction { numerator: 1, denominator: 3 });
        assert_eq!((settings.threshold, settings.level), (65536, Level::Mmap));
        assert!(!settings.children_inherit && !settings.is_dry_run && settings.ledger.is_none());
        for wrong in ["level=all", "buffer=0", "children=share", "size=3", "nonsense"] {
            assert!(Settings::parse(wrong).is_err(), "{wrong}");
        }
    }
}
