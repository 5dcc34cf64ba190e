//! Files that are not what they should be, and what is said about them.

use super::*;

#[track_caller]
fn assert_refused(format: Format, bytes: impl AsRef<[u8]>, parts: &[&str]) {
    let scratch = Scratch::new();
    let path = scratch.file(name(format), bytes);
    let error = load(&path, Some(format), &()).unwrap_err().to_string();
    assert!(error.contains(name(format)), "the file is named: {error}");
    for part in parts {
        assert!(error.contains(part), "{part:?}: {error}");
    }
}

#[test]
fn edge_lists() {
    for format in [Format::Snap, Format::El] {
        assert_refused(format, "0 1\n2\n", &["line 2", "a vertex number", "the end of the line"]);
        assert_refused(format, "0 1\n\n3 x\n", &["line 3", "a vertex number", "`x`"]);
        assert_refused(format, "0 -1\n", &["line 1", "a vertex number", "`-1`"]);
        assert_refused(format, "0 1\n1 4294967295\n", &["line 2", "up to 4294967294", "`4294967295`"]);
        assert_refused(format, "0 99999999999999999999999\n", &["line 1", "a vertex number"]);
        assert_refused(format, "0 1.5\n", &["line 1", "`1.5`"]);
        assert_refused(format, b"\x00\xff\x1b[2J", &["line 1", "`\\x00\\xff\\x1b[2J`"]);
    }
    assert_refused(Format::El, "0 1 7 8\n", &["line 1", "the end of the line", "`8`"]);
    assert_refused(Format::El, "0 4000000000\n", &["4000000001 vertices", "1 edges", "snap"]);
}

#[test]
fn a_line_without_end_is_no_text() {
    assert_refused(Format::El, vec![b'1'; 20 << 20], &["line 1", "this is no text"]);
}

#[test]
fn matrices() {
    let matrix = |rest: &str| format!("%%MatrixMarket matrix coordinate {rest}");
    let refused = |text: String, parts: &[&str]| assert_refused(Format::MatrixMarket, text, parts);
    refused(String::new(), &["line 1", "%%matrixmarket"]);
    refused("1 1 1\n1 1\n".into(), &["line 1", "%%matrixmarket", "`1`"]);
    refused("%%MatrixMarket matrix array real general\n".into(), &["line 1", "coordinate", "`array`"]);
    refused(matrix("quaternion general\n"), &["line 1", "pattern or real or integer", "`quaternion`"]);
    refused(matrix("real\n"), &["line 1", "general or symmetric", "the end of the line"]);
    refused(matrix("real general\n% only a comment\n"), &["line 3", "rows, columns and entries"]);
    refused(matrix("real general\n3 3\n"), &["line 2", "a number of entries", "the end of the line"]);
    refused(matrix("pattern general\n3 4 1\n1 1\n"), &["line 2", "square", "4 columns"]);
    refused(matrix("pattern general\n5000000000 5000000000 0\n"), &["line 2", "at most 4294967295"]);
    refused(matrix("pattern general\n4000000000 4000000000 1\n1 1\n"), &["4000000000 vertices for 1 edges"]);
    refused(matrix("pattern general\n3 3 -1\n"), &["line 2", "a number of entries", "`-1`"]);
    refused(
        matrix("pattern general\n3 3 1000000000000\n1 1\n"),
        &["at least 3999999999999", "1000000000000 entries"],
    );
    refused(matrix("pattern general\n3 3 2\n1 1\n"), &["line 3", "2 entries", "1 after it"]);
    refused(matrix("pattern general\n3 3 1\n1 1\n2 2\n"), &["1 entries", "2 after it"]);
    refused(matrix("pattern general\n3 3 1\n0 1\n"), &["line 3", "from 1 to 3", "found 0"]);
    refused(matrix("pattern general\n3 3 1\n1 4\n"), &["line 3", "from 1 to 3", "found 4"]);
    refused(matrix("pattern general\n3 3 1\n1 -2\n"), &["line 3", "`-2`"]);
    refused(matrix("pattern general\n3 3 1\n1 2 3.5\n"), &["line 3", "the end of the line", "`3.5`"]);
    refused(matrix("real general\n3 3 1\n1 2\n"), &["line 3", "the value", "the end of the line"]);
    refused(matrix("real general\n3 3 1\n1 2 many\n"), &["line 3", "the value", "`many`"]);
}

#[test]
fn ligra_texts() {
    let refused = |text: &str, parts: &[&str]| assert_refused(Format::Ligra, text, parts);
    refused("", &["line 1", "AdjacencyGraph"]);
    refused("\n\nGraph\n1\n", &["line 3", "AdjacencyGraph", "`Graph`"]);
    refused("AdjacencyGraph\n", &["line 2", "number of vertices", "the end of the file"]);
    refused("AdjacencyGraph\n-3\n3\n", &["line 2", "number of vertices", "`-3`"]);
    refused("AdjacencyGraph\n3\n", &["number of edges", "the end of the file"]);
    refused("AdjacencyGraph\n4294967296\n0\n", &["line 2", "at most 4294967295"]);
    refused("AdjacencyGraph\n1000000\n18446744073709551615\n0\n", &["has 46 bytes", "at least"]);
    refused("AdjacencyGraph\n3\n2\n0\n1\n1\n2\n", &["line 3", "3 offsets and 2 edges", "only 4 numbers"]);
    refused("AdjacencyGraph\n3\n1\n0\n1\n1\n2\n\n0\n", &["line 9", "the end of the file"]);
    refused("AdjacencyGraph\n3\n1\n0\nx\n1\n2\n", &["line 5", "where the edges of a vertex begin", "`x`"]);
    refused("AdjacencyGraph\n3\n1\n0\n1\n1\n\n-2\n", &["line 8", "a vertex number", "`-2`"]);
    refused("AdjacencyGraph\n3\n1\n0\n1\n1\n\n\n3\n", &["line 9", "below 3", "found 3"]);
    refused("AdjacencyGraph\n3\n2\n0\n2\n1\n0\n0\n", &["vertex 1", "backwards"]);
    refused("AdjacencyGraph\n2\n1\n0\n5\n0\n", &["vertex 1", "backwards, from 5 to 1"]);
    refused("AdjacencyGraph\n2\n2\n1\n2\n0\n0\n", &["first offset is 1"]);
    refused("WeightedAdjacencyGraph\n1\n2\n0\n0\n0\n1\n", &["as many weights", "only 4 numbers"]);
    refused("WeightedAdjacencyGraph\n1\n1\n0\n0\n1\n1\n", &["line 7", "the end of the file"]);
}

#[test]
fn the_files_of_ligra() {
    let refused = |config: &str, index: &[u8], adjacent: &[u8], parts: &[&str]| {
        let scratch = Scratch::new();
        scratch.file("some.config", config);
        scratch.file("some.idx", index);
        scratch.file("some.adj", adjacent);
        let error = load(&scratch.path("some"), None, &()).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part:?}: {error}");
        }
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let (index, adjacent) = (words(&[0, 1]), words(&[1, 0, 1]));
    refused("two", &index, &adjacent, &["some.config", "line 1", "number of vertices", "`two`"]);
    refused("", &index, &adjacent, &["some.config", "the end of the file"]);
    refused("99999999999", &index, &adjacent, &["some.config", "at most"]);
    refused("4000000000", &index, &adjacent, &["some.idx has 8 bytes", "16000000000 or 32000000000"]);
    refused("3", &index, &adjacent, &["some.idx has 8 bytes", "12 or 24"]);
    refused("2", &index, &adjacent[..9], &["some.adj has 9 bytes", "a multiple of 4"]);
    refused("2", &index, &words(&[1, 0, 2]), &["some.adj, byte 8", "below 2", "found 2"]);
    refused("2", &words(&[0, 9]), &adjacent, &["some.idx, byte 8", "at least 9", "found 3"]);
    refused("2", &words(&[1, 1]), &adjacent, &["some.idx, byte 0", "expected 0, found 1"]);
    let scratch = Scratch::new();
    scratch.file("some.config", "2");
    let error = load(&scratch.path("some.config"), None, &()).unwrap_err().to_string();
    assert!(error.contains("some.idx"), "{error}");
}

fn serialised(directed: u8, edges: i64, vertices: i64, rows: &[(&[i64], &[i32])]) -> Vec<u8> {
    let mut bytes = vec![directed];
    bytes.extend([edges, vertices].into_iter().flat_map(i64::to_le_bytes));
    for (offsets, targets) in rows {
        bytes.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes()));
        bytes.extend(targets.iter().flat_map(|target| target.to_le_bytes()));
    }
    bytes
}

#[test]
fn serialised_graphs() {
    let refused = |bytes: Vec<u8>, parts: &[&str]| assert_refused(Format::Sg, bytes, parts);
    let out: (&[i64], &[i32]) = (&[0, 1, 1], &[1]);
    let incoming: (&[i64], &[i32]) = (&[0, 0, 1], &[0]);
    let good = serialised(1, 1, 2, &[out, incoming]);
    let scratch = Scratch::new();
    assert_eq!(load(&scratch.file("good.sg", &good), None, &()).unwrap().graph, directed(2, &[(0, 1)]));

    refused(Vec::new(), &["has 0 bytes", "at least 17"]);
    refused(good[..16].to_vec(), &["has 16 bytes", "at least 17"]);
    refused(
        good[..good.len() - 1].to_vec(),
        &["has 72 bytes", "directed graph of 2 vertices and 1 edges", "makes 73"],
    );
    refused([&good[..], &[0]].concat(), &["has 74 bytes", "makes 73"]);
    refused(serialised(2, 1, 2, &[out, incoming]), &["byte 0", "whether the graph is directed", "found 2"]);
    refused(serialised(1, -1, 2, &[out, incoming]), &["byte 1", "a number of edges", "found -1"]);
    refused(serialised(1, 1, -2, &[out, incoming]), &["byte 9", "up to 2147483647", "found -2"]);
    refused(serialised(1, 1, i64::MAX, &[out, incoming]), &["byte 9", "found 9223372036854775807"]);
    refused(serialised(1, i64::MAX, 2, &[out, incoming]), &["9223372036854775807 edges"]);
    refused(serialised(0, 1, 2, &[out]), &["called symmetric"]);
    refused(serialised(1, 1, 2, &[out, out]), &["not the outgoing ones turned round"]);
    refused(serialised(1, 1, 2, &[(&[0, 2, 1], &[1]), incoming]), &["byte 33", "at least 2", "found 1"]);
    refused(serialised(1, 1, 2, &[(&[0, 1, 5], &[1]), incoming]), &["byte 33", "expected 1", "found 5"]);
    refused(serialised(1, 1, 2, &[(&[0, 1, 1], &[-7]), incoming]), &["byte 41", "below 2"]);
    refused(serialised(1, 1, 2, &[out, (&[0, 0, 1], &[2])]), &["byte 69", "below 2", "found 2"]);
}
