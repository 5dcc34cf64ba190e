mod malformed;

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::scratch::{Scratch, directed, graphs};

/// A file name for each format.
fn name(format: Format) -> &'static str {
    match format {
        Format::Image => "some.graph",
        Format::Snap => "some.txt",
        Format::MatrixMarket => "some.mtx",
        Format::Ligra => "some.adj",
        Format::LigraBinary => "parts.config",
        Format::El => "some.el",
        Format::Sg => "some.sg",
    }
}

/// The graph without the vertices at its end that have no edges.
fn without_bare_end(graph: &Graph) -> Graph {
    let edges: Vec<(u32, u32)> = (0..graph.vertices())
        .flat_map(|from| graph.out().neighbours(from).iter().map(move |to| (from as u32, *to)))
        .collect();
    directed(edges.iter().map(|(from, to)| u64::from(*from.max(to)) + 1).max().unwrap_or(0), &edges)
}

proptest! {
    // Every file is synced to the disk, which takes a while.
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_was_written_is_read(graph in graphs()) {
        let scratch = Scratch::new();
        for &format in Format::ALL {
            let path = scratch.path(name(format));
            let lost = save(&graph, &path, None, Existing::Keep, &()).unwrap();
            let Loaded { graph: read, format: found, notes } = load(&path, None, &()).unwrap();
            prop_assert_eq!(found, format);
            prop_assert_eq!(notes, []);
            match format {
                Format::El => {
                    prop_assert_eq!(&read, &without_bare_end(&graph));
                    let count = (graph.vertices() - read.vertices()) as u64;
                    let lost_vertices = (count > 0).then_some(Note::VerticesLost { count });
                    prop_assert_eq!(lost, lost_vertices.into_iter().collect::<Vec<_>>());
                }
                _ => prop_assert_eq!(&read, &graph, "{:?}", format),
            }
        }
    }

    #[test]
    fn nearly_good_files_are_read_or_refused(
        graph in graphs(),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![any::<u8>(), prop::sample::select(&b"-0 9\n#%."[..])],
        cut in any::<prop::sample::Index>(),
    ) {
        let scratch = Scratch::new();
        for &format in Format::ALL.iter().filter(|format| **format != Format::Image) {
            let path = scratch.path(name(format));
            save(&graph, &path, None, Existing::Keep, &()).unwrap();
            for part in parts(format, &path) {
                let good = fs::read(&part).unwrap();
                if !good.is_empty() {
                    let mut bad = good.clone();
                    bad[at.index(good.len())] = byte;
                    fs::write(&part, &bad).unwrap();
                    let _ = load(&path, Some(format), &());
                    fs::write(&part, &good[..cut.index(good.len())]).unwrap();
                    let _ = load(&path, Some(format), &());
                }
                fs::write(&part, good).unwrap();
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_as_everything(&bytes);
    }
}

fn parts(format: Format, path: &Path) -> Vec<PathBuf> {
    match format {
        Format::LigraBinary => ["adj", "idx", "config"].map(|name| ligra_binary::part(path, name)).into(),
        _ => vec![path.to_owned()],
    }
}

/// Whatever comes of it, nothing panics.
fn read_as_everything(bytes: &[u8]) {
    let scratch = Scratch::new();
    let magics: [&[u8]; 5] = [b"", ligra::PLAIN, b"AdjacencyGraph\n3\n", b"# Nodes: 3\n", &[1; 17]];
    for magic in magics {
        let bytes = [magic, bytes].concat();
        for &format in Format::ALL {
            let path = scratch.path(name(format));
            if format == Format::Image {
                fs::create_dir_all(&path).unwrap();
                for file in ["graph.toml", "out.offsets", "out.targets"] {
                    fs::write(path.join(file), &bytes).unwrap();
                }
            }
            for part in parts(format, &path).iter().filter(|_| format != Format::Image) {
                fs::write(part, &bytes).unwrap();
            }
            let _ = load(&path, Some(format), &());
            let _ = load(&path, None, &());
        }
    }
}

#[test]
fn an_edge_list_may_have_comments_and_weights() {
    let scratch = Scratch::new();
    let text = "# a comment\n0 1 5\n% another\n\n1 2 0.25\n";
    let loaded = load(&scratch.file("a.wel", text), None, &()).unwrap();
    assert_eq!((loaded.format, loaded.graph.vertices(), loaded.graph.out().edges()), (Format::El, 3, 2));
    assert_eq!(loaded.notes, [Note::WeightsDropped]);
    for text in ["# a comment\n0 1 # another\n", "0 1 % another", "0 1 7 # a weight\n"] {
        let loaded = load(&scratch.file("b.el", text), None, &()).unwrap();
        assert_eq!(loaded.notes.is_empty(), !text.contains('7'), "{text:?}");
        assert_eq!(loaded.graph.out().neighbours(0), [1], "{text:?}");
    }
    let loaded = load(&scratch.file("a.el", "# a comment\n0 1\n"), None, &()).unwrap();
    assert_eq!((loaded.graph.out().edges(), loaded.notes.len()), (1, 0));
}

#[test]
fn a_format_is_known_by_its_first_bytes_before_its_name() {
    let scratch = Scratch::new();
    let format = |path: &Path| load(path, None, &()).map(|loaded| loaded.format);
    let text = "AdjacencyGraph\n1\n0\n0\n";
    for name in ["a", "a.txt", "a.adj", "a.el"] {
        assert_eq!(format(&scratch.file(name, text)).unwrap(), Format::Ligra, "{name}");
    }
    let matrix = "%%MatrixMarket matrix coordinate pattern general\n1 1 0\n";
    assert_eq!(format(&scratch.file("b.txt", matrix)).unwrap(), Format::MatrixMarket);
    assert_eq!(format(&scratch.file("c", "# hello\n0 1\n")).unwrap(), Format::Snap);
    assert_eq!(format(&scratch.file("d.el", "0 1\n")).unwrap(), Format::El);
    let unknown = format(&scratch.file("e.dat", "0 1\n")).unwrap_err().to_string();
    assert!(unknown.contains("ligra-binary") && unknown.contains("e.dat"), "{unknown}");
    assert!(matches!(format(&scratch.path("none.el")), Err(ReadError::Absent { .. })));
    assert!(matches!(format(&scratch.path(".")), Err(ReadError::Io { .. })));
}

#[test]
fn the_three_files_of_ligra_are_found_by_any_of_their_names() {
    let scratch = Scratch::new();
    let graph = directed(3, &[(0, 1), (2, 1)]);
    save(&graph, &scratch.path("web.v2"), Some(Format::LigraBinary), Existing::Keep, &()).unwrap();
    assert_eq!(scratch.names(), ["web.v2.adj", "web.v2.config", "web.v2.idx"]);
    for name in ["web.v2", "web.v2.adj", "web.v2.config", "web.v2.idx"] {
        let loaded = load(&scratch.path(name), None, &()).unwrap();
        assert_eq!((loaded.format, &loaded.graph), (Format::LigraBinary, &graph), "{name}");
    }
    // As Ligra writes them when it is compiled for long numbers.
    let long: Vec<u8> = [0u64, 1, 1].into_iter().flat_map(u64::to_le_bytes).collect();
    scratch.file("web.v2.idx", long);
    assert_eq!(load(&scratch.path("web.v2"), None, &()).unwrap().graph, graph);
    let again = save(&graph, &scratch.path("web.v2.idx"), None, Existing::Keep, &());
    assert!(matches!(again, Err(ImageWriteError::Exists { .. })), "{again:?}");
}

#[test]
fn stanford_lists_are_read_as_they_are_found() {
    let scratch = Scratch::new();
    let read = |text: &str| load(&scratch.file("list.txt", text), None, &()).unwrap();
    let gaps = read("# Directed graph\r\n# FromNodeId\tToNodeId\r\n30\t1000\r\n30\t5\r\n\r\n1000  30\r\n");
    assert_eq!(gaps.graph, directed(3, &[(1, 2), (1, 0), (2, 1)]));
    assert_eq!(gaps.notes, [Note::Renumbered { vertices: 3, largest: 1000 }]);
    let far_apart = read("4294967294 7");
    assert_eq!(far_apart.graph, directed(2, &[(1, 0)]));
    let told = read("# Nodes: 6 Edges: 2\n0 3\n3 1");
    assert_eq!((told.graph, told.notes), (directed(6, &[(0, 3), (3, 1)]), vec![]));
    let told_wrong = read("# Nodes: 3 Edges: 1\n0 3\n");
    assert_eq!(told_wrong.graph, directed(2, &[(0, 1)]));
    let undirected = read("# Undirected graph: some.txt\n0 1\n1 2\n2 1\n");
    assert_eq!(undirected.graph, directed(3, &[(0, 1), (1, 0), (1, 2), (2, 1)]));
    let columns = read("% konect\n0 1 5 1000\n1 0 -2.5 abc\n");
    assert_eq!((columns.graph, columns.notes), (directed(2, &[(0, 1), (1, 0)]), vec![Note::ColumnsDropped]));
    // No graph has so many vertices and one edge: the comment is not believed.
    assert_eq!(read("# Nodes: 4294967295\n0 1\n").graph.vertices(), 2);
    assert_eq!(read("").graph.vertices(), 0);
}

#[test]
fn matrices_are_read_as_they_are_found() {
    let scratch = Scratch::new();
    let read = |text: &str| load(&scratch.file("matrix.mtx", text), None, &()).unwrap();
    let real = read("%%MatrixMarket MATRIX Coordinate real General\n% why\n\n3 3 2\n1 3 2.5e-3\n3 3 -1\n");
    assert_eq!((real.graph, real.notes), (directed(3, &[(0, 2), (2, 2)]), vec![Note::WeightsDropped]));
    let half = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n";
    assert_eq!(read(half).graph, directed(3, &[(0, 1), (1, 0), (2, 2)]));
    let complex = read("%%MatrixMarket matrix coordinate complex hermitian\n2 2 1\n2 1 0.5 -0.5");
    assert_eq!(complex.graph, directed(2, &[(0, 1), (1, 0)]));
}

#[test]
fn weights_of_ligra_texts_are_left_out() {
    let scratch = Scratch::new();
    let text = "WeightedAdjacencyGraph\n3 3\n0 2 2\n2 1 1\n7 -8 0.5";
    let loaded = load(&scratch.file("weighted", text), None, &()).unwrap();
    assert_eq!(loaded.graph, directed(3, &[(0, 2), (0, 1), (2, 1)]));
    assert_eq!(loaded.notes, [Note::WeightsDropped]);
}

/// More than one batch and many blocks, so that the seams between them matter.
#[test]
fn long_texts_are_read_whole() {
    let scratch = Scratch::new();
    let edges: Vec<(u32, u32)> = (0..1_500_000u64)
        .map(|number| {
            let random = crate::random::mix(number);
            (random as u32 % 900_000, (random >> 32) as u32 % 900_000)
        })
        .chain([(899_999, 0)])
        .collect();
    let graph = directed(900_000, &edges);
    for format in [Format::El, Format::Ligra] {
        let path = scratch.path(name(format));
        save(&graph, &path, None, Existing::Keep, &()).unwrap();
        assert!(fs::metadata(&path).unwrap().len() > 15 << 20);
        assert!(load(&path, None, &()).unwrap().graph == graph, "{format:?}");
        let mut text = fs::read(&path).unwrap();
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        text.extend_from_slice(b"oops\n");
        fs::write(&path, text).unwrap();
        let error = load(&path, None, &()).unwrap_err().to_string();
        assert!(error.contains(&format!("line {}:", lines + 1)), "{error}");
    }
}

#[test]
fn a_pipe_is_read_like_a_file() {
    let scratch = Scratch::new();
    let path = scratch.path("pipe.txt");
    let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(status.success());
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&path, "0 1\n1 2\n").unwrap());
        let loaded = load(&path, None, &()).unwrap();
        assert_eq!(loaded.graph, directed(3, &[(0, 1), (1, 2)]));
    });
}

#[test]
fn files_are_replaced_only_when_asked() {
    let scratch = Scratch::new();
    let (old, new) = (directed(1, &[(0, 0)]), directed(2, &[(0, 1)]));
    for &format in Format::ALL {
        let path = scratch.path(name(format));
        save(&old, &path, Some(format), Existing::Keep, &()).unwrap();
        let kept = save(&new, &path, Some(format), Existing::Keep, &());
        assert!(matches!(kept, Err(ImageWriteError::Exists { .. })), "{kept:?}");
        assert_eq!(load(&path, Some(format), &()).unwrap().graph, old);
        save(&new, &path, Some(format), Existing::Replace, &()).unwrap();
        assert_eq!(load(&path, Some(format), &()).unwrap().graph, new);
    }
    assert!(
        scratch.names().iter().all(|name| name.starts_with("some.") || name.starts_with("parts.")),
        "{:?}",
        scratch.names()
    );
    fs::create_dir(scratch.path("some.folder.el")).unwrap();
    for (path, format) in
        [(PathBuf::from("/dev/null"), Some(Format::El)), (scratch.path("some.folder.el"), None)]
    {
        let kept = GraphTarget::new(&path, format, Existing::Replace);
        assert!(matches!(kept, Err(ImageWriteError::NotAFile { .. })), "{kept:?}");
    }
    let nowhere = GraphTarget::new(&scratch.path("missing/some.el"), None, Existing::Keep);
    assert!(matches!(nowhere, Err(ImageWriteError::Io { .. })), "{nowhere:?}");
    let unknown = save(&new, &scratch.path("graph.dat"), None, Existing::Keep, &());
    assert!(matches!(unknown, Err(ImageWriteError::UnknownFormat { .. })), "{unknown:?}");
}
