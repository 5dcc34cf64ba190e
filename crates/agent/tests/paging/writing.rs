//! Bytes that are written back through the agent.

use outboard_wire::paging::{CacheMode, FetchSource, PagingReply, PagingStatus};

use crate::support::{Cluster, attach, await_some, filled, pattern, settings};

#[test]
fn what_is_acknowledged_is_at_the_server_and_in_the_cache() {
    for mode in [CacheMode::Off, CacheMode::Dynamic, CacheMode::Auto] {
        let cluster = Cluster::new(settings());
        let (mut server, region, open, bytes) = filled(&cluster, 1 << 20);
        let mut app = cluster.app();
        app.attach(attach(&region, mode));
        assert_eq!(app.fetch(&region.grant, 65536, 65536).unwrap().1, bytes[65536..131072]);
        let new = pattern(65536, 99);
        assert_eq!(app.write_back(&region, 65536, &new), PagingStatus::Done);
        assert_eq!(server.read(open, 65536, 65536), new);
        let (source, fetched) = app.fetch(&region.grant, 65536, 65536).unwrap();
        assert!(fetched == new);
        assert_eq!(source == FetchSource::Hit, mode == CacheMode::Dynamic, "{mode:?}: {source:?}");
        assert_eq!(app.write_back(&region, 65536 + 4096, &[5; 100]), PagingStatus::Done, "a part of a piece");
        let fetched = app.fetch(&region.grant, 65536, 65536).unwrap().1;
        assert_eq!(fetched[4096..4196], [5; 100]);
        assert!(fetched[..4096] == new[..4096] && fetched[4196..] == new[4196..]);
    }
}

#[test]
fn neighbours_go_to_the_server_together_and_are_acknowledged_one_by_one() {
    let mut settings = settings();
    // One after the other, so that some wait while the first is under way.
    settings.agent.forwarding = outboard_settings::ForwardingChoice::Batched;
    let cluster = Cluster::over_tcp(settings);
    let (mut server, region, open, _) = filled(&cluster, 1 << 20);
    let mut app = cluster.app();
    app.attach(attach(&region, CacheMode::Off));
    let (each, mut count) = (200, 0);
    // Where all share one processor, each may be under way and back before the next comes.
    await_some(|| {
        let begin = |index| app.begin_write_back(&region, index * 4096, &[index as u8; 4096]);
        let mut tags: Vec<u32> = (0..each).map(begin).collect();
        while !tags.is_empty() {
            let (tag, reply, _) = app.reply();
            assert!(matches!(reply, PagingReply::Written { status: PagingStatus::Done, .. }), "{reply:?}");
            tags.remove(tags.iter().position(|waiting| *waiting == tag).expect("once each"));
        }
        for index in 0..each {
            assert_eq!(server.read(open, index * 4096, 4096), vec![index as u8; 4096]);
        }
        count += each;
        let view = cluster.await_agent(|view| view.get("write_backs_total") == Some(count));
        (view.get("write_back_frames_total") < Some(count)).then_some(())
    });
}

#[test]
fn what_cannot_be_written_is_said_so() {
    let cluster = Cluster::new(settings());
    let (mut server, region, open, bytes) = filled(&cluster, 1 << 20);
    let mut app = cluster.app();
    assert_eq!(app.write_back(&region, 0, &[1; 64]), PagingStatus::NotOpen);
    app.attach(attach(&region, CacheMode::Dynamic));
    assert_eq!(app.fetch(&region.grant, 0, 65536).unwrap().1, bytes[..65536]);
    assert_eq!(app.write_back(&region, (1 << 20) - 63, &[1; 64]), PagingStatus::OutOfBounds);
    let mut stale = region.clone();
    stale.epoch = 0;
    assert_eq!(app.write_back(&stale, 0, &[1; 64]), PagingStatus::StaleEpoch);
    let mut wrong = region.clone();
    wrong.grant.key.0[3] ^= 1;
    assert_eq!(app.write_back(&wrong, 0, &[1; 64]), PagingStatus::NotOpen);
    // What was refused is in neither place.
    assert_eq!(server.read(open, 0, 64), bytes[..64]);
    assert_eq!(app.fetch(&region.grant, 0, 65536).unwrap().1, bytes[..65536]);
}
