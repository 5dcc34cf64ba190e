use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::EdgeList;
use crate::scratch::edges;

/// The same by the book.
fn model(edges: &[(u32, u32)], cleaning: Cleaning) -> Vec<(u32, u32)> {
    let mut all: Vec<(u32, u32)> = edges.to_vec();
    if cleaning.both_directions {
        all.extend(edges.iter().filter(|(from, to)| from != to).map(|(from, to)| (*to, *from)));
    }
    all.retain(|(from, to)| !(cleaning.drop_self_loops && from == to));
    if cleaning.drop_duplicates {
        all = all.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    }
    all.sort_unstable();
    all
}

fn all_edges(rows: &Csr) -> Vec<(u32, u32)> {
    (0..rows.vertices())
        .flat_map(|vertex| rows.neighbours(vertex).iter().map(move |target| (vertex as u32, *target)))
        .collect()
}

fn cleanings() -> impl Strategy<Value = Cleaning> {
    any::<[bool; 3]>().prop_map(|[both_directions, drop_self_loops, drop_duplicates]| Cleaning {
        both_directions,
        drop_self_loops,
        drop_duplicates,
    })
}

proptest! {
    #[test]
    fn rows_have_the_edges_of_the_list(
        (vertices, edges) in edges(),
        cleaning in cleanings(),
        pieces in 1usize..9,
    ) {
        let mut list = EdgeList::default();
        edges.chunks(edges.len().div_ceil(pieces).max(1)).for_each(|piece| list.push(piece.to_vec()));
        let rows = list.to_csr(vertices, cleaning, &()).unwrap();
        prop_assert_eq!(Csr::check(rows.offsets(), rows.targets()), Ok(()));
        prop_assert_eq!(rows.vertices() as u64, vertices);
        prop_assert_eq!(all_edges(&rows), model(&edges, cleaning));
    }
}

#[test]
fn many_buckets_with_a_part_of_one_at_the_end() {
    let vertices = 100_003u32;
    let edges: Vec<(u32, u32)> = (0..400_000u64)
        .map(|number| {
            let random = crate::random::mix(number);
            // Some vertices have far more edges than others.
            let from = (random as u32 % vertices) >> (random >> 60);
            (from, (random >> 20) as u32 % vertices)
        })
        .collect();
    assert!(Buckets::of(vertices as usize).count > 100);
    let list: EdgeList = edges.iter().copied().collect();
    for drop_duplicates in [false, true] {
        let cleaning = Cleaning { drop_duplicates, both_directions: true, drop_self_loops: drop_duplicates };
        let rows = list.to_csr(u64::from(vertices), cleaning, &()).unwrap();
        assert_eq!(all_edges(&rows), model(&edges, cleaning));
    }
}

#[test]
fn edges_between_vertices_that_are_not_there_are_refused() {
    let refused = |vertices, edges: &[(u32, u32)]| {
        let list: EdgeList = edges.iter().copied().collect();
        list.to_csr(vertices, Cleaning::default(), &()).unwrap_err()
    };
    assert_eq!(
        refused(3, &[(0, 1), (2, 3), (9, 9)]),
        BuildError::NoSuchVertex { from: 2, to: 3, vertices: 3 }
    );
    assert_eq!(refused(0, &[(0, 0)]), BuildError::NoSuchVertex { from: 0, to: 0, vertices: 0 });
    assert_eq!(refused(1 << 32, &[]), BuildError::TooManyVertices { vertices: 1 << 32 });
}
