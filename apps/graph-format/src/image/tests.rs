use std::fs;

use proptest::prelude::*;

use super::*;
use crate::scratch::{Scratch, directed, graphs, names};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_was_written_is_read(graph in graphs()) {
        let scratch = Scratch::new();
        let written = GraphImage::write(&graph, scratch.path("some.graph")).unwrap();
        let opened = GraphImage::open(scratch.path("some.graph")).unwrap();
        prop_assert_eq!(&opened, &written);
        prop_assert_eq!(opened.vertices(), graph.vertices() as u64);
        prop_assert_eq!(opened.edges(), graph.edges() as u64);
        prop_assert_eq!(opened.arrays().len(), if graph.is_symmetric() { 2 } else { 4 });
        prop_assert!(opened.check(&()).is_ok());
        let text = fs::read_to_string(opened.path().join(GraphImage::DESCRIPTION)).unwrap();
        prop_assert_eq!(&GraphImage::described(opened.path(), &text).unwrap(), &opened);
        prop_assert_eq!(opened.read().unwrap(), graph);
        prop_assert_eq!(scratch.names(), ["some.graph"]);
    }
}

fn small() -> Graph {
    directed(3, &[(0, 1), (0, 2), (2, 1)])
}

#[test]
fn arrays_lie_bare_in_their_files() {
    let scratch = Scratch::new();
    let image = GraphImage::write(&small(), scratch.path("small.graph")).unwrap();
    assert_eq!(names(image.path()), ["graph.toml", "in.offsets", "in.targets", "out.offsets", "out.targets"]);
    let arrays = image.arrays();
    let bytes = |numbers: &[u64], width: usize| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()[..width].to_vec()).collect()
    };
    let expected =
        [bytes(&[0, 2, 2, 3], 8), bytes(&[1, 2, 1], 4), bytes(&[0, 0, 2, 3], 8), bytes(&[0, 2, 0], 4)];
    for (array, expected) in arrays.iter().zip(expected) {
        assert_eq!(fs::read(&array.path).unwrap(), expected, "{}", array.name);
        assert_eq!(array.bytes(), expected.len() as u64);
    }
}

#[test]
fn files_of_a_wrong_length_are_refused_without_being_read() {
    let scratch = Scratch::new();
    for name in ["out.offsets", "out.targets", "in.offsets", "in.targets"] {
        let path = scratch.path(&format!("{name}.graph"));
        GraphImage::write(&small(), &path).unwrap();
        let file = path.join(name);
        let bytes = fs::read(&file).unwrap();
        for wrong in [&bytes[..bytes.len() - 1], &[], &[&bytes[..], &[0]].concat()] {
            fs::write(&file, wrong).unwrap();
            let error = GraphImage::open(&path).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(&format!("has {} bytes", wrong.len())), "{error}");
        }
        fs::remove_file(&file).unwrap();
        assert!(GraphImage::open(&path).unwrap_err().to_string().contains(name));
    }
}

#[test]
fn a_description_that_makes_no_sense_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.path("small.graph");
    GraphImage::write(&small(), &path).unwrap();
    let cases = [
        ("", "format"),
        ("format = 2\nlater = true", "version 2"),
        ("format = 1\nvertices = 3", "edges"),
        ("format = 1\nvertices = 3\nedges = 3\nsymmetric = false\nweights = 1", "weights"),
        ("format = 1\nvertices = -3\nedges = 3\nsymmetric = false", "vertices"),
        ("format = 1\nvertices = 4294967296\nedges = 3\nsymmetric = false", "limit"),
        ("format = 1\nvertices = 3\nedges = 9223372036854775807\nsymmetric = false", "limit"),
        ("format = 1\nvertices = 3\nedges = 1000000000000000\nsymmetric = false", "out.targets"),
        ("format = 1\nvertices = 4\nedges = 3\nsymmetric = false", "out.offsets"),
        ("\0\0\0", "graph.toml"),
    ];
    for (text, part) in cases {
        fs::write(path.join(METADATA), text).unwrap();
        let error = GraphImage::open(&path).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("graph.toml"), "{text:?}: {error}");
    }
    fs::write(path.join(METADATA), b"\xff\xff").unwrap();
    assert!(GraphImage::open(&path).is_err());
    assert!(GraphImage::open(scratch.path("none.graph")).unwrap_err().to_string().contains("none.graph"));
}

#[test]
fn arrays_that_make_no_graph_are_refused_when_read() {
    let scratch = Scratch::new();
    let path = scratch.path("small.graph");
    let image = GraphImage::write(&small(), &path).unwrap();
    let spoil = |name: &str, at: usize| {
        let file = path.join(name);
        let good = fs::read(&file).unwrap();
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        fs::write(&file, &bad).unwrap();
        let image = GraphImage::open(&path).unwrap();
        let error = image.read().unwrap_err().to_string();
        assert_eq!(image.check(&()).unwrap_err().to_string(), error, "whether it is kept or not");
        fs::write(&file, good).unwrap();
        error
    };
    assert!(spoil("out.offsets", 0).contains("expected 0, found 64"));
    assert!(spoil("out.offsets", 8).contains("an offset of at least"));
    assert!(spoil("in.offsets", 24).contains("the number of edges"));
    assert!(spoil("in.targets", 0).contains("expected a vertex below 3"));
    assert!(image.read().is_ok());
    fs::copy(path.join("out.targets"), path.join("in.targets")).unwrap();
    assert!(image.read().unwrap_err().to_string().contains("turned round"));
}

#[test]
fn an_image_is_replaced_only_when_asked_and_nothing_else_is() {
    let scratch = Scratch::new();
    let path = scratch.path("some.graph");
    GraphImage::write(&small(), &path).unwrap();
    assert!(matches!(GraphImage::write(&small(), &path), Err(ImageWriteError::Exists { .. })));
    let other = directed(2, &[(0, 1), (1, 0)]);
    GraphImage::write_with(&other, &path, Existing::Replace, &()).unwrap();
    assert_eq!(GraphImage::open(&path).unwrap().read().unwrap(), other);
    assert_eq!(scratch.names(), ["some.graph"]);

    fs::write(path.join("diary.txt"), "dear diary").unwrap();
    let kept = GraphImage::write_with(&other, &path, Existing::Replace, &());
    assert!(matches!(kept, Err(ImageWriteError::NotAnImage { .. })), "{kept:?}");
    let file = scratch.file("file.graph", "text");
    let kept = GraphImage::write_with(&other, &file, Existing::Replace, &());
    assert!(matches!(kept, Err(ImageWriteError::NotAnImage { .. })), "{kept:?}");
    assert_eq!(scratch.names(), ["file.graph", "some.graph"], "no drafts are left behind");
    assert_eq!(fs::read_to_string(path.join("diary.txt")).unwrap(), "dear diary");
}

#[test]
fn a_half_written_image_is_none() {
    let scratch = Scratch::new();
    let nowhere = scratch.path("missing/some.graph");
    assert!(matches!(GraphImage::write(&small(), nowhere), Err(ImageWriteError::Io { .. })));
    fs::create_dir(scratch.path("half.graph")).unwrap();
    assert!(GraphImage::open(scratch.path("half.graph")).is_err());
}
