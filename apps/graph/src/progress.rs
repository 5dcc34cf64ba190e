//! What an application tells a watcher of its progress.

/// Hears how far an application has come. `()` hears nothing.
pub trait StepProgress: Sync {
    /// A step begins. Comes from the thread that called the application.
    fn step(&self, step: Step) {
        let _ = step;
    }

    /// So many more edges were walked. Comes from any worker, once per block of vertices.
    fn walked(&self, edges: u64) {
        let _ = edges;
    }
}

impl StepProgress for () {}

/// One pass of an application through its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does: `iteration`, `level outwards`.
    pub what: &'static str,
    /// Which one of those, from 1.
    pub number: u32,
    /// How many of those there will be at most, if that is known.
    pub of: Option<u32>,
    /// How many edges it walks, if that is known.
    pub edges: Option<u64>,
}
