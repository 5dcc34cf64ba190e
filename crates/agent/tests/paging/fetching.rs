//! Bytes through the agent's cache.

use outboard_link::{Link, RemoteMemory};
use outboard_settings::{ByteSize, ForwardingChoice};
use outboard_wire::paging::{CacheMode, FetchSource, PagingReply, PagingStatus};

use crate::support::{App, Cluster, attach, filled, settings};

const CHUNK: u64 = 1 << 16;

fn attached<L: Link + RemoteMemory>(
    app: &mut App<L>,
    region: &outboard_wire::RegionDescriptor,
    mode: CacheMode,
) {
    let reply = app.attach(attach(region, mode));
    assert!(matches!(reply, PagingReply::Attached { mode: given, .. } if given == mode), "{reply:?}");
}

fn scan<L: Link + RemoteMemory>(cluster: &Cluster, app: &mut App<L>, mode: CacheMode) -> Vec<FetchSource> {
    let (_server, region, _, bytes) = filled(cluster, 4 << 20);
    attached(app, &region, mode);
    let mut sources = Vec::new();
    for offset in (0..region.grant.size).step_by(CHUNK as usize) {
        let (source, fetched) = app.fetch(&region.grant, offset, CHUNK as u32).unwrap();
        assert!(fetched == bytes[offset as usize..(offset + CHUNK) as usize], "at {offset}");
        sources.push(source);
    }
    sources
}

#[test]
fn a_scan_is_served_from_what_was_read_ahead() {
    let cluster = Cluster::new(settings());
    let mut app = cluster.app();
    let sources = scan(&cluster, &mut app, CacheMode::Dynamic);
    assert_eq!(sources[0], FetchSource::Miss);
    assert!(sources.iter().all(|source| *source != FetchSource::Uncached), "{sources:?}");
    assert!(sources.contains(&FetchSource::Hit), "{sources:?}");
    cluster.await_agent(|view| {
        view.get("prefetched_bytes_total") > Some(0) && view.get("cache_used_bytes") > Some(0)
    });
    let view = cluster.await_agent(|view| view.get("fetches_hit_total") > Some(0));
    let counted: u64 = ["hit", "late", "missed", "uncached"]
        .map(|what| view.get(&format!("fetches_{what}_total")).unwrap())
        .iter()
        .sum();
    assert!(counted <= 64, "{view:?}");
    let view = cluster.await_agent(|view| !view.lines.is_empty());
    assert!(view.lines[0].contains("(4.0 MiB): dynamic"), "{:?}", view.lines);
}

#[test]
fn a_proxy_and_every_way_of_forwarding_bring_the_same_bytes() {
    for forwarding in [ForwardingChoice::Serial, ForwardingChoice::Batched, ForwardingChoice::Pipelined] {
        let mut settings = settings();
        settings.agent.forwarding = forwarding;
        let cluster = Cluster::new(settings);
        for mode in [CacheMode::Off, CacheMode::Dynamic, CacheMode::Auto] {
            let sources = scan(&cluster, &mut cluster.app(), mode);
            if mode == CacheMode::Off {
                assert!(sources.iter().all(|source| *source == FetchSource::Uncached), "{sources:?}");
            }
        }
    }
}

#[test]
fn tcp_brings_the_same_bytes() {
    let cluster = Cluster::over_tcp(settings());
    for mode in [CacheMode::Off, CacheMode::Dynamic, CacheMode::Auto] {
        scan(&cluster, &mut cluster.tcp_app(), mode);
        scan(&cluster, &mut cluster.app(), mode);
    }
}

#[test]
fn without_a_cache_everything_passes_through() {
    let mut settings = settings();
    settings.agent.cache = ByteSize(0).into();
    let cluster = Cluster::new(settings);
    let (_server, region, _, _) = filled(&cluster, 1 << 20);
    let mut app = cluster.app();
    let reply = app.attach(attach(&region, CacheMode::Dynamic));
    assert_eq!(reply, PagingReply::Attached { mode: CacheMode::Off, static_grant: None });
    assert_eq!(app.fetch(&region.grant, 0, 4096).unwrap().0, FetchSource::Uncached);
}

#[test]
fn applications_share_what_is_cached() {
    let cluster = Cluster::new(settings());
    let (mut server, region, _, bytes) = filled(&cluster, 1 << 20);
    // The writer's links come and go; what it wrote is read by others, on whichever worker.
    let mut apps: Vec<_> = (0..4).map(|_| cluster.app()).collect();
    for app in &mut apps {
        attached(app, &region, CacheMode::Dynamic);
    }
    let mut sources = Vec::new();
    for app in &mut apps {
        let (source, fetched) = app.fetch(&region.grant, 3 * CHUNK, CHUNK as u32).unwrap();
        assert!(fetched == bytes[3 * CHUNK as usize..4 * CHUNK as usize]);
        sources.push(source);
    }
    assert_eq!(sources, [FetchSource::Miss, FetchSource::Hit, FetchSource::Hit, FetchSource::Hit]);
    drop(apps);
    let open = server.open(&region.grant, region.grant.rights);
    assert_eq!(server.read(open, 0, 8), bytes[..8]);
}

#[test]
fn many_fetches_at_once_are_all_answered_once() {
    let cluster = Cluster::new(settings());
    let (_server, region, _, bytes) = filled(&cluster, 4 << 20);
    let mut app = cluster.app();
    attached(&mut app, &region, CacheMode::Dynamic);
    let mut waiting = std::collections::HashMap::new();
    let offsets: Vec<u64> =
        (0..600).map(|index| (index * 7919 * 4096) % (region.grant.size - 65536)).collect();
    let mut next = offsets.iter();
    for _ in 0..offsets.len() {
        while waiting.len() < 300
            && let Some(offset) = next.next()
        {
            let len = 4096 * (1 + (offset / 4096) as u32 % 4);
            waiting.insert(app.begin_fetch(&region.grant, *offset, len), (*offset as usize, len as usize));
        }
        let (tag, reply, fetched) = app.reply();
        let (offset, len) = waiting.remove(&tag).expect("it was asked for");
        assert!(matches!(reply, PagingReply::Fetched { status: PagingStatus::Done, .. }), "{reply:?}");
        assert!(fetched == bytes[offset..offset + len], "at {offset}");
    }
    assert!(waiting.is_empty());
}

#[test]
fn what_cannot_be_fetched_is_said_so() {
    let cluster = Cluster::new(settings());
    let (_server, region, _, _) = filled(&cluster, 1 << 20);
    let mut app = cluster.app();
    assert_eq!(app.fetch(&region.grant, 0, 4096), Err(PagingStatus::NotOpen));
    attached(&mut app, &region, CacheMode::Dynamic);
    assert_eq!(app.fetch(&region.grant, (1 << 20) - 4095, 4096), Err(PagingStatus::OutOfBounds));
    assert_eq!(app.fetch(&region.grant, u64::MAX - 4, 4096), Err(PagingStatus::OutOfBounds));
    assert_eq!(app.fetch(&region.grant, 0, (256 << 10) + 1), Err(PagingStatus::Malformed));
    let max = app.link.capabilities().max_payload as u32 - 16;
    assert_eq!(app.fetch(&region.grant, 0, max + 1), Err(PagingStatus::Malformed), "longer than a frame");
    assert_eq!(app.fetch(&region.grant, 0, max).unwrap().1.len(), max as usize);
    app.detach(&region.grant);
    assert_eq!(app.fetch(&region.grant, 0, 4096), Err(PagingStatus::NotOpen));
}
