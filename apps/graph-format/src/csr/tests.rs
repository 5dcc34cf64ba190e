use proptest::prelude::*;

use super::*;
use crate::scratch::graphs;

#[test]
fn arrays_that_do_not_belong_together_are_refused() {
    let refused = |offsets: &[u64], targets: &[u32]| Csr::check(offsets, targets).unwrap_err();
    assert_eq!(refused(&[], &[]), CsrError::NoOffsets);
    assert_eq!(refused(&[1, 1], &[0]), CsrError::FirstOffset { found: 1 });
    assert_eq!(refused(&[0, 2, 1, 2], &[0, 0]), CsrError::Backwards { vertex: 1, begin: 2, end: 1 });
    assert_eq!(refused(&[0, 1, 2], &[0]), CsrError::LastOffset { found: 2, edges: 1 });
    assert_eq!(refused(&[0, u64::MAX], &[0]), CsrError::LastOffset { found: u64::MAX, edges: 1 });
    assert_eq!(refused(&[0, 1, 2], &[1, 2]), CsrError::NoSuchVertex { position: 1, target: 2, vertices: 2 });
    assert_eq!(refused(&[0], &[0]), CsrError::LastOffset { found: 0, edges: 1 });
}

#[test]
fn the_smallest_graphs_are_graphs() {
    let nothing = Csr::new(vec![0], vec![]).unwrap();
    assert_eq!((nothing.vertices(), nothing.edges(), nothing.degree_max()), (0, 0, 0));
    assert!(nothing.blocks(8).is_empty());
    let loops = Csr::new(vec![0, 2], vec![0, 0]).unwrap();
    assert_eq!((loops.vertices(), loops.edges(), loops.degree_max()), (1, 2, 2));
    assert_eq!(loops.into_parts(), (vec![0, 2], vec![0, 0]));
}

proptest! {
    #[test]
    fn blocks_cover_every_vertex_once(graph in graphs(), most in 1usize..20) {
        let blocks = graph.out().blocks(most);
        prop_assert!(blocks.len() <= most + 1);
        let covered: Vec<usize> = blocks.into_iter().flatten().collect();
        prop_assert!(covered.into_iter().eq(0..graph.vertices()));
    }

    #[test]
    fn merging_takes_each_number_as_often_as_the_longer_run(
        mut first in prop::collection::vec(0u32..8, 0..20),
        mut second in prop::collection::vec(0u32..8, 0..20),
    ) {
        first.sort_unstable();
        second.sort_unstable();
        let merged: Vec<u32> = Merge(&first, &second).collect();
        prop_assert!(merged.is_sorted());
        for number in 0..8 {
            let count = |list: &[u32]| list.iter().filter(|entry| **entry == number).count();
            prop_assert_eq!(count(&merged), count(&first).max(count(&second)));
        }
    }
}
