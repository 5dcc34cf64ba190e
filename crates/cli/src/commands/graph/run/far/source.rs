//! Where a graph comes from on its way into far memory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use outboard::FarMemory;
use outboard_graph::far::{FarGraph, FarLayout};
use outboard_graph_format::{Format, Graph, GraphImage, Note, ReadError, load};
use outboard_link::Address;
use outboard_settings::LinkSettings;
use outboard_wire::Rights;

use super::super::view;
use super::daemons::connect_memory;
use crate::commands::graph::bar::Bar;

/// A graph that is not in far memory yet.
pub(super) enum Source {
    /// An image here, which a memory server of ours loads.
    Image(GraphImage),
    /// An image in the data directory of another memory server.
    Served(GraphImage),
    /// A graph that was read.
    Read { graph: Graph, format: Format, notes: Vec<Note> },
}

/// A graph in far memory, and how it came there.
pub(super) struct Placed {
    pub(super) graph: FarGraph,
    pub(super) format: Format,
    pub(super) notes: Vec<Note>,
    /// For programs.
    pub(super) origin: &'static str,
}

impl Source {
    /// A graph in a file. Only if the memory server is ours can it load the file itself.
    pub(super) fn file(path: &Path, from: Option<Format>, is_server_ours: bool, bar: &Bar) -> Result<Self> {
        let may_be_image = from.is_none_or(|format| format == Format::Image);
        if is_server_ours && may_be_image && GraphImage::is_at(path) {
            let image = GraphImage::open(path)?;
            // A server loads no files without bytes.
            if image.edges() > 0 {
                return Ok(Self::Image(image));
            }
        }
        let loaded = load(path, from, bar)?;
        Ok(Self::Read { graph: loaded.graph, format: loaded.format, notes: loaded.notes })
    }

    /// An image in the data directory of a memory server, whose description is read through it.
    pub(super) fn served(name: &str, server: &Address, link: &LinkSettings) -> Result<Self> {
        let mut memory = connect_memory(server, link)?;
        let description = format!("{name}/{}", GraphImage::DESCRIPTION);
        let region = memory
            .load(&description, Rights::READ, link.deadline)
            .with_context(|| format!("the memory server at {server} serves no graph “{name}”"))?;
        if region.size() > GraphImage::DESCRIPTION_BYTES_MAX {
            bail!("{description} at {server} has {} bytes, which no description has", region.size());
        }
        let mut bytes = vec![0; region.size() as usize];
        memory.read(&region, 0, &mut bytes)?;
        memory.release(region)?;
        memory.close("read the description");
        let text =
            String::from_utf8(bytes).with_context(|| format!("{description} at {server} is no text"))?;
        let image = GraphImage::described(name, &text)?;
        if image.edges() == 0 {
            bail!("the graph “{name}” at {server} has no edges, and a memory server loads no empty file");
        }
        Ok(Self::Served(image))
    }

    /// How many bytes its arrays have.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Image(image) | Self::Served(image) => image.bytes(),
            Self::Read { graph, .. } => {
                let rows = [Some(graph.out()), (!graph.is_symmetric()).then(|| graph.incoming())];
                let bytes = |rows: &outboard_graph_format::Csr| {
                    size_of_val(rows.offsets()) + size_of_val(rows.targets())
                };
                rows.into_iter().flatten().map(bytes).sum::<usize>() as u64
            }
        }
    }

    /// How many vertices it has.
    pub(super) fn vertices(&self) -> u64 {
        match self {
            Self::Image(image) | Self::Served(image) => image.vertices(),
            Self::Read { graph, .. } => graph.vertices() as u64,
        }
    }

    /// The data directory that a memory server of ours needs: the image and nothing beside it.
    pub(super) fn data_dir(&self) -> Result<Option<PathBuf>> {
        match self {
            Self::Image(image) => {
                let path = image.path();
                let folder =
                    path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
                Ok(Some(folder))
            }
            Self::Served(_) | Self::Read { .. } => Ok(None),
        }
    }

    /// Looks through an image that lies here for what would make an application panic. One that was read has been
    /// looked at already, and one that is served can only be looked at in far memory.
    pub(super) fn check(&self, bar: &Bar) -> Result<(), ReadError> {
        match self {
            Self::Image(image) => image.check(bar),
            Self::Served(_) | Self::Read { .. } => Ok(()),
        }
    }

    /// Whether it must be looked through in far memory.
    pub(super) fn is_served(&self) -> bool {
        matches!(self, Self::Served(_))
    }

    /// The step that brings it into far memory, for people who wait.
    pub(super) fn way(&self) -> &'static str {
        match self {
            Self::Image(_) | Self::Served(_) => "the memory server loads the graph",
            Self::Read { .. } => "copying the graph to the memory server",
        }
    }

    /// Brings it into far memory.
    pub(super) fn place(self, far: &FarMemory, placement: &FarLayout) -> Result<Placed> {
        // Within its own data directory.
        const HERE: &str = ".";
        let opened = |image: &GraphImage, name: &str| -> Result<FarGraph> {
            let graph = FarGraph::open(far, name, image.is_symmetric(), placement)?;
            let (vertices, edges) = (image.vertices(), image.edges());
            let view = graph.view().with_context(|| format!("{} is no graph", image.path().display()))?;
            if (view.vertices() as u64, view.edges() as u64) != (vertices, edges) {
                bail!(
                    "{}: {} says {vertices} vertices and {edges} edges, but the arrays have {} and {}",
                    image.path().display(),
                    GraphImage::DESCRIPTION,
                    view.vertices(),
                    view.edges()
                );
            }
            Ok(graph)
        };
        match self {
            Self::Image(image) => {
                let graph = opened(&image, HERE)?;
                Ok(Placed { graph, format: Format::Image, notes: Vec::new(), origin: "loaded" })
            }
            Self::Served(image) => {
                let name = image.path().to_string_lossy().into_owned();
                let graph = opened(&image, &name)?;
                Ok(Placed { graph, format: Format::Image, notes: Vec::new(), origin: "served" })
            }
            Self::Read { graph, format, notes } => {
                let graph = FarGraph::upload(far, view(&graph)?, placement)?;
                Ok(Placed { graph, format, notes, origin: "uploaded" })
            }
        }
    }
}
