//! A configuration that was found, with the origin of every value.

use std::path::Path;

use crate::document::Document;
use crate::error::{KeyHint, Notice, SettingsError, ValueError};
use crate::inputs::{Inputs, OTHERS};
use crate::key::{VARIABLE_PREFIX, keys};
use crate::nearest::nearest;
use crate::section::{Check, Field, Section, Visitor};
use crate::sections::Settings;
use crate::value::Value;
use crate::{Key, Literal, Origin};

/// A configuration that was found, with the origin of every value.
pub struct Configuration {
    /// The values.
    pub settings: Settings,
    entries: Vec<Entry>,
    notices: Vec<Notice>,
    document: Option<Document>,
}

/// One value, as it is shown.
#[derive(Clone)]
pub struct Entry {
    /// Whose value it is.
    pub key: Key,
    /// The value.
    pub value: Literal,
    /// Where it came from.
    pub origin: Origin,
}

impl Configuration {
    /// Reads and checks everything, also what this process will not use.
    pub fn load(inputs: &Inputs) -> Result<Self, SettingsError> {
        let known = keys();
        let document = Document::find(inputs)?;
        refuse_unknown(inputs, document.as_ref(), &known)?;
        let mut reader = Reader { inputs, document: document.as_ref(), entries: Vec::new() };
        let mut settings = Settings::default();
        settings.visit(&mut reader)?;
        settings.link = settings.link.of_job(&settings.job);
        let entries = reader.entries;
        Ok(Self { settings, entries, notices: unknown_variables(inputs, &known), document })
    }

    /// All values with their origins, section by section.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What is probably a mistake.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The file that was read, if one was.
    pub fn file(&self) -> Option<&Path> {
        self.document.as_ref().map(|document| document.path.as_path())
    }
}

/// Puts what the sources say into the fields it visits.
struct Reader<'a> {
    inputs: &'a Inputs,
    document: Option<&'a Document>,
    entries: Vec<Entry>,
}

impl Visitor for Reader<'_> {
    fn field<T: Value>(
        &mut self,
        field: Field,
        value: &mut T,
        checks: &[Check<T>],
    ) -> Result<(), SettingsError> {
        let key = Key::new(&field, value);
        let mut origin = Origin::Default;
        if let Some((literal, found)) = self.find(&key) {
            let read = literal.and_then(|literal| read(&literal, checks));
            origin = found;
            *value = read.map_err(|source| SettingsError::BadValue {
                origin: origin.clone(),
                key: key.name(),
                source: Box::new(source),
            })?;
        }
        self.entries.push(Entry { key, value: value.show(), origin });
        Ok(())
    }
}

impl Reader<'_> {
    /// What the last source that knows this key says.
    fn find(&self, key: &Key) -> Option<(Result<Literal, ValueError>, Origin)> {
        let name = key.name();
        if let Some(flag) = self.inputs.flags.get(&name) {
            let text = if key.is_list { Some(flag.values.join(",")) } else { flag.values.last().cloned() };
            return Some((Ok(Literal::Text(text.unwrap_or_default())), Origin::Flag(flag.name.clone())));
        }
        let variable = key.variable();
        if let Some(text) = self.inputs.get(&variable) {
            let literal = text.to_str().map(Literal::text).ok_or_else(|| match key.is_secret {
                true => ValueError::Secret { why: NOT_TEXT },
                false => ValueError::Refused { text: text.to_string_lossy().into_owned(), why: NOT_TEXT },
            });
            return Some((literal, Origin::Variable(variable)));
        }
        if let Some(document) = self.document
            && let Some(item) = document.items.iter().find(|item| item.key == name)
        {
            let origin = Origin::File { path: document.path.clone(), line: item.line };
            return Some((Ok(item.value.clone()), origin));
        }
        let said = self.inputs.launcher.iter().find(|said| said.key == name)?;
        Some((Ok(Literal::text(&said.value)), Origin::Variable(said.variable.to_owned())))
    }
}

/// What is wrong with a variable that has other bytes in it.
const NOT_TEXT: &str = "it must be UTF-8 text; give a path another name, or lead to it by a symbolic link";

fn read<T: Value>(literal: &Literal, checks: &[Check<T>]) -> Result<T, ValueError> {
    let value = T::read(literal)?;
    for check in checks {
        check(&value).map_err(|why| ValueError::Refused { text: value.show().to_string(), why })?;
    }
    Ok(value)
}

/// Files and flags may only name keys that there are.
fn refuse_unknown(inputs: &Inputs, document: Option<&Document>, known: &[Key]) -> Result<(), SettingsError> {
    let names: Vec<String> = known.iter().map(Key::name).collect();
    let check = |key: &str, origin: Origin| match names.iter().any(|name| name == key) {
        true => Ok(()),
        false => {
            Err(SettingsError::UnknownKey { origin, key: key.to_owned(), hint: hint(key, known, &names) })
        }
    };
    for (key, flag) in &inputs.flags {
        check(key, Origin::Flag(flag.name.clone()))?;
    }
    let Some(document) = document else { return Ok(()) };
    let is_section = |key: &str| known.iter().any(|known| known.section == key);
    for item in document.items.iter().filter(|item| !(item.is_empty_table && is_section(&item.key))) {
        check(&item.key, Origin::File { path: document.path.clone(), line: item.line })?;
    }
    Ok(())
}

fn hint(key: &str, known: &[Key], names: &[String]) -> KeyHint {
    if known.iter().any(|known| known.section == key) {
        return KeyHint::Section;
    }
    let same_field = known.iter().find(|known| known.field == key).map(Key::name);
    let like_it = || nearest(key, names.iter().map(String::as_str)).map(str::to_owned);
    same_field.or_else(like_it).map_or(KeyHint::Nothing, KeyHint::Nearest)
}

fn unknown_variables(inputs: &Inputs, known: &[Key]) -> Vec<Notice> {
    let names: Vec<String> = known.iter().map(Key::variable).chain(OTHERS.map(str::to_owned)).collect();
    let is_known = |given: &str| {
        names
            .iter()
            .any(|name| name.strip_suffix('*').map_or(given == name, |begin| given.starts_with(begin)))
    };
    // What they all begin with makes no two of them alike.
    let tails = || {
        names.iter().filter(|name| !name.ends_with('*')).filter_map(|name| name.strip_prefix(VARIABLE_PREFIX))
    };
    let given = inputs.variables.keys().map(|name| name.to_string_lossy().into_owned());
    let notice = |name: String| {
        let nearest = nearest(name.strip_prefix(VARIABLE_PREFIX)?, tails());
        let nearest = nearest.map(|tail| format!("{VARIABLE_PREFIX}{tail}"));
        (!is_known(&name)).then_some(Notice::UnknownVariable { name, nearest })
    };
    given.filter_map(notice).collect()
}
