//! What a value looks like before it is understood and after it is shown.

use std::fmt;

/// A value as it stands in a file, a variable or a flag.
///
/// It has no `Debug`: before it is understood, it could be a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Literal {
    /// A text: all that variables and flags can hold.
    Text(String),
    /// A number, in decimal.
    Number(String),
    /// On or off.
    Switch(bool),
    /// Several texts.
    List(Vec<String>),
    /// Something that is not shown.
    Secret,
    /// Something that no key takes, by what it is called.
    Foreign(&'static str),
}

impl Literal {
    pub(crate) fn text(text: impl fmt::Display) -> Self {
        Self::Text(text.to_string())
    }

    /// The parts of a list, if this can be read as one: variables and flags separate them by commas.
    pub(crate) fn parts(&self) -> Option<Vec<&str>> {
        match self {
            Self::Text(text) if text.trim() == NONE => Some(Vec::new()),
            Self::Text(text) => {
                Some(text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect())
            }
            Self::List(parts) => Some(parts.iter().map(String::as_str).collect()),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub(crate) fn shape(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Number(_) => "a number",
            Self::Switch(_) => "true or false",
            Self::List(_) => "a list",
            Self::Secret => "a secret",
            Self::Foreign(shape) => shape,
        }
    }

    /// How it is written in a TOML file; `None` for what must not be.
    pub fn to_toml(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(quoted(text)),
            Self::Number(number) => Some(number.clone()),
            Self::Switch(on) => Some(on.to_string()),
            Self::List(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
                Some(format!("[{}]", parts.join(", ")))
            }
            Self::Secret | Self::Foreign(_) => None,
        }
    }
}

/// How the absence of an optional value, and an empty list, are written.
pub(crate) const NONE: &str = "none";
/// What is written where the machine decides.
pub(crate) const AUTO: &str = "auto";

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// As a person would write it in a variable.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Number(text) => f.write_str(text),
            Self::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::List(parts) if parts.is_empty() => f.write_str(NONE),
            Self::List(parts) => f.write_str(&parts.join(",")),
            Self::Secret => f.write_str("(secret)"),
            Self::Foreign(shape) => f.write_str(shape),
        }
    }
}
