use proptest::prelude::*;

use super::*;
use crate::scratch::{directed, graphs};

fn has(rows: &Csr, from: usize, to: u32) -> usize {
    rows.neighbours(from).iter().filter(|target| **target == to).count()
}

proptest! {
    #[test]
    fn incoming_edges_are_the_outgoing_ones_turned_round(graph in graphs()) {
        for from in 0..graph.vertices() {
            prop_assert!(graph.out().neighbours(from).is_sorted());
            for to in 0..graph.vertices() {
                let there = has(graph.out(), from, to as u32);
                prop_assert_eq!(there, has(graph.incoming(), to, from as u32));
            }
        }
        let (out, incoming) = graph.clone().into_parts();
        prop_assert_ne!(Some(&out), incoming.as_ref(), "equal rows are stored once");
        prop_assert_eq!(Graph::new(out, incoming), Ok(graph));
    }

    #[test]
    fn symmetrised_graphs_have_each_edge_both_ways(graph in graphs()) {
        let symmetric = graph.clone().symmetrised().unwrap();
        prop_assert!(symmetric.is_symmetric());
        for from in 0..graph.vertices() {
            for to in 0..graph.vertices() {
                let there = has(graph.out(), from, to as u32);
                let back = has(graph.out(), to, from as u32);
                prop_assert_eq!(has(symmetric.out(), from, to as u32), there.max(back));
            }
        }
        prop_assert_eq!(symmetric.clone().symmetrised().unwrap(), symmetric);
    }

    #[test]
    fn clean_graphs_are_simple(graph in graphs()) {
        let simple = Cleaning { drop_self_loops: true, drop_duplicates: true, both_directions: false };
        let cleaned = graph.clone().cleaned(simple, &()).unwrap();
        for from in 0..graph.vertices() {
            for to in 0..graph.vertices() {
                let wanted = usize::from(from != to && has(graph.out(), from, to as u32) > 0);
                prop_assert_eq!(has(cleaned.out(), from, to as u32), wanted);
            }
        }
        let (out, incoming) = cleaned.clone().into_parts();
        prop_assert_eq!(Graph::new(out, incoming), Ok(cleaned));
    }
}

#[test]
fn rows_that_do_not_belong_together_are_refused() {
    let rows = |offsets: &[u64], targets: &[u32]| Csr::new(offsets.to_vec(), targets.to_vec()).unwrap();
    let one = rows(&[0, 1, 1], &[1]);
    assert_eq!(Graph::new(one.clone(), None), Err(GraphError::NotSymmetric));
    assert_eq!(Graph::new(one.clone(), Some(one.clone())), Err(GraphError::NotTurned));
    let three = rows(&[0, 0, 0, 0], &[]);
    assert_eq!(Graph::new(one.clone(), Some(three)), Err(GraphError::Vertices { out: 2, incoming: 3 }));
    let more = rows(&[0, 0, 2], &[0, 0]);
    assert_eq!(Graph::new(one.clone(), Some(more)), Err(GraphError::Edges { out: 1, incoming: 2 }));
    let back = rows(&[0, 0, 1], &[0]);
    assert!(Graph::new(one, Some(back)).is_ok());
}

#[test]
fn neighbours_are_put_in_order() {
    let out = Csr::new(vec![0, 3, 3, 3], vec![2, 0, 1]).unwrap();
    let incoming = Csr::new(vec![0, 1, 2, 3], vec![0, 0, 0]).unwrap();
    let graph = Graph::new(out.clone(), Some(incoming)).unwrap();
    assert_eq!(graph.out().neighbours(0), [0, 1, 2]);
    assert_eq!(Graph::directed(out, &()).unwrap(), graph);
}

#[test]
fn a_graph_with_all_ways_back_is_found_to_be_symmetric() {
    assert!(directed(3, &[(0, 1), (1, 0), (2, 2)]).is_symmetric());
    assert!(directed(3, &[]).is_symmetric());
    assert!(!directed(3, &[(0, 1), (1, 0), (0, 1)]).is_symmetric());
}
