//! Who may have what.

use outboard_wire::control::{ControlAnswer, Question, RegionSharing};
use outboard_wire::paging::{AttachRefusal, CacheMode, PagingReply, PagingStatus};
use outboard_wire::{Incarnation, RegionKey, Rights, Text};

use crate::support::{App, BOTH, Cluster, attach, filled, settings};

fn refused(reply: PagingReply) -> AttachRefusal {
    match reply {
        PagingReply::Refused { reason, detail } => {
            assert!(!detail.as_str().is_empty());
            reason
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_grant_of_more_bytes_than_there_are_costs_no_client_the_server() {
    for cluster in [Cluster::new(settings()), Cluster::over_tcp(settings())] {
        let (_server, region, _, bytes) = filled(&cluster, 1 << 20);
        let good = attach(&region, CacheMode::Off);
        let mut more = good;
        more.grant.size += 4096;
        // An agent that has lost its server would say so.
        let mut liar = cluster.app();
        assert_eq!(refused(liar.attach(more)), AttachRefusal::BadRequest);
        let mut app = cluster.app();
        assert!(matches!(app.attach(good), PagingReply::Attached { .. }));
        assert_eq!(refused(liar.attach(more)), AttachRefusal::BadRequest, "also while others have it");
        assert_eq!(app.fetch(&region.grant, 0, 4096).unwrap().1, bytes[..4096]);
    }
}

#[test]
fn the_server_decides_about_rights() {
    let cluster = Cluster::new(settings());
    let (_server, region, _, _) = filled(&cluster, 1 << 20);
    let good = attach(&region, CacheMode::Dynamic);
    let mut app = cluster.app();
    let mut wrong = good;
    wrong.grant.key = RegionKey([9; 16]);
    assert_eq!(refused(app.attach(wrong)), AttachRefusal::NotOpen);
    // Also once it is cached, and on whichever worker.
    let mut owner = cluster.app();
    assert!(matches!(owner.attach(good), PagingReply::Attached { .. }));
    owner.fetch(&region.grant, 0, 4096).unwrap();
    for _ in 0..2 {
        let mut stranger = cluster.app();
        assert_eq!(refused(stranger.attach(wrong)), AttachRefusal::NotOpen);
        assert_eq!(stranger.fetch(&wrong.grant, 0, 4096), Err(PagingStatus::NotOpen));
    }
    let mut old = good;
    old.grant.generation.0 += 1;
    assert_eq!(refused(app.attach(old)), AttachRefusal::NotOpen);
    let mut elsewhere = good;
    elsewhere.server = Incarnation(good.server.0 ^ 1);
    assert_eq!(refused(app.attach(elsewhere)), AttachRefusal::NoServer);
    let nothing = outboard_wire::paging::AttachRegion { rights: Rights::NONE, ..good };
    assert_eq!(refused(app.attach(nothing)), AttachRefusal::BadRequest);
    let smaller = outboard_wire::paging::AttachRegion {
        grant: outboard_wire::Grant { size: 4096, ..good.grant },
        ..good
    };
    assert_eq!(refused(app.attach(smaller)), AttachRefusal::BadRequest, "others have it with another size");
}

#[test]
fn a_reader_cannot_write() {
    let cluster = Cluster::new(settings());
    let mut writer = cluster.server();
    let name = "shared-to-read";
    let region = writer.reserve(1 << 20, name);
    drop(writer);
    let opened = crate::support::await_some(|| {
        let question = Question::OpenNamed {
            name: Text::new(name),
            rights: Rights::READ,
            sharing: RegionSharing::Leased,
        };
        match cluster.server().ask(&question) {
            ControlAnswer::Region(descriptor) => Some(descriptor),
            _ => None,
        }
    });
    assert!(!opened.grant.rights.includes(Rights::WRITE));
    let mut app = cluster.app();
    let mut greedy = attach(&opened, CacheMode::Dynamic);
    greedy.rights = BOTH;
    assert_eq!(refused(app.attach(greedy)), AttachRefusal::NoRight);
    assert!(matches!(app.attach(attach(&opened, CacheMode::Dynamic)), PagingReply::Attached { .. }));
    assert_eq!(app.write_back(&opened, 0, &[1; 64]), PagingStatus::NoRight);
    let forged = outboard_wire::RegionDescriptor { grant: region.grant, ..opened };
    assert_eq!(app.write_back(&forged, 0, &[1; 64]), PagingStatus::NoRight, "not even with the writer's key");
}

#[test]
fn nonsense_is_answered_and_does_no_harm() {
    let cluster = Cluster::new(settings());
    let (_server, region, _, bytes) = filled(&cluster, 1 << 20);
    let mut app: App<_> = cluster.app();
    for kind in 0..64 {
        let kind = outboard_wire::FrameKind::new(outboard_wire::Room::Paging, kind);
        for len in [0, 16, 31, 48, 64, 200] {
            app.send(outboard_wire::FrameHead::new(kind), &[&vec![0xff; len]]);
        }
    }
    assert!(matches!(app.attach_after(attach(&region, CacheMode::Dynamic)), PagingReply::Attached { .. }));
    assert_eq!(app.fetch(&region.grant, 0, 4096).unwrap().1, bytes[..4096]);
}

#[test]
fn a_region_that_is_attached_anew_in_another_epoch_is_fetched_anew() {
    let cluster = Cluster::new(settings());
    let (mut server, region, open, bytes) = filled(&cluster, 1 << 20);
    let mut app = cluster.app();
    app.attach(attach(&region, CacheMode::Dynamic));
    assert_eq!(app.fetch(&region.grant, 0, 4096).unwrap().1, bytes[..4096]);
    // By its own way, past the agent.
    server.write(open, 0, &[7; 4096]);
    let mut later = attach(&region, CacheMode::Dynamic);
    later.epoch += 1;
    assert!(matches!(app.attach(later), PagingReply::Attached { .. }));
    assert_eq!(app.fetch(&region.grant, 0, 4096).unwrap().1, [7; 4096]);
    assert_eq!(refused(app.attach(attach(&region, CacheMode::Dynamic))), AttachRefusal::BadRequest);
}
