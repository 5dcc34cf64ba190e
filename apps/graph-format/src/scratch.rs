//! Folders and graphs for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use crate::{Cleaning, EdgeList, Graph};

/// An empty folder that is removed in the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("outboard-graph-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file with these bytes.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The names of all that is there.
    pub(crate) fn names(&self) -> Vec<String> {
        names(&self.0)
    }
}

/// What is in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A directed graph of these edges.
pub(crate) fn directed(vertices: u64, edges: &[(u32, u32)]) -> Graph {
    let list: EdgeList = edges.iter().copied().collect();
    Graph::directed(list.to_csr(vertices, Cleaning::default(), &()).unwrap(), &()).unwrap()
}

/// Some vertices and edges between them.
pub(crate) fn edges() -> impl Strategy<Value = (u64, Vec<(u32, u32)>)> {
    (0u32..40).prop_flat_map(|vertices| {
        let vertex = 0..vertices.max(1);
        let most = if vertices == 0 { 0 } else { 120 };
        (Just(u64::from(vertices)), prop::collection::vec((vertex.clone(), vertex), 0..=most))
    })
}

/// Graphs of all kinds: directed and symmetric, with self loops, duplicates and vertices without edges.
pub(crate) fn graphs() -> impl Strategy<Value = Graph> {
    (edges(), any::<bool>()).prop_map(|((vertices, edges), symmetric)| {
        let graph = directed(vertices, &edges);
        if symmetric { graph.symmetrised().unwrap() } else { graph }
    })
}
