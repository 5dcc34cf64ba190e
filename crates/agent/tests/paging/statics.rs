//! Whole regions in the agent.

use outboard_settings::ByteSize;
use outboard_wire::Rights;
use outboard_wire::paging::{CacheMode, Reply, Source, Status};

use crate::support::{Cluster, attach, filled, pattern, settings};

#[test]
fn a_copy_is_read_without_asking_and_follows_what_is_written_back() {
    for over_tcp in [false, true] {
        let cluster = if over_tcp { Cluster::over_tcp(settings()) } else { Cluster::new(settings()) };
        let (mut server, region, open, bytes) = filled(&cluster, (3 << 20) + 4096);
        let mut app = cluster.app();
        let reply = app.attach(attach(&region, CacheMode::Static));
        let Reply::Attached { mode: CacheMode::Static, static_grant: Some(grant) } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!((grant.size, grant.rights), (region.grant.size, Rights::READ));
        let copy = app.open(&grant, Rights::READ);
        assert!(app.read(copy, 0, bytes.len()) == bytes);
        let new = pattern(65536, 5);
        assert_eq!(app.write_back(&region, 131072, &new), Status::Done);
        assert!(app.read(copy, 131072, 65536) == new && server.read(open, 131072, 65536) == new);
        assert_eq!(
            app.fetch(&region.grant, 131072, 65536),
            Ok((Source::Hit, new)),
            "whoever asks is answered"
        );
        let mut other = cluster.app();
        let again = other.attach(attach(&region, CacheMode::Static));
        assert_eq!(again, reply, "one copy is enough for all");
        let view = cluster.await_agent(|view| view.get("cache_static_bytes") == Some(region.grant.size));
        assert!(view.lines.iter().any(|line| line.contains("static")), "{:?}", view.lines);
    }
}

#[test]
fn what_does_not_fit_is_cached_otherwise() {
    let mut settings = settings();
    settings.agent.static_max = ByteSize(1 << 20);
    let cluster = Cluster::new(settings);
    let (_server, region, _, bytes) = filled(&cluster, 2 << 20);
    let mut app = cluster.app();
    let reply = app.attach(attach(&region, CacheMode::Static));
    assert_eq!(reply, Reply::Attached { mode: CacheMode::Dynamic, static_grant: None });
    assert_eq!(app.fetch(&region.grant, 0, 4096).unwrap().1, bytes[..4096]);
    let (_other, small, _, _) = filled(&cluster, 1 << 20);
    let reply = app.attach(attach(&small, CacheMode::Static));
    assert!(matches!(reply, Reply::Attached { static_grant: Some(_), .. }), "{reply:?}");
    app.detach(&small.grant);
    let reply = app.attach(attach(&small, CacheMode::Static));
    assert!(
        matches!(reply, Reply::Attached { static_grant: Some(_), .. }),
        "the room was given back: {reply:?}"
    );
}
