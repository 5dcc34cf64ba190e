//! Whole regions in the agent.

use outboard_link::shm::ShmLink;
use outboard_settings::ByteSize;
use outboard_wire::paging::{
    AttachRegion, CacheMode, Fence, FetchSource, PagingReply, PagingRequest, PagingStatus,
};
use outboard_wire::{Grant, Rights};

use crate::support::{App, BOTH, Cluster, attach, filled, pattern, settings};

#[test]
fn a_copy_is_read_without_asking_and_follows_what_is_written_back() {
    for over_tcp in [false, true] {
        let cluster = if over_tcp { Cluster::over_tcp(settings()) } else { Cluster::new(settings()) };
        let (mut server, region, open, bytes) = filled(&cluster, (3 << 20) + 4096);
        let mut app = cluster.app();
        let reply = app.attach(attach(&region, CacheMode::Static));
        let PagingReply::Attached { mode: CacheMode::Static, static_grant: Some(grant) } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!((grant.size, grant.rights), (region.grant.size, Rights::READ));
        let copy = app.open(&grant, Rights::READ);
        assert!(app.read(copy, 0, bytes.len()) == bytes);
        let new = pattern(65536, 5);
        assert_eq!(app.write_back(&region, 131072, &new), PagingStatus::Done);
        assert!(app.read(copy, 131072, 65536) == new && server.read(open, 131072, 65536) == new);
        assert_eq!(
            app.fetch(&region.grant, 131072, 65536),
            Ok((FetchSource::Hit, new)),
            "every request is answered"
        );
        let mut other = cluster.app();
        let again = other.attach(attach(&region, CacheMode::Static));
        assert_eq!(again, reply, "one copy is enough for all");
        cluster.await_agent(|view| {
            view.get("cache_static_bytes") == Some(region.grant.size)
                && view.lines.iter().any(|line| line.contains("static"))
        });
    }
}

#[test]
fn what_does_not_fit_is_cached_otherwise() {
    let mut settings = settings();
    settings.agent.static_max = ByteSize(1 << 20).into();
    let cluster = Cluster::new(settings);
    let (_server, region, _, bytes) = filled(&cluster, 2 << 20);
    let mut app = cluster.app();
    let reply = app.attach(attach(&region, CacheMode::Static));
    assert_eq!(reply, PagingReply::Attached { mode: CacheMode::Dynamic, static_grant: None });
    assert_eq!(app.fetch(&region.grant, 0, 4096).unwrap().1, bytes[..4096]);
    let (_other, small, _, _) = filled(&cluster, 1 << 20);
    let reply = app.attach(attach(&small, CacheMode::Static));
    assert!(matches!(reply, PagingReply::Attached { static_grant: Some(_), .. }), "{reply:?}");
    app.detach(&small.grant);
    let reply = app.attach(attach(&small, CacheMode::Static));
    assert!(
        matches!(reply, PagingReply::Attached { static_grant: Some(_), .. }),
        "the room was given back: {reply:?}"
    );
}

#[test]
fn without_a_cache_a_copy_that_is_gone_leaves_the_way_to_the_server() {
    let mut settings = settings();
    settings.agent.cache = ByteSize(0).into();
    let cluster = Cluster::new(settings);
    let (mut server, region, _, bytes) = filled(&cluster, 1 << 20);
    let mut app = cluster.app();
    let reply = app.attach(attach(&region, CacheMode::Static));
    assert!(matches!(reply, PagingReply::Attached { static_grant: Some(_), .. }), "{reply:?}");
    let Grant { region: id, generation, key, .. } = region.grant;
    server.request(&PagingRequest::Fence(Fence { region: id, generation, key }), &[]);
    assert!(matches!(server.reply().1, PagingReply::Fenced { status: PagingStatus::Done, .. }));
    // The agent learns by its refusal that others may have written.
    assert_eq!(app.write_back(&region, 0, &bytes[..4096]), PagingStatus::StaleEpoch);
    for round in 0..8 {
        for offset in [0, 1 << 16, 7 << 16] {
            let (source, fetched) = app.fetch(&region.grant, offset, 4096).unwrap();
            assert!(fetched == bytes[offset as usize..][..4096], "round {round}: the bytes at {offset}");
            assert_eq!(source, FetchSource::Uncached);
        }
    }
}

/// A region that takes a while to copy.
const LARGE: u64 = 48 << 20;

/// Attaches another region and compares: what the agent has of it is its own, not that of one that had its place.
fn assert_next_is_itself(cluster: &Cluster, app: &mut App<ShmLink>) {
    let (_server, region, _, bytes) = filled(cluster, 1 << 20);
    let reply = app.attach_after(attach(&region, CacheMode::Static));
    let PagingReply::Attached { static_grant: Some(grant), .. } = reply else { panic!("{reply:?}") };
    let copy = app.open(&grant, Rights::READ);
    assert!(app.read(copy, 0, bytes.len()) == bytes, "the copy has other bytes");
    app.detach(&region.grant);
    cluster.await_agent(|view| view.get("cache_static_bytes") == Some(0));
}

#[test]
fn a_region_that_goes_before_it_is_copied_leaves_nothing_to_the_next() {
    for over_tcp in [false, true] {
        let cluster = if over_tcp { Cluster::over_tcp(settings()) } else { Cluster::new(settings()) };
        let mut server = cluster.server();
        let mut app = cluster.app();
        for round in 0..6 {
            let region = server.reserve(LARGE, "");
            app.request(&PagingRequest::Attach(attach(&region, CacheMode::Static)), &[]);
            // Also before the server has opened it for the agent.
            if round % 2 == 0 {
                cluster.await_agent(|view| view.get("cache_static_bytes") > Some(0));
            }
            app.detach(&region.grant);
            assert_next_is_itself(&cluster, &mut app);
        }
        for _ in 0..3 {
            let region = server.reserve(LARGE, "");
            let mut other = cluster.app();
            other.request(&PagingRequest::Attach(attach(&region, CacheMode::Static)), &[]);
            cluster.await_agent(|view| view.get("cache_static_bytes") > Some(0));
            // Who dies, detaches nothing.
            drop(other);
            assert_next_is_itself(&cluster, &mut app);
        }
    }
}

#[test]
fn a_fetch_that_waits_for_a_copy_that_a_new_epoch_replaces_gets_the_new_one() {
    for over_tcp in [false, true] {
        let cluster = if over_tcp { Cluster::over_tcp(settings()) } else { Cluster::new(settings()) };
        let mut server = cluster.server();
        let region = server.reserve(LARGE, "");
        let open = server.open(&region.grant, BOTH);
        let mut first = cluster.app();
        let asked = first.request(&PagingRequest::Attach(attach(&region, CacheMode::Static)), &[]);
        cluster.await_agent(|view| view.get("cache_static_bytes") > Some(0));
        // What is written now, the copy that is being made may have missed.
        let new = pattern(4096, 7);
        server.write(open, 0, &new);
        let grant = region.grant;
        let fence = Fence { region: grant.region, generation: grant.generation, key: grant.key };
        server.request(&PagingRequest::Fence(fence), &[]);
        let (_, PagingReply::Fenced { status: PagingStatus::Done, epoch }, _) = server.reply() else {
            panic!("no fence")
        };
        let mut second = cluster.app();
        let later = AttachRegion { epoch, ..attach(&region, CacheMode::Static) };
        let PagingReply::Attached { static_grant: Some(grant), .. } = second.attach(later) else {
            panic!("no copy")
        };
        let copy = second.open(&grant, Rights::READ);
        assert!(second.read(copy, 0, new.len()) == new);
        let (tag, reply, _) = first.reply();
        assert_eq!(tag, asked);
        assert!(matches!(reply, PagingReply::Attached { .. }), "{reply:?}");
    }
}
