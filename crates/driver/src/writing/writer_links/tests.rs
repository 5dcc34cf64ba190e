//! The messages to a server of a writer that it refuses.

use std::time::{Duration, Instant};

use outboard_link::memory::Segment;
use outboard_link::shm::{self, ShmConfig, ShmLink, ShmListener};
use outboard_link::{Address, Disposition, Export, Exports, Identity, Link};
use outboard_wire::writing::{ATTACH, AttachWriter, Leave, REFUSED, WriterId};
use outboard_wire::{FrameHead, Generation, RegionId, RegionKey, Rights, Role};

use super::*;

/// How long anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn identity(name: &str) -> Identity {
    Identity::new(Role::Tool, name)
}

fn accept(listener: &ShmListener, clock: Clock) -> ShmLink {
    let mut accepting = loop {
        if let Some(accepting) = listener.accept(clock.now()).unwrap() {
            break accepting;
        }
    };
    loop {
        if let Some(link) = accepting.poll(clock.now()).unwrap() {
            return link;
        }
    }
}

/// Refuses every writer that attaches, until the link ends. Returns their names, in order.
fn refuse_all(mut link: ShmLink, clock: Clock) -> Vec<WriterId> {
    let mut attached = Vec::new();
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "the writer never leaves");
        let mut refusals = Vec::new();
        let progressed = link.progress(clock.now());
        let received = link.receive(64, |frame| {
            if frame.head.kind == ATTACH {
                let AttachWriter { writer, attempt, .. } =
                    AttachWriter::decode(&frame.payload.to_vec()).unwrap();
                attached.push(writer);
                refusals.push(Leave { writer, attempt });
            }
            Disposition::Taken
        });
        for refusal in refusals {
            // A writer that has left hears no answer.
            let _ = link.send(FrameHead::new(REFUSED), &refusal.encode());
        }
        if progressed.and(received).and_then(|_| link.flush()).is_err() {
            return attached;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_region_that_is_opened_while_the_writer_is_refused_does_not_attach_it() {
    let address = Address::Abstract(format!("outboard-refused-{}", std::process::id()));
    let (exports, key) = (Exports::new(), RegionKey([7; 16]));
    let grants = [1, 2].map(|number| {
        let export = Export {
            region: RegionId(number),
            generation: Generation(1),
            memory: Segment::create(c"refused", 4096).unwrap().into(),
            keys: vec![(key, Rights::READ.and(Rights::WRITE))],
        };
        let grant = export.grant(0).unwrap();
        exports.add(export);
        grant
    });
    let listener = ShmListener::bind(&address, identity("server"), exports, ShmConfig::default()).unwrap();
    let clock = Waiter::new().clock;
    std::thread::scope(|scope| {
        let server = scope.spawn(|| refuse_all(accept(&listener, clock), clock));
        let link = shm::connect(&address, identity("writer"), Exports::new(), ShmConfig::default()).unwrap();
        let mut writer = WriterLinks::new(link, None::<ShmLink>, WriterConfig::default());
        let until = Instant::now() + PATIENCE;
        while !writer.initiator().is_stranded() {
            assert!(Instant::now() < until, "the refusal is never heard");
            writer.turn();
        }
        for grant in &grants {
            writer.open(grant, PATIENCE).unwrap();
        }
        writer.close();
        let attached = server.join().unwrap();
        let first = attached[0];
        assert_eq!(attached.into_iter().filter(|writer| *writer == first).count(), 1);
    });
}
