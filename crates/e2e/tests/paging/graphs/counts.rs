//! The application and its agent count the same hits and misses.

use std::time::{Duration, Instant};

use outboard::{BufferSize, CacheMode, Client, FarOptions, Outboard, Path, RegionOptions};
use outboard_agent::{Daemon, STATUS_GRANT, StatusView};
use outboard_link::{Address, Identity};
use outboard_settings::{ByteSize, Settings};
use outboard_wire::Role;

use super::cluster::socket;

const PATIENCE: Duration = Duration::from_secs(30);
const CHUNK: usize = 64 << 10;
const ENTRY: usize = 1 << 20;

/// How many fetches an agent has answered from its cache, and how many not; and how many of those it could not keep.
fn counted(agent: &Address) -> ([u64; 2], u64) {
    let identity = Identity::new(Role::Tool, "test");
    let mut client = Client::connect(agent, identity, &Default::default()).unwrap();
    let view = StatusView::read(&client.read_region(&STATUS_GRANT).unwrap()).unwrap();
    client.close("seen enough");
    let get = |name| view.get(name).unwrap();
    let hits = get("fetches_hit_total") + get("background_fetches_hit_total");
    let uncached = get("fetches_uncached_total");
    let others = get("fetches_late_total") + get("fetches_missed_total") + uncached;
    ([hits, others + get("background_fetches_missed_total")], uncached)
}

#[test]
fn also_where_a_copy_that_has_no_room_becomes_a_cache() {
    let mut settings = Settings::default();
    settings.memory.listen = vec![socket()];
    let memory = Daemon::memory(&settings).unwrap();
    settings.agent.listen = vec![socket()];
    settings.agent.memory_servers = settings.memory.listen.clone();
    settings.agent.static_max = ByteSize(1 << 20).into();
    // One entry, which is not to be had while it is being read: what is asked for meanwhile cannot be kept.
    settings.agent.cache = ByteSize(ENTRY as u64).into();
    let agent = Daemon::agent(&settings).unwrap();
    let at = settings.agent.listen[0].clone();

    let outboard = Outboard::at(settings.memory.listen[0].clone());
    let options = FarOptions {
        threads: Some(4),
        ahead: 0,
        ..FarOptions::default().with_buffer(BufferSize::Bytes(8 * CHUNK))
    };
    let far = outboard.with_agent(at.clone()).far_with(options).unwrap();
    let options = RegionOptions { path: Path::Agent, cache: CacheMode::Static, ..RegionOptions::default() };
    let bytes = far.allocate_with::<u8>(16 * ENTRY, &options).unwrap().freeze().unwrap();
    assert!(far.wait_for_agent(PATIENCE));
    let deadline = Instant::now() + PATIENCE;
    while counted(&at).1 == 0 {
        assert!(Instant::now() < deadline, "everything could be kept: {:?}", far.stats());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let bytes = &bytes;
                scope.spawn(move || {
                    for entry in (0..16).map(|entry| (entry + 4 * thread) % 16) {
                        assert_eq!(bytes[entry * ENTRY], 0);
                        assert_eq!(bytes[entry * ENTRY + CHUNK], 0);
                    }
                });
            }
        });
    }
    assert_eq!(far.stats().traffic.by_copy, 0);
    // An agent puts in writing what it did some time after it has done so.
    loop {
        let stats = far.stats();
        let ours = [stats.agent_hits, stats.agent_late + stats.agent_misses];
        let (theirs, _) = counted(&at);
        if ours == theirs {
            assert_eq!(stats.agent_passed, 0, "{stats:?}");
            break;
        }
        assert!(Instant::now() < deadline, "{ours:?} here, {theirs:?} at the agent: {stats:?}");
    }
    drop((bytes, far));
    agent.stop("done").unwrap();
    memory.stop("done").unwrap();
}
