//! What happens when an application, the agent or the memory server goes.

use outboard_agent::Daemon;
use outboard_wire::paging::{AttachRefusal, CacheMode, PagingReply, PagingStatus};

use crate::support::{Cluster, attach, await_some, filled, settings};

#[test]
fn a_lost_server_is_said_at_once_and_a_new_one_is_another() {
    let mut cluster = Cluster::new(settings());
    let (server, region, _, bytes) = filled(&cluster, 1 << 20);
    let mut app = cluster.app();
    app.attach(attach(&region, CacheMode::Dynamic));
    assert_eq!(app.fetch(&region.grant, 0, 4096).unwrap().1, bytes[..4096]);
    drop(server);
    cluster.memory.take().unwrap().stop("test").unwrap();
    // What was begun before the agent noticed may still be answered.
    await_some(|| (app.fetch(&region.grant, 65536, 4096) == Err(PagingStatus::Unavailable)).then_some(()));
    assert_eq!(app.write_back(&region, 0, &[1; 64]), PagingStatus::Unavailable);
    let reply = app.attach(attach(&region, CacheMode::Dynamic));
    assert!(matches!(reply, PagingReply::Refused { reason: AttachRefusal::NoServer, .. }), "{reply:?}");
    cluster.memory = Some(Daemon::memory(&cluster.settings).unwrap());
    // In this order: until the new one was met, the number may still be that of the old one.
    cluster.await_agent(|view| view.get("memory_servers_restarted_total") == Some(1));
    cluster.await_agent(|view| view.get("memory_servers_connected") == Some(1));
    assert_eq!(app.fetch(&region.grant, 0, 4096), Err(PagingStatus::Unavailable), "its bytes are gone");
    let (_server, region, _, bytes) = filled(&cluster, 1 << 20);
    assert!(matches!(app.attach(attach(&region, CacheMode::Dynamic)), PagingReply::Attached { .. }));
    assert_eq!(app.fetch(&region.grant, 0, 4096).unwrap().1, bytes[..4096]);
}

#[test]
fn an_application_that_goes_leaves_nothing_behind() {
    let cluster = Cluster::new(settings());
    let (_server, region, _, _) = filled(&cluster, 2 << 20);
    let mut app = cluster.app();
    app.attach(attach(&region, CacheMode::Static));
    app.fetch(&region.grant, 0, 4096).unwrap();
    let mut other = cluster.app();
    other.attach(attach(&region, CacheMode::Dynamic));
    for chunk in 0..100 {
        other.begin_fetch(&region.grant, (chunk % 32) << 16, 65536);
    }
    drop((app, other));
    cluster.await_agent(|view| view.get("clients") == Some(0));
    cluster.await_agent(|view| {
        let left = (view.get("cache_static_bytes"), view.get("cache_used_bytes"), view.lines.len());
        left == (Some(0), Some(0), 0)
    });
    assert_eq!(cluster.app().fetch(&region.grant, 0, 4096), Err(PagingStatus::NotOpen));
}

#[test]
fn an_application_that_does_not_listen_does_not_hold_up_others() {
    let mut settings = settings();
    settings.agent.workers = 1.into();
    let cluster = Cluster::new(settings);
    let (_server, region, _, bytes) = filled(&cluster, 4 << 20);
    let mut deaf = cluster.app();
    deaf.attach(attach(&region, CacheMode::Off));
    for chunk in 0..200 {
        deaf.begin_fetch(&region.grant, (chunk % 64) << 16, 65536);
    }
    let mut app = cluster.app();
    app.attach(attach(&region, CacheMode::Off));
    for chunk in 0..64 {
        let offset = chunk << 16;
        assert!(app.fetch(&region.grant, offset, 65536).unwrap().1 == bytes[offset as usize..][..65536]);
    }
    // It is told what it has missed, and goes on.
    let statuses: Vec<PagingStatus> = (0..200)
        .map(|_| match deaf.reply().1 {
            PagingReply::Fetched { status, .. } => status,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(
        statuses.iter().all(|status| matches!(status, PagingStatus::Done | PagingStatus::Busy)),
        "{statuses:?}"
    );
    assert_eq!(deaf.fetch(&region.grant, 0, 4096).unwrap().1, bytes[..4096]);
}
