use outboard_writing::WritePath;

use super::*;

fn plan(workload: Workload, steerer: Steerer, numbers: Parameters) -> Plan {
    Plan { numbers, workload, steerer, writes: 60_000, warm_up: 20_000, seed: 1 }
}

#[test]
fn offloading_alone_takes_twice_as_long_when_every_write_misses() {
    let alone = Parameters { depth: 1.0, ..Parameters::default() };
    let hot = play(&plan(Workload::Hot, Steerer::Fixed(WritePath::Offload), alone));
    let cold = play(&plan(Workload::Cold, Steerer::Fixed(WritePath::Offload), alone));
    assert!(hot.hit_share > 0.95 && cold.hit_share < 0.01, "{} {}", hot.hit_share, cold.hit_share);
    let slower = cold.mean_ns / hot.mean_ns;
    assert!((1.9..=2.1).contains(&slower), "{slower}");
}

#[test]
fn offloading_alone_loses_two_fifths_of_its_throughput_when_every_write_misses() {
    let busy = Parameters { depth: 256.0, ..Parameters::default() };
    let hot = play(&plan(Workload::Hot, Steerer::Fixed(WritePath::Offload), busy));
    let cold = play(&plan(Workload::Cold, Steerer::Fixed(WritePath::Offload), busy));
    let share = cold.rate / hot.rate;
    assert!((0.57..=0.63).contains(&share), "{share}");
}

#[test]
fn the_same_plan_has_the_same_outcome() {
    let plan = plan(Workload::Skewed(50), Steerer::Adaptive, Parameters::default());
    assert_eq!(play(&plan).mean_ns.to_bits(), play(&plan).mean_ns.to_bits());
}

#[test]
fn the_plainest_plan_has_the_same_outcome() {
    let (usual, mut plainer) = (Parameters::default(), 0);
    for steerer in [Steerer::Fixed(WritePath::Offload), Steerer::Fixed(WritePath::Unload), Steerer::Adaptive]
    {
        for (name, workload) in Parameters::NAMES.into_iter().zip(Workload::ALL.into_iter().cycle()) {
            let full = Plan { writes: 3000, ..plan(workload, steerer, usual.scaled(name, 4.0)) };
            let plain = full.clone().plainest();
            plainer += u32::from(plain != full);
            let [full, plain] = [full, plain].map(|plan| play(&Plan { warm_up: 1000, ..plan }));
            assert_eq!(full.mean_ns.to_bits(), plain.mean_ns.to_bits(), "{steerer:?} {name}");
            assert_eq!(full.rate.to_bits(), plain.rate.to_bits(), "{steerer:?} {name}");
        }
    }
    assert!(plainer > 0);
}

mod memory;
