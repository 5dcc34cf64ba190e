use super::*;

const SYMMETRIC: Cleaning =
    Cleaning { both_directions: true, drop_self_loops: false, drop_duplicates: false };

fn rmat(permuted: bool) -> GeneratorKind {
    GeneratorKind::Rmat { skew: Skew::default(), permuted }
}

fn make(kind: GeneratorKind, scale: u32, seed: u64, cleaning: Cleaning) -> Graph {
    Recipe { kind, scale, degree: 8, seed, cleaning }.make(&()).unwrap()
}

#[test]
fn a_seed_means_the_same_graph_whatever_the_number_of_threads() {
    for kind in [GeneratorKind::Uniform, rmat(false), rmat(true)] {
        for cleaning in [Cleaning::default(), SYMMETRIC] {
            let with = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| make(kind, 12, 5, cleaning))
            };
            let alone = with(1);
            assert!([2, 3, 7].into_iter().all(|threads| with(threads) == alone), "{kind:?}");
            assert_ne!(alone, make(kind, 12, 6, cleaning), "{kind:?}");
        }
    }
}

/// A seed that a user wrote down keeps its meaning.
#[test]
fn known_seeds_give_known_graphs() {
    let print = |kind| make(kind, 10, 1, Cleaning::default()).out().fingerprint(false);
    let prints = [print(GeneratorKind::Uniform), print(rmat(false)), print(rmat(true))];
    assert_eq!(prints, [1_773_814_964_640_957_387, 17_260_620_337_625_670_789, 4_207_771_086_611_900_601]);
}

#[test]
fn as_many_edges_as_asked_for() {
    for kind in [GeneratorKind::Uniform, rmat(false)] {
        let directed = make(kind, 10, 1, Cleaning::default());
        assert_eq!((directed.vertices(), directed.edges()), (1024, 8192));
        let loops = (0..1024).map(|vertex| {
            directed.out().neighbours(vertex).iter().filter(|target| **target == vertex as u32).count()
        });
        let symmetric = make(kind, 10, 1, SYMMETRIC);
        assert!(symmetric.is_symmetric());
        assert_eq!(symmetric.edges(), 2 * 8192 - loops.sum::<usize>());
    }
}

#[test]
fn rmat_is_uneven_and_uniform_is_not() {
    let uneven = make(rmat(false), 12, 3, Cleaning::default());
    let permuted = make(rmat(true), 12, 3, Cleaning::default());
    let even = make(GeneratorKind::Uniform, 12, 3, Cleaning::default());
    // Expected: 8 * 2^12 * 0.76^12 = 1216 from vertex 0, and 8 from any vertex.
    assert!((900..1600).contains(&uneven.out().degree_max()), "{}", uneven.out().degree_max());
    assert!(even.out().degree_max() < 40, "{}", even.out().degree_max());
    let degrees = |graph: &Graph| {
        let rows = graph.out();
        let mut degrees: Vec<usize> =
            (0..rows.vertices()).map(|vertex| rows.neighbours(vertex).len()).collect();
        degrees.sort_unstable();
        degrees
    };
    assert_eq!(degrees(&uneven), degrees(&permuted), "new numbers change nothing else");
    assert_ne!(uneven, permuted);
}

#[test]
fn the_smallest_graphs() {
    for kind in [GeneratorKind::Uniform, rmat(false), rmat(true)] {
        let point = make(kind, 0, 1, Cleaning::default());
        assert_eq!((point.vertices(), point.edges()), (1, 8));
        let bare = Recipe { kind, scale: 4, degree: 0, seed: 0, cleaning: SYMMETRIC }.make(&()).unwrap();
        assert_eq!((bare.vertices(), bare.edges()), (16, 0));
        make(kind, 1, 1, SYMMETRIC);
    }
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is_drawn() {
    let recipe = Recipe { kind: GeneratorKind::Uniform, scale: 32, degree: 1, seed: 0, cleaning: SYMMETRIC };
    assert_eq!(recipe.make(&()), Err(GenerateError::Scale { scale: 32 }));
    let huge = Recipe { scale: 31, degree: u32::MAX, ..recipe };
    assert!(matches!(huge.make(&()), Err(GenerateError::Memory(_))));
    for (a, b, c) in [(0.6, 0.3, 0.2), (-0.1, 0.5, 0.5), (f64::NAN, 0.1, 0.1)] {
        let kind = GeneratorKind::Rmat { skew: Skew { a, b, c }, permuted: false };
        let made = Recipe { kind, scale: 4, ..recipe }.make(&());
        assert!(matches!(made, Err(GenerateError::Skew { .. })), "{made:?}");
    }
    let corner = GeneratorKind::Rmat { skew: Skew { a: 1.0, b: 0.0, c: 0.0 }, permuted: false };
    assert_eq!(make(corner, 4, 1, Cleaning::default()).out().neighbours(0), [0; 128]);
}
