use outboard_agent::Daemon;

use super::*;

/// A daemon in this process, and where it is reached.
fn memory_server() -> (Daemon, Vec<Address>) {
    let mut settings = Settings::default();
    let unique = Identity::new(Role::Tool, "").incarnation;
    let local = Address::Abstract(format!("outboard-characterize-{unique}"));
    settings.memory.listen = vec![local, Address::Tcp(([127, 0, 0, 1], 0).into())];
    let daemon = Daemon::memory(&settings).unwrap();
    let addresses = daemon.listening().to_vec();
    (daemon, addresses)
}

#[test]
fn every_point_of_both_kinds_of_link_is_measured() {
    let (daemon, addresses) = memory_server();
    let target = |address: &Address| MeasuredDaemon { party: Party::MemoryServer, address: address.clone() };
    let targets: Vec<MeasuredDaemon> = addresses.iter().map(target).collect();
    let found = characterize(&targets, Effort::Tiny, &Settings::default()).unwrap();
    for leg in Leg::all(&found.measurements) {
        for operation in MeasuredOperation::ALL {
            let figures = leg.best(operation);
            assert_eq!(figures.len(), SIZES.len(), "{} {operation:?}", leg.title());
            assert!(figures.iter().all(|one| one.bandwidth > 0.0 && one.latency_ns > 0.0), "{figures:?}");
        }
    }
    let links: Vec<_> = found.conclusions.chunks.iter().map(|chunk| chunk.link).collect();
    assert_eq!(links, ["shm", "tcp"]);
    daemon.stop("the test is over").unwrap();
}

#[test]
fn a_daemon_of_another_kind_is_refused_by_name() {
    let (daemon, addresses) = memory_server();
    let targets = [MeasuredDaemon { party: Party::Agent, address: addresses[0].clone() }];
    let error = characterize(&targets, Effort::Tiny, &Settings::default()).unwrap_err().to_string();
    assert!(error.contains("is no agent") && error.contains(&addresses[0].to_string()), "{error}");
    daemon.stop("the test is over").unwrap();
}

#[test]
fn a_request_for_too_much_is_refused_in_words() {
    let (daemon, addresses) = memory_server();
    let identity = Identity::new(Role::Tool, "greedy");
    let mut link = shm::connect(&addresses[0], identity, Exports::new(), shm::ShmConfig::default()).unwrap();
    let buffer = node::allocate(BUFFER_LEN, None).unwrap();
    let mut mover = Mover::open(&mut link, Waiter::new(), &buffer).unwrap();
    let error = mover.burst(MeasuredOperation::Ask, 1 << 20, 1, 1).unwrap_err();
    assert!(matches!(error, MeasureError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("trial"), "{error}");
    daemon.stop("the test is over").unwrap();
}
