//! Over a fabric, functions read what others lease to them without the owner's processor.

use std::time::Instant;

use outboard::{Address, CallSite, Caller, Client, FunctionOptions, Rights, Settings};
use outboard_agent::{Daemon, STATUS_GRANT, StatusView};
use outboard_link::{Identity, ofi};
use outboard_wire::Role;

use crate::world::{caller_at, caller_by, image, memory};
use outboard_e2e::PATIENCE;

/// Returns the word of the first region at the offset that it is given.
const LOOK: &str = "
    ldxdw r2, [r1+0]
    mov r1, 0
    mov r3, r10
    add r3, -8
    mov r4, 8
    call region_read
    ldxdw r0, [r10-8]
    exit";

const CALLS: u64 = 300;
/// Openings and closings of regions, by the caller and by the agent.
const OPENINGS: u64 = 20;

fn socket(name: &str) -> Address {
    Address::Abstract(format!("outboard-fabric-{name}-{}", Identity::new(Role::Tool, "").incarnation))
}

fn served(server: &Address) -> u64 {
    let identity = Identity::new(Role::Tool, "test");
    let mut client = Client::connect(server, identity, &Default::default()).unwrap();
    let view = StatusView::read(&client.read_region(&STATUS_GRANT).unwrap()).unwrap();
    client.close("seen enough");
    view.get("accesses_served_total").unwrap()
}

#[test]
fn functions_read_leased_regions_past_the_server() {
    if let Err(why) = ofi::choose(None, None) {
        println!("skipped: {why}");
        return;
    }
    let mut settings = Settings::default();
    settings.memory.listen = vec![socket("memory"), "ofi:127.0.0.1:0".parse().unwrap()];
    let server = Daemon::memory(&settings).unwrap();
    let fabric =
        server.listening().iter().find(|address| matches!(address, Address::Ofi(_))).unwrap().clone();
    settings.agent.listen = vec![socket("agent")];
    settings.agent.memory_servers = vec![fabric.clone()];
    let agent = Daemon::agent(&settings).unwrap();
    let (local, near) = (&settings.memory.listen[0], &settings.agent.listen[0]);

    let mut memory = memory(&fabric);
    let region = memory.reserve(1 << 16, None).unwrap();
    let words: Vec<u8> = (0..8192u64).flat_map(|word| (word * 3).to_le_bytes()).collect();
    memory.write(&region, 0, &words).unwrap();
    let options = || FunctionOptions::default().with_region(&region, Rights::READ);

    for site in [CallSite::Application, CallSite::Agent] {
        let until = Instant::now() + PATIENCE;
        // The agent may not have reached the server yet.
        let (mut caller, look) = loop {
            let mut caller: Caller = match site {
                CallSite::Agent => caller_by(&fabric, near),
                site => caller_at(&fabric, site),
            };
            match caller.register(&image(LOOK), options()) {
                Ok(look) => break (caller, look),
                Err(error) => assert!(Instant::now() < until, "{site:?}: {error}"),
            }
        };
        assert_eq!(caller.call(look, &0u64.to_le_bytes()).unwrap().value, 0);
        let before = served(local);
        for word in 0..CALLS {
            let offset = word * 8 * 27;
            assert_eq!(caller.call(look, &offset.to_le_bytes()).unwrap().value, word * 81, "{site:?}");
        }
        let after = served(local);
        assert!(after - before <= OPENINGS, "{site:?}: the server has served {} accesses", after - before);
    }
    agent.stop("enough").unwrap();
    server.stop("enough").unwrap();
}
