//! Arrays that are graphs, and arrays that are not.

use outboard_graph::{CsrView, GraphView, ViewError, Workers};
use proptest::prelude::*;

use crate::graphs::{Graph, graphs};

#[test]
fn ends_that_do_not_fit_are_found_at_once() {
    assert_eq!(CsrView::new(&[], &[]).unwrap_err(), ViewError::NoOffsets);
    assert!(matches!(CsrView::new(&[1, 1], &[0]), Err(ViewError::WrongEnds { first: 1, .. })));
    assert!(matches!(CsrView::new(&[0, 2], &[0]), Err(ViewError::WrongEnds { last: 2, .. })));
    let (one, two) = (CsrView::new(&[0, 1], &[0]).unwrap(), CsrView::new(&[0, 1, 1], &[0]).unwrap());
    assert!(matches!(GraphView::directed(one, two), Err(ViewError::NotTheSame { .. })));
}

#[test]
fn what_is_wrong_inside_is_found_by_a_check() {
    let workers = Workers::new(3).unwrap();
    let mut offsets = vec![0; 9_001];
    offsets[9_000] = 2;
    let check = |offsets: &[u64], targets: &[u32]| {
        let good = CsrView::new(&[0; 9_001], &[]).unwrap();
        let csr = CsrView::new(offsets, targets).unwrap();
        assert_eq!(GraphView::symmetric(good).check(&workers), Ok(()));
        GraphView::symmetric(csr).check(&workers)
    };
    assert_eq!(check(&offsets, &[8_999, 0]), Ok(()));
    let beyond = ViewError::BadTarget { vertex: 8_999, target: 9_000, vertices: 9_000 };
    assert_eq!(check(&offsets, &[3, 9_000]), Err(beyond));
    offsets[5_000] = u64::MAX;
    let decreasing = ViewError::BadOffset { vertex: 4_999, begin: 0, end: u64::MAX, targets: 2 };
    assert_eq!(check(&offsets, &[3, 4]), Err(decreasing));
}

#[test]
fn both_directions_are_checked() {
    let workers = Workers::new(1).unwrap();
    let (good, bad) = (CsrView::new(&[0, 1], &[0]).unwrap(), CsrView::new(&[0, 1], &[1]).unwrap());
    assert!(GraphView::directed(good, good).unwrap().check(&workers).is_ok());
    assert!(GraphView::directed(good, bad).unwrap().check(&workers).is_err());
    assert!(GraphView::directed(bad, good).unwrap().check(&workers).is_err());
}

#[test]
fn the_first_vertex_with_edges_is_found() {
    let first = |vertices, edges: &[_]| Graph::directed(vertices, edges).view().first_with_edges();
    assert_eq!(first(0, &[]), None);
    assert_eq!(first(3, &[]), None);
    assert_eq!(first(3, &[(0, 2)]), Some(0));
    assert_eq!(first(5, &[(3, 0), (4, 0)]), Some(3));
}

proptest! {
    #[test]
    fn good_graphs_pass_the_check(graph in graphs()) {
        prop_assert_eq!(graph.view().check(&Workers::new(2).unwrap()), Ok(()));
    }
}
