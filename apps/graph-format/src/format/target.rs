//! Where a graph is written, and how.

use std::path::{Path, PathBuf};

use super::{Format, Note, el, ligra, ligra_binary, matrix_market, sg, snap};
use crate::draft::{Draft, Existing};
use crate::error::ImageWriteError;
use crate::graph::Graph;
use crate::image::GraphImage;
use crate::progress::FormatProgress;

/// A place for a graph. What can be said against it is said before a graph is made for it.
#[derive(Debug, Clone)]
pub struct GraphTarget {
    path: PathBuf,
    format: Format,
    existing: Existing,
}

impl GraphTarget {
    /// A graph is to be written there in this format, or in the one that the name tells.
    pub fn new(path: &Path, format: Option<Format>, existing: Existing) -> Result<Self, ImageWriteError> {
        let format = format
            .or_else(|| Format::by_extension(path))
            .ok_or_else(|| ImageWriteError::UnknownFormat { path: path.to_owned() })?;
        match format {
            Format::Image => GraphImage::check_target(path, existing)?,
            Format::LigraBinary => {
                ligra_binary::drafts(path, existing)?.iter().try_for_each(Draft::check_file)?;
            }
            _ => Draft::of(path, existing)?.check_file()?,
        }
        Ok(Self { path: path.to_owned(), format, existing })
    }

    /// The format it will have.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Writes a graph there. Returns what is not in the file.
    pub fn save(&self, graph: &Graph, progress: &dyn FormatProgress) -> Result<Vec<Note>, ImageWriteError> {
        let Self { path, format, existing } = self;
        let draft = || Draft::of(path, *existing);
        match format {
            Format::Image => GraphImage::write_with(graph, path, *existing, progress).map(|_| ())?,
            Format::Snap => draft()?.write_file(|to| snap::write(graph, to, progress))?,
            Format::MatrixMarket => draft()?.write_file(|to| matrix_market::write(graph, to, progress))?,
            Format::Ligra => draft()?.write_file(|to| ligra::write(graph, to, progress))?,
            Format::LigraBinary => ligra_binary::write(graph, path, *existing, progress)?,
            Format::El => draft()?.write_file(|to| el::write(graph, to, progress))?,
            Format::Sg => {
                sg::check(graph, path)?;
                draft()?.write_file(|to| sg::write(graph, to, progress))?;
            }
        }
        let lost = (*format == Format::El).then(|| Note::of_lost_vertices(graph)).flatten();
        Ok(lost.into_iter().collect())
    }
}
