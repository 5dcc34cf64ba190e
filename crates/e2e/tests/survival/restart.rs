//! A server that was restarted is not taken for the old one.

use outboard_e2e::{Daemon, Place, connect_memory};
use outboard_link::Identity;
use outboard_wire::{Rights, Role};

#[test]
fn what_was_opened_in_an_earlier_life_opens_nothing_in_the_next() {
    let place = Place::new();
    let at = place.socket();
    for by_tcp in [false, true] {
        let door = |daemon: &Daemon| if by_tcp { daemon.remote().clone() } else { daemon.local().clone() };
        let first = Daemon::memory(&place, &at, &[]);
        let mut before = connect_memory(&door(&first));
        let old = before.reserve(4096, None).unwrap();
        let old_named = before.reserve(4096, Some("kept")).unwrap();
        before.write(&old, 0, b"the old life").unwrap();
        first.process.kill();
        let error = before.read(&old, 0, &mut [0; 8]).unwrap_err().to_string();
        assert!(error.contains("lost memory server “proof-memory”"), "{error}");

        let second = Daemon::memory(&place, &at, &[]);
        let mut after = connect_memory(&door(&second));
        assert_ne!(before.client().peer().incarnation(), after.client().peer().incarnation());
        let both = Rights::READ.and(Rights::WRITE);
        let error = after.open("kept", both).unwrap_err().to_string();
        assert!(error.contains("no region is named “kept”"), "{error}");
        // The new regions have the places and the numbers that the old ones had.
        let new = [after.reserve(4096, None).unwrap(), after.reserve(4096, Some("kept")).unwrap()];
        assert_eq!(new[0].descriptor().grant.region, old.descriptor().grant.region);
        after.write(&new[0], 0, b"the new life").unwrap();
        for old in [&old, &old_named] {
            assert_ne!(old.descriptor().extents[0].incarnation, new[0].descriptor().extents[0].incarnation);
            let error = after.client().open(&old.descriptor().grant, both).unwrap_err().to_string();
            assert!(error.contains("unknown region, stale generation or wrong key"), "{error}");
            for error in [
                after.read(old, 0, &mut [0; 8]).unwrap_err(),
                after.write(old, 0, b"lost").unwrap_err(),
                after.fetch_add(old, 0, 1).map(drop).unwrap_err(),
            ] {
                assert!(error.to_string().contains("the region is not open"), "{error}");
            }
        }
        let mut read = [0; 12];
        after.read(&new[0], 0, &mut read).unwrap();
        assert_eq!(&read, b"the new life");
        second.end();
    }
    place.assert_nothing_left();
}

/// Two connections of one process to one server are as strange to each other as two lives.
#[test]
fn a_region_opened_on_one_connection_is_not_open_on_another() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    for at in [memory.local(), memory.remote()] {
        let (mut one, mut other) = (connect_memory(at), connect_memory(at));
        let mine = one.reserve(4096, None).unwrap();
        let yours = other.reserve(4096, None).unwrap();
        one.write(&mine, 0, b"mine").unwrap();
        let error = other.read(&mine, 0, &mut [0; 4]).unwrap_err().to_string();
        assert!(error.contains("the region is not open"), "{error}");
        other.write(&yours, 0, b"yours").unwrap();
    }
    assert_ne!(Identity::new(Role::Tool, "a").incarnation, Identity::new(Role::Tool, "a").incarnation);
    memory.end();
}
