//! The name of a value in the file, in the environment and on the command line.

use std::fmt;

use crate::Literal;
use crate::error::SettingsError;
use crate::section::{Check, Field, Section, Visitor};
use crate::sections::Settings;
use crate::value::Value;

/// What begins the name of every variable.
pub(crate) const VARIABLE_PREFIX: &str = "OUTBOARD_";

/// One value that can be configured, by its name.
#[derive(Clone)]
pub struct Key {
    /// Its section: `memory` of `memory.data_dir`.
    pub section: &'static str,
    /// Its name there: `data_dir` of `memory.data_dir`.
    pub field: &'static str,
    /// What it decides, in a sentence or two.
    pub doc: String,
    /// What kind of value it takes, in a word: a name for the value in a usage line.
    pub kind: &'static str,
    /// How such a value is written, by example.
    pub example: &'static str,
    /// Its default.
    pub default: Literal,
    /// Whether it takes several values: a flag may be repeated, a variable separates them by commas.
    pub is_list: bool,
    /// Whether it can be `none`.
    pub is_optional: bool,
    /// Whether it can be `auto`: left to the machine.
    pub is_automatic: bool,
    /// Whether its value must not be shown.
    pub is_secret: bool,
}

impl Key {
    pub(crate) fn new<T: Value>(field: &Field, default: &T) -> Self {
        Self {
            section: field.section,
            field: field.name,
            doc: field.doc.trim().to_owned(),
            kind: T::KIND,
            example: T::EXAMPLE,
            default: default.show(),
            is_list: T::IS_LIST,
            is_optional: T::IS_OPTIONAL,
            is_automatic: T::IS_AUTOMATIC,
            is_secret: T::IS_SECRET,
        }
    }

    /// How its values are written, by example.
    pub fn takes(&self) -> String {
        let also = match (self.is_optional, self.is_automatic) {
            (true, _) => ", or none",
            (_, true) => ", or auto",
            (false, false) => "",
        };
        format!("{}{also}", self.example)
    }

    /// Its name in the file and in messages: `memory.data_dir`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.field)
    }

    /// Its environment variable: `OUTBOARD_MEMORY_DATA_DIR`.
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}_{}", self.section, self.field).to_uppercase()
    }

    /// Its flag without dashes, `memory-data-dir`; in a command about its own section `data-dir`. Secrets
    /// have none: command lines are public.
    pub fn flag(&self, about: &str) -> Option<String> {
        let name = if about == self.section { self.field.to_owned() } else { self.name().replace('.', "-") };
        (!self.is_secret).then(|| name.replace('_', "-"))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.section, self.field)
    }
}

/// All keys that there are, section by section.
pub fn keys() -> Vec<Key> {
    let mut lister = Lister(Vec::new());
    let visited = Settings::default().visit(&mut lister);
    debug_assert!(visited.is_ok(), "a lister refuses nothing");
    lister.0
}

struct Lister(Vec<Key>);

impl Visitor for Lister {
    fn field<T: Value>(&mut self, field: Field, value: &mut T, _: &[Check<T>]) -> Result<(), SettingsError> {
        self.0.push(Key::new(&field, value));
        Ok(())
    }
}
