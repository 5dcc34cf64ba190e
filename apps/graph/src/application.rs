//! All applications behind one name, for programs that let their users choose.

use std::fmt::Display;
use std::str::FromStr;

use crate::{Arrays, GraphView, RunContext, RunError, betweenness, bfs, components, pagerank, radii};

/// One of the applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// [`bfs`]
    Bfs,
    /// [`pagerank`]
    Pagerank,
    /// [`radii`]
    Radii,
    /// [`betweenness`]
    Betweenness,
    /// [`components`]
    Components,
}

/// No application has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no graph application \"{name}\"; there are bfs, pagerank, radii, bc and components")]
pub struct UnknownApplication {
    /// What was asked for.
    pub name: String,
}

/// What to tell the applications; each takes what concerns it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApplicationOptions {
    /// Where searches begin; without it, at the first vertex that an edge leaves.
    pub source: Option<u32>,
    /// For [`pagerank`].
    pub pagerank: pagerank::PagerankOptions,
    /// For [`radii`].
    pub radii: radii::RadiiOptions,
}

/// What an application came to.
pub enum ApplicationOutcome<A: Arrays> {
    /// [`bfs`]
    Bfs(bfs::Levels<A>),
    /// [`pagerank`]
    Pagerank(pagerank::Ranks<A>),
    /// [`radii`]
    Radii(radii::Radii<A>),
    /// [`betweenness`]
    Betweenness(betweenness::Betweenness<A>),
    /// [`components`]
    Components(components::Labels<A>),
}

/// What there is to say about what an application came to.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum ApplicationSummary {
    /// [`bfs`]
    Bfs(bfs::BfsSummary),
    /// [`pagerank`]
    Pagerank(pagerank::PagerankSummary),
    /// [`radii`]
    Radii(radii::RadiiSummary),
    /// [`betweenness`]
    Betweenness(betweenness::BetweennessSummary),
    /// [`components`]
    Components(components::ComponentsSummary),
}

impl Application {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Bfs, Self::Pagerank, Self::Radii, Self::Betweenness, Self::Components];

    /// What users call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bfs => "bfs",
            Self::Pagerank => "pagerank",
            Self::Radii => "radii",
            Self::Betweenness => "bc",
            Self::Components => "components",
        }
    }

    /// How many bytes the arrays take that it asks [`Arrays`] for, in a graph of this many vertices.
    #[must_use]
    pub fn state_bytes(self, vertices: u64) -> u64 {
        let each = match self {
            Self::Bfs | Self::Components => 4,
            Self::Pagerank => 4 + 4,
            Self::Radii => 4 + 8 + 8,
            Self::Betweenness => 8 + 4 + 8 + 8,
        };
        vertices.saturating_mul(each)
    }

    /// Runs it.
    pub fn run<A: Arrays>(
        self,
        graph: GraphView<'_>,
        options: &ApplicationOptions,
        run: &RunContext<'_, A>,
    ) -> Result<ApplicationOutcome<A>, RunError> {
        A::run(self, graph, options, run)
    }

    /// Runs it where this is compiled; see [`Arrays::run`].
    pub fn run_on<A: Arrays>(
        self,
        graph: GraphView<'_>,
        options: &ApplicationOptions,
        run: &RunContext<'_, A>,
    ) -> Result<ApplicationOutcome<A>, RunError> {
        let source = || options.source.or_else(|| graph.first_with_edges()).unwrap_or(0);
        Ok(match self {
            Self::Bfs => ApplicationOutcome::Bfs(bfs::run(graph, source(), run)?),
            Self::Pagerank => ApplicationOutcome::Pagerank(pagerank::run(graph, options.pagerank, run)?),
            Self::Radii => ApplicationOutcome::Radii(radii::run(graph, options.radii, run)?),
            Self::Betweenness => ApplicationOutcome::Betweenness(betweenness::run(graph, source(), run)?),
            Self::Components => ApplicationOutcome::Components(components::run(graph, run)?),
        })
    }
}

impl FromStr for Application {
    type Err = UnknownApplication;

    fn from_str(name: &str) -> Result<Self, UnknownApplication> {
        let found = Self::ALL.into_iter().find(|application| application.name() == name);
        found.ok_or_else(|| UnknownApplication { name: name.to_owned() })
    }
}

impl<A: Arrays> ApplicationOutcome<A> {
    /// Looks at the whole result.
    #[must_use]
    pub fn summary(&self) -> ApplicationSummary {
        match self {
            Self::Bfs(levels) => ApplicationSummary::Bfs(levels.summary()),
            Self::Pagerank(ranks) => ApplicationSummary::Pagerank(ranks.summary()),
            Self::Radii(radii) => ApplicationSummary::Radii(radii.summary()),
            Self::Betweenness(betweenness) => ApplicationSummary::Betweenness(betweenness.summary()),
            Self::Components(labels) => ApplicationSummary::Components(labels.summary()),
        }
    }
}

impl ApplicationSummary {
    /// The bits of the result: two runs with the same number came to the same.
    #[must_use]
    pub fn checksum(&self) -> u64 {
        match self {
            Self::Bfs(summary) => summary.checksum,
            Self::Pagerank(summary) => summary.checksum,
            Self::Radii(summary) => summary.checksum,
            Self::Betweenness(summary) => summary.checksum,
            Self::Components(summary) => summary.checksum,
        }
    }

    /// The same for people, each fact with its name.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts: Vec<(&'static str, String)> = match self {
            Self::Bfs(bfs::BfsSummary { source, reached, depth, .. }) => {
                vec![
                    ("source", source.to_string()),
                    ("reached", vertices(*reached)),
                    ("depth", depth.to_string()),
                ]
            }
            Self::Pagerank(pagerank::PagerankSummary { iterations, change, sum, top, .. }) => vec![
                ("iterations", iterations.to_string()),
                ("last change", format!("{change:.3e}")),
                ("sum of ranks", format!("{sum:.6}")),
                ("highest ranks", names(top)),
            ],
            Self::Radii(radii::RadiiSummary { sources, reached, largest, .. }) => vec![
                ("sources", sources.to_string()),
                ("reached", vertices(*reached)),
                ("diameter", format!("at least {largest}")),
            ],
            Self::Betweenness(betweenness::BetweennessSummary { source, reached, depth, top, .. }) => vec![
                ("source", source.to_string()),
                ("reached", vertices(*reached)),
                ("depth", depth.to_string()),
                ("highest scores", names(top)),
            ],
            Self::Components(components::ComponentsSummary {
                components,
                largest,
                largest_size,
                single,
                ..
            }) => {
                let largest = largest.map_or_else(
                    || "none".to_owned(),
                    |label| format!("{}, with vertex {label}", vertices(*largest_size)),
                );
                vec![
                    ("components", components.to_string()),
                    ("largest", largest),
                    ("of one vertex", single.to_string()),
                ]
            }
        };
        facts.push(("checksum", format!("{:016x}", self.checksum())));
        facts
    }
}

fn vertices(count: u64) -> String {
    format!("{count} {}", if count == 1 { "vertex" } else { "vertices" })
}

fn names<T: Display>(top: &[(u32, T)]) -> String {
    let names = top.iter().map(|(vertex, value)| format!("{vertex} ({value:.7})"));
    Vec::from_iter(names).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CsrView, Dram, Sweeps, Workers};

    #[test]
    fn names_lead_to_their_applications() {
        for application in Application::ALL {
            assert_eq!(application.name().parse(), Ok(application));
        }
        let error = "BFS".parse::<Application>().unwrap_err();
        assert!(error.to_string().contains("\"BFS\"") && error.to_string().contains("bfs, pagerank"));
    }

    /// Counts what it gives out.
    #[derive(Default)]
    struct Counted(std::sync::atomic::AtomicU64);

    impl Arrays for Counted {
        type Array<T: crate::FarNumber> = Vec<T>;
        type Error = crate::NoArrayMemory;

        fn zeroed<T: crate::FarNumber>(&self, len: usize, name: &'static str) -> Result<Vec<T>, Self::Error> {
            let bytes = (len * size_of::<T>()) as u64;
            self.0.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
            Dram.zeroed(len, name)
        }
    }

    #[test]
    fn each_application_asks_for_as_much_as_it_says() {
        let graph = GraphView::symmetric(CsrView::new(&[0, 0, 1, 2], &[2, 1]).unwrap());
        let workers = Workers::new(1).unwrap();
        for application in Application::ALL {
            let arrays = Counted::default();
            let run =
                RunContext { workers: &workers, arrays: &arrays, progress: &(), sweeps: Sweeps::Upwards };
            application.run(graph, &ApplicationOptions::default(), &run).unwrap();
            assert_eq!(arrays.0.into_inner(), application.state_bytes(3), "{}", application.name());
        }
    }

    #[test]
    fn each_application_says_what_it_came_to() {
        // An edge between 1 and 2 beside a vertex without any.
        let graph = GraphView::symmetric(CsrView::new(&[0, 0, 1, 2], &[2, 1]).unwrap());
        let workers = Workers::new(1).unwrap();
        let run = RunContext { workers: &workers, arrays: &Dram, progress: &(), sweeps: Sweeps::Upwards };
        let facts = Application::ALL.map(|application| {
            let summary = application.run(graph, &ApplicationOptions::default(), &run).unwrap().summary();
            let mut facts = summary.facts();
            assert_eq!(facts.pop(), Some(("checksum", format!("{:016x}", summary.checksum()))));
            facts.into_iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; ")
        });
        assert_eq!(facts[0], "source: 1; reached: 2 vertices; depth: 1");
        assert!(
            facts[1].starts_with("iterations: 10; last change: ")
                && facts[1].contains("sum of ranks: 1.000000")
        );
        assert_eq!(facts[2], "sources: 2; reached: 2 vertices; diameter: at least 1");
        assert!(
            facts[3].starts_with("source: 1; reached: 2 vertices; depth: 1; highest scores: 0 (0.0000000), ")
        );
        assert_eq!(facts[4], "components: 2; largest: 2 vertices, with vertex 1; of one vertex: 1");
    }
}
