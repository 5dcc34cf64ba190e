//! A configuration file: found, read, and laid out as keys with lines.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::inputs::{CONFIG_FLAG, CONFIG_VARIABLE, Inputs};
use crate::literal::NONE;
use crate::{Literal, Origin, SettingsError};

/// Stands for the standard input where a file is named.
const STANDARD_INPUT: &str = "-";

/// A file this long is no configuration.
const LEN_MAX: u64 = 1 << 20;

/// A configuration file.
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    /// In the order of their lines.
    pub(crate) items: Vec<Item>,
}

/// A key of the file, with its value.
pub(crate) struct Item {
    /// The whole key, with dots.
    pub(crate) key: String,
    pub(crate) line: usize,
    pub(crate) value: Literal,
    /// Whether it is a table without anything in it.
    pub(crate) is_empty_table: bool,
}

impl Document {
    /// The file that `inputs` mean, if there is one.
    pub(crate) fn find(inputs: &Inputs) -> Result<Option<Self>, SettingsError> {
        let by_flag = inputs.config.as_deref().map(|path| (path, Origin::Flag(CONFIG_FLAG.to_owned())));
        let by_variable = || {
            let path = inputs.get(CONFIG_VARIABLE)?;
            Some((Path::new(path), Origin::Variable(CONFIG_VARIABLE.to_owned())))
        };
        match by_flag.or_else(by_variable) {
            Some((path, _)) if path == Path::new(NONE) => return Ok(None),
            Some((path, named_by)) => return Text::read(path, named_by)?.parse().map(Some),
            None => {}
        }
        for path in &inputs.places {
            match Text::read(path, Origin::Default) {
                Err(SettingsError::Unreadable { source, .. }) if is_absent(path, &source) => {}
                read => return read?.parse().map(Some),
            }
        }
        Ok(None)
    }
}

/// Whether there is no such file as far as this user can see. A folder that is closed to them, such as the
/// home that a process inherited from another user, holds nothing of theirs.
fn is_absent(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => path.symlink_metadata().is_err(),
        _ => false,
    }
}

/// A file that was read.
struct Text {
    path: PathBuf,
    text: String,
}

impl Text {
    fn read(path: &Path, named_by: Origin) -> Result<Self, SettingsError> {
        let mut bytes = Vec::new();
        let read = match path == Path::new(STANDARD_INPUT) {
            true => io::stdin().lock().take(LEN_MAX + 1).read_to_end(&mut bytes),
            false => File::open(path).and_then(|file| file.take(LEN_MAX + 1).read_to_end(&mut bytes)),
        };
        read.map_err(|source| SettingsError::Unreadable { path: path.to_owned(), named_by, source })?;
        let path = path.to_owned();
        if bytes.len() as u64 > LEN_MAX {
            return Err(SettingsError::TooLong { path, max: LEN_MAX });
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { path, text }),
            Err(error) => {
                let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
                Err(SettingsError::NotText { path, line })
            }
        }
    }

    fn parse(self) -> Result<Document, SettingsError> {
        let mut items = Vec::new();
        match DeTable::parse(&self.text) {
            Ok(table) => self.lay_out("", table.get_ref(), &mut items),
            Err(error) => return Err(self.syntax_error(&error)),
        }
        items.sort_by_key(|item| item.line);
        Ok(Document { path: self.path, items })
    }

    fn lay_out(&self, prefix: &str, table: &DeTable<'_>, items: &mut Vec<Item>) {
        for (name, value) in table {
            let key = match prefix {
                "" => name.get_ref().to_string(),
                prefix => format!("{prefix}.{}", name.get_ref()),
            };
            match value.get_ref() {
                DeValue::Table(table) if !table.is_empty() => self.lay_out(&key, table, items),
                found => {
                    let line = self.line(name.span().start);
                    let is_empty_table = found.is_table();
                    items.push(Item { key, line, value: literal(found), is_empty_table });
                }
            }
        }
    }

    /// The line of a place in the text, counted from 1.
    fn line(&self, at: usize) -> usize {
        1 + self.before(at).matches('\n').count()
    }

    fn before(&self, at: usize) -> &str {
        self.text.get(..at).unwrap_or(&self.text)
    }

    fn syntax_error(&self, error: &toml::de::Error) -> SettingsError {
        let at = error.span().map_or(self.text.len(), |span| span.start);
        let line = self.line(at);
        let column = 1 + self.before(at).rsplit('\n').next().unwrap_or("").chars().count();
        let (path, message) = (self.path.clone(), error.message().to_owned());
        SettingsError::Syntax { path, line, column, key: self.key_on(line), message }
    }

    /// The key on a line of a text that may not be TOML, with the section it stands in. Never any of a value:
    /// that could be a secret.
    fn key_on(&self, line: usize) -> Option<String> {
        let lines: Vec<&str> = self.text.lines().take(line).collect();
        let (key, _) = lines.last()?.split_once('=')?;
        let key = key.trim();
        let is_key =
            |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
        let head = lines.iter().rev().find_map(|line| line.trim().strip_prefix('[')?.split(']').next());
        match head {
            _ if !is_key(key) => None,
            Some(section) if is_key(section) => Some(format!("{section}.{key}")),
            _ => Some(key.to_owned()),
        }
    }
}

fn literal(value: &DeValue<'_>) -> Literal {
    match value {
        DeValue::String(text) => Literal::Text(text.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Literal::Number(number.to_string()),
            Err(_) => Literal::Number(integer.as_str().to_owned()),
        },
        DeValue::Float(float) => Literal::Number(float.as_str().to_owned()),
        DeValue::Boolean(on) => Literal::Switch(*on),
        DeValue::Datetime(_) => Literal::Foreign("a date"),
        DeValue::Table(_) => Literal::Foreign("a table"),
        DeValue::Array(values) => list(values.iter()),
    }
}

fn list<'a>(values: impl Iterator<Item = &'a Spanned<DeValue<'a>>>) -> Literal {
    let part = |value: &Spanned<DeValue<'_>>| match literal(value.get_ref()) {
        Literal::Text(text) | Literal::Number(text) => Some(text),
        _ => None,
    };
    match values.map(part).collect() {
        Some(parts) => Literal::List(parts),
        None => Literal::Foreign("a list of something else than texts"),
    }
}
