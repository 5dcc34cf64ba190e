//! Where the values of the vertices go.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use outboard_graph::application::ApplicationOutcome;
use outboard_graph::{Arrays, ValueFormat};

/// A file for one value per vertex. It is there as a whole or not at all.
pub(super) struct ValuesFile {
    path: PathBuf,
    /// The draft that is renamed to `path` in the end; `None` for the standard output.
    begun: Option<(PathBuf, File)>,
}

impl ValuesFile {
    /// Makes sure that it can be written, before much work is done for it.
    pub(super) fn open(path: &Path, replaces: bool) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self { path: path.to_owned(), begun: None });
        }
        if path.exists() && !replaces {
            bail!("{} exists already; replace it with --force", path.display());
        }
        let Some(name) = path.file_name() else { bail!("{} is no name for a file", path.display()) };
        let begun = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        let file = File::create(&begun).with_context(|| format!("cannot write to {}", path.display()))?;
        Ok(Self { path: path.to_owned(), begun: Some((begun, file)) })
    }

    /// Whether the values take the place of the report.
    pub(super) fn is_standard_output(&self) -> bool {
        self.begun.is_none()
    }

    /// Writes the values of all vertices.
    pub(super) fn write<A: Arrays>(&self, outcome: &ApplicationOutcome<A>) -> Result<()> {
        let is_npy = self.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
        let format = if is_npy { ValueFormat::Npy } else { ValueFormat::Text };
        let written = match &self.begun {
            None => match outcome.write_values(format, &mut BufWriter::new(io::stdout().lock())) {
                // The reader wanted no more.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written,
            },
            Some((begun, file)) => {
                let mut output = BufWriter::new(file);
                let written = outcome.write_values(format, &mut output).and_then(|()| output.flush());
                written.and_then(|()| fs::rename(begun, &self.path))
            }
        };
        written.with_context(|| format!("cannot write the values to {}", self.path.display()))
    }
}

impl Drop for ValuesFile {
    fn drop(&mut self) {
        if let Some((begun, _)) = &self.begun {
            // One that was finished has another name by now.
            let _ = fs::remove_file(begun);
        }
    }
}
