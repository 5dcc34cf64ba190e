//! What is wrong with a configuration, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use outboard_limits::show_size;
use outboard_link::AddressError;
use outboard_link::shaped::WireError;
use thiserror::Error;

use crate::Origin;

/// Why a configuration cannot be used.
#[derive(Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file that was asked for, or that lies where one is looked for, cannot be read.
    #[error("cannot read the configuration file {path}: {source}; {}", remedy(named_by))]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Who named it; the default is the search.
        named_by: Origin,
        /// Why.
        source: io::Error,
    },
    /// The file is far too long to be a configuration.
    #[error("the configuration file {path} is over {}: is it the right file?", show_size(*max))]
    TooLong {
        /// Which file.
        path: PathBuf,
        /// The limit.
        max: u64,
    },
    /// The file is not text.
    #[error("{path}:{line}: not UTF-8 text; save the file as UTF-8")]
    NotText {
        /// Which file.
        path: PathBuf,
        /// The first line that is not.
        line: usize,
    },
    /// The file is not TOML.
    #[error("{path}:{line}:{column}: {}{message}; {}", of(key), TOML_REMEDY)]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Which line, counted from 1.
        line: usize,
        /// Which character of it, counted from 1.
        column: usize,
        /// The key on that line, if it is legible.
        key: Option<String>,
        /// What the parser says.
        message: String,
    },
    /// There is no such key.
    #[error("{origin}: there is no key {key}; {hint}")]
    UnknownKey {
        /// Where it was found.
        origin: Origin,
        /// The key.
        key: String,
        /// What was probably meant.
        hint: KeyHint,
    },
    /// A value cannot be used.
    #[error("{origin}: {key}: {source}")]
    BadValue {
        /// Where it was found.
        origin: Origin,
        /// Whose value it is.
        key: String,
        /// What is wrong with it.
        source: Box<ValueError>,
    },
}

/// What mistakes in TOML mostly come down to.
const TOML_REMEDY: &str =
    "correct this line; texts, sizes and durations stand in quotes: capacity = \"4GiB\"";

fn remedy(named_by: &Origin) -> String {
    match named_by {
        Origin::Default => "make it readable, remove it, or choose another with --config".to_owned(),
        origin => format!("correct or leave out {origin}"),
    }
}

fn of(key: &Option<String>) -> String {
    key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default()
}

/// What was probably meant by an unknown key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyHint {
    /// A key with a similar name.
    Nearest(String),
    /// It is the name of a section.
    Section,
    /// Nothing comes close.
    Nothing,
}

impl fmt::Display for KeyHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearest(name) => write!(f, "did you mean {name}?"),
            Self::Section => f.write_str("it is a section: write it in brackets, and its keys below it"),
            Self::Nothing => f.write_str("--print-config shows all keys"),
        }
    }
}

/// Why a value cannot be used.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ValueError {
    /// It cannot be read.
    #[error("“{text}” is no {kind}: {why}; write {example}")]
    Unfit {
        /// The value.
        text: String,
        /// What it should be.
        kind: &'static str,
        /// Why it is not.
        why: &'static str,
        /// What would be.
        example: &'static str,
    },
    /// It is another kind of TOML value.
    #[error("found {found} where a {kind} belongs; write {example}")]
    Shape {
        /// What it is.
        found: &'static str,
        /// What it should be.
        kind: &'static str,
        /// How that is written.
        example: &'static str,
    },
    /// It can be read and makes no sense here.
    #[error("“{text}” will not do: {why}")]
    Refused {
        /// The value.
        text: String,
        /// What it must be.
        why: &'static str,
    },
    /// A secret cannot be used. It is not shown.
    #[error("this secret will not do: {why}")]
    Secret {
        /// What it must be.
        why: &'static str,
    },
    /// It is no address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// It is no wire.
    #[error(transparent)]
    Wire(#[from] WireError),
}

outboard_wire::debug_with_causes!(SettingsError, ValueError);

/// Something that is probably a mistake, though the configuration can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A variable that looks like one of ours and is not.
    UnknownVariable {
        /// Its name.
        name: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVariable { name, nearest: Some(nearest) } => {
                write!(f, "${name} is no setting and is ignored; did you mean ${nearest}?")
            }
            Self::UnknownVariable { name, nearest: None } => {
                write!(f, "${name} is no setting and is ignored; unset it")
            }
        }
    }
}
