//! Processes that lose a memory server and go on: they are told, and read and write what is here.

use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::ThreadId;
use std::time::Duration;

use outboard::{
    Address, Advice, FarError, FarLoss, FarLosses, FarMapping, FarMemory, LossReason, OnLoss, Path,
    RegionOptions,
};
use outboard_e2e::{Daemon, PATIENCE, Place};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::{FarSetup, connect, options, words};

const CHUNK: usize = 4096;
const CHUNKS: usize = 64;
const SEATS: usize = 32;
const SHORT: Duration = Duration::from_millis(200);
const NONE: Duration = Duration::ZERO;

pub(super) fn serve(place: &Place, at: &str) -> Daemon {
    // How long its peers on tcp wait for a sign of life.
    Daemon::memory(place, at, &["--link-deadline", "400ms", "--link-heartbeat", "50ms"])
}

fn far_options(server: &Address) -> FarSetup {
    let mut options = options(server, CHUNK, SEATS * CHUNK);
    (options.threads, options.ahead, options.grace) = (Some(2), 0, SHORT);
    options
}

fn region(path: Path, name: Option<&str>) -> RegionOptions {
    RegionOptions { chunk: CHUNK, path, name: name.map(str::to_owned), ..Default::default() }
}

/// What the first word of a chunk is.
fn value(chunk: usize) -> [u8; 8] {
    (1000 + chunk as u64).to_ne_bytes()
}

/// An object all of which is at its server, and of which the first chunks are here.
fn object(far: &FarMemory, path: Path, name: Option<&str>) -> FarMapping {
    let mapping = far.reserve((CHUNKS * CHUNK) as u64, &region(path, name)).unwrap();
    (0..CHUNKS).for_each(|chunk| words(&mapping).write(chunk * CHUNK, &value(chunk)));
    mapping.flush().unwrap();
    (0..8).for_each(|chunk| words(&mapping).touch(chunk * CHUNK));
    mapping
}

/// A chunk that is not here, as far as can be told by looking.
fn absent(mapping: &FarMapping) -> usize {
    let is_absent = |chunk: &usize| mapping.try_read(chunk * CHUNK, &mut [0; 8], NONE).is_err();
    (0..CHUNKS).rev().find(is_absent).expect("not all of it is here")
}

fn is_readable(losses: &FarLosses, patience: Duration) -> bool {
    let time = Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(losses.as_fd(), PollFlags::IN)], Some(&time)).unwrap() > 0
}

/// What a callback was told, and on which thread.
fn listen(far: &FarMemory) -> Receiver<(FarLoss, ThreadId)> {
    let (sender, told) = channel();
    let sender = Mutex::new(sender);
    far.when_lost(move |loss| {
        // Whatever any code may do.
        let copy = loss.clone();
        let id = std::thread::current().id();
        sender.lock().unwrap().send((copy, id)).unwrap();
    })
    .unwrap();
    told
}

#[test]
fn a_loss_is_told_once_whether_anybody_needs_the_server_or_not() {
    let place = Place::new();
    for (by_tcp, has_agent, on_loss) in WAYS {
        let world = World::new(&place, by_tcp, has_agent, on_loss);
        let (named, unnamed) = (world.object(Some("precious")), world.object(None));
        let mut losses = world.far.losses().unwrap();
        let told = listen(&world.far);
        assert!(!is_readable(&losses, NONE) && losses.take().is_none());
        world.daemon.process.signal(Signal::KILL);

        assert!(is_readable(&losses, PATIENCE), "nobody was told");
        let mut count = [0; 8];
        assert_eq!(rustix::io::read(losses.as_fd(), &mut count), Ok(8));
        assert_eq!(u64::from_ne_bytes(count), 1);
        let loss = losses.wait(PATIENCE).expect("it was told of");
        assert_eq!((&loss.name, &loss.address), (&world.daemon.name, &world.server));
        assert_eq!(loss.why, LossReason::Away { grace: SHORT });
        let mut found: Vec<_> =
            loss.objects.iter().map(|lost| (lost.name.as_str(), lost.addresses.start)).collect();
        found.sort_unstable();
        let start = |mapping: &FarMapping| mapping.as_ptr().as_ptr() as usize;
        assert_eq!(found, [("precious", start(&named)), (unnamed.name(), start(&unnamed))]);
        assert!(loss.objects.iter().all(|lost| (lost.part, lost.parts) == (1, 1)));
        let text = loss.to_string();
        assert!(text.contains("“precious”") && text.contains(&world.server.to_string()), "{text}");

        let (by_callback, thread) = told.recv_timeout(PATIENCE).expect("the callback is called");
        assert_eq!(by_callback.to_string(), text);
        assert_ne!(thread, std::thread::current().id());
        // Whoever needs it now finds what everybody knows.
        let error = named.try_read(absent(&named) * CHUNK, &mut [0; 8], PATIENCE).unwrap_err();
        assert!(matches!(error, FarError::Lost { .. }), "{error}");
        assert!(told.try_recv().is_err() && losses.take().is_none() && !is_readable(&losses, NONE));
        // Whoever comes late is told too, once.
        let late = listen(&world.far).recv_timeout(PATIENCE).expect("it is told of what was lost before");
        assert_eq!(late.0.to_string(), text);
        drop((named, unnamed, losses));
        world.end();
        assert!(
            matches!(told.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected)),
            "it outlives far memory"
        );
    }
    place.assert_nothing_left();
}

#[test]
fn a_server_that_was_started_anew_is_one_loss_of_all_that_it_had() {
    let place = Place::new();
    let at = place.socket();
    let first = serve(&place, &at);
    let far = connect(&far_options(first.local()).with(|options| options.grace = Duration::from_secs(600)));
    let objects: Vec<_> = (0..5).map(|_| object(&far, Path::Direct, None)).collect();
    let mut losses = far.losses().unwrap();
    first.process.kill();
    let second = serve(&place, &at);
    let loss = losses.wait(PATIENCE).expect("it is told of");
    assert_eq!((loss.why, loss.objects.len()), (LossReason::StartedAnew, objects.len()));
    // What comes after is as good as ever, and lost by itself.
    let fresh = object(&far, Path::Direct, Some("fresh"));
    assert!(losses.take().is_none());
    fresh.try_read(0, &mut vec![0; CHUNKS * CHUNK], PATIENCE).unwrap();
    second.process.kill();
    let third = serve(&place, &at);
    let loss = losses.wait(PATIENCE).expect("it is told of");
    assert_eq!(loss.objects.iter().map(|lost| lost.name.as_str()).collect::<Vec<_>>(), ["fresh"]);
    drop((objects, fresh, losses, far));
    third.end();
    place.assert_nothing_left();
}

/// Reads all of an object, chunk by chunk, without waiting. Returns which chunks are here; those are right.
fn here(mapping: &FarMapping) -> Vec<usize> {
    let is_here = |chunk: &usize| {
        let mut found = [0; 8];
        match mapping.try_read(chunk * CHUNK, &mut found, NONE) {
            Ok(()) => {
                assert_eq!(found, value(*chunk), "chunk {chunk}");
                true
            }
            Err(FarError::Lost { .. } | FarError::Deadline { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    };
    (0..CHUNKS).filter(is_here).collect()
}

/// A memory server, far memory there, and an agent in between if there is to be one.
struct World {
    daemon: Daemon,
    agent: Option<Daemon>,
    server: Address,
    far: FarMemory,
    path: Path,
}

impl World {
    fn new(place: &Place, by_tcp: bool, has_agent: bool, on_loss: OnLoss) -> Self {
        let daemon = serve(place, &place.socket());
        let agent = has_agent.then(|| {
            let mut agent = Daemon::agent(place, &place.socket(), &daemon.local().to_string(), &[]);
            agent.await_number("memory_servers_connected", 1);
            agent
        });
        let door = |daemon: &Daemon| if by_tcp { daemon.remote().clone() } else { daemon.local().clone() };
        let server = door(&daemon);
        let options = far_options(&server).with_agent(agent.as_ref().map(door));
        let far = connect(&options.with(|options| options.on_loss = on_loss));
        let path = if has_agent { Path::Agent } else { Path::Direct };
        Self { daemon, agent, server, far, path }
    }

    fn object(&self, name: Option<&str>) -> FarMapping {
        let mapping = object(&self.far, self.path, name);
        assert_eq!(self.far.wait_for_agent(PATIENCE), self.agent.is_some());
        mapping
    }

    fn end(self) {
        drop(self.far);
        self.daemon.process.exit();
        if let Some(agent) = self.agent {
            agent.end();
        }
    }
}

const WAYS: [(bool, bool, OnLoss); 4] = [
    (false, false, OnLoss::Signal),
    (true, false, OnLoss::Exit),
    (false, true, OnLoss::Exit),
    (true, true, OnLoss::Signal),
];

#[test]
fn what_is_here_outlives_its_server() {
    let place = Place::new();
    for (by_tcp, has_agent, on_loss) in WAYS {
        let world = World::new(&place, by_tcp, has_agent, on_loss);
        let mut mapping = world.object(None);
        let mut losses = world.far.losses().unwrap();
        // What is only here: in its place, and set aside.
        (0..4).for_each(|chunk| words(&mapping).write(chunk * CHUNK + 8, &value(chunk)));
        world.daemon.process.signal(Signal::KILL);
        losses.wait(PATIENCE).expect("it is told of");
        mapping.advise(0..2 * CHUNK, Advice::DontNeed).unwrap();
        let kept = here(&mapping);
        assert!((0..8).all(|chunk| kept.contains(&chunk)) && kept.len() < CHUNKS, "{kept:?}");
        for chunk in 0..4 {
            let mut both = [0; 16];
            mapping.try_read(chunk * CHUNK, &mut both, NONE).unwrap();
            assert_eq!(both, [value(chunk), value(chunk)].concat()[..]);
            // It can be changed, though nobody else will ever see that.
            mapping.try_write(chunk * CHUNK + 16, &[chunk as u8; 100], NONE).unwrap();
            let mut bytes = [0; 100];
            mapping.try_read(chunk * CHUNK + 16, &mut bytes, NONE).unwrap();
            assert_eq!(bytes, [chunk as u8; 100]);
        }
        assert_eq!(here(&mapping), kept, "reading costs nothing its place");
        for patience in [NONE, PATIENCE, Duration::MAX] {
            let lost = absent(&mapping) * CHUNK;
            let error = mapping.try_write(lost, &[1], patience).unwrap_err();
            let FarError::Lost { server, start, end, done, why, .. } = &error else { panic!("{error}") };
            assert_eq!((server, *start, *end, *done), (&world.server, lost, lost + 1, 0));
            assert_eq!(*why, LossReason::Away { grace: SHORT });
            assert!(error.to_string().contains(&world.server.to_string()), "{error}");
        }
        let error = mapping.flush().unwrap_err();
        assert!(matches!(&error, FarError::NotFlushed { .. }), "{error}");
        drop((mapping, losses));
        world.end();
    }
    place.assert_nothing_left();
}

#[test]
fn spans_end_where_they_must() {
    let place = Place::new();
    for (by_tcp, has_agent, on_loss) in WAYS {
        let world = World::new(&place, by_tcp, has_agent, on_loss);
        let mut mapping = world.object(None);
        // More than there is room for, from the middle of a chunk to the middle of another.
        let mut bytes = vec![1; (CHUNKS - 1) * CHUNK];
        mapping.try_read(100, &mut bytes, PATIENCE).unwrap();
        let mut expected = vec![0; bytes.len()];
        (1..CHUNKS).for_each(|chunk| expected[chunk * CHUNK - 100..][..8].copy_from_slice(&value(chunk)));
        assert!(bytes == expected);
        let patterned: Vec<u8> = (0..bytes.len()).map(|at| (at % 251) as u8).collect();
        mapping.try_write(77, &patterned, PATIENCE).unwrap();
        mapping.flush().unwrap();
        mapping.try_read(77, &mut bytes, PATIENCE).unwrap();
        assert!(bytes == patterned);
        // Nothing is nothing, wherever it is.
        let size = mapping.len();
        for at in [0, 5, size] {
            mapping.try_read(at, &mut [], NONE).unwrap();
            mapping.try_write(at, &[], NONE).unwrap();
        }
        for (start, len) in [(size, 1), (size + 1, 0), (0, size + 1), (usize::MAX, 2)] {
            let outside = |result: Result<(), FarError>| matches!(result, Err(FarError::OutOfBounds { start: at, .. }) if at == start);
            assert!(outside(mapping.try_read(start, &mut vec![0; len], PATIENCE)));
            assert!(outside(mapping.try_write(start, &vec![0; len], PATIENCE)));
        }
        let mut frozen = mapping.freeze().unwrap();
        let error = frozen.try_write(0, &[1], PATIENCE).unwrap_err();
        assert!(matches!(error, FarError::ReadOnly { .. }), "{error}");
        frozen.try_read(77, &mut bytes, PATIENCE).unwrap();
        assert!(bytes == patterned);
        world.daemon.process.signal(Signal::KILL);
        // A span that is here in part is copied up to what is not.
        let mut losses = world.far.losses().unwrap();
        losses.wait(PATIENCE).expect("it is told of");
        let mut bytes = vec![0xee; size];
        let error = frozen.try_read(0, &mut bytes, PATIENCE).unwrap_err();
        let FarError::Lost { start, done, .. } = error else { panic!("{error}") };
        assert_eq!(start, done);
        assert!(bytes[77.min(done)..done] == patterned[..done.saturating_sub(77)]);
        assert!(bytes[done..].iter().all(|byte| *byte == 0xee));
        frozen.try_read(size, &mut [], NONE).unwrap();
        drop((frozen, losses));
        world.end();
    }
    place.assert_nothing_left();
}

#[test]
fn elements_are_tried_like_bytes() {
    let place = Place::new();
    let daemon = serve(&place, &place.socket());
    let far = connect(&far_options(daemon.remote()));
    let mut array = far.allocate_with::<[u32; 3]>(50_000, &region(Path::Direct, None)).unwrap();
    let (mut some, zeros) = ([[7; 3]; 5], [[0; 3]; 5]);
    array.try_write(49_995, &some, PATIENCE).unwrap();
    assert_eq!(array[49_995..], some);
    array.try_read(49_990, &mut some, PATIENCE).unwrap();
    assert_eq!(some, zeros);
    for (start, len) in [(49_996, 5), (50_000, 1), (usize::MAX, 1), (usize::MAX / 2, 0)] {
        let error = array.try_read(start, &mut some[..len], PATIENCE).unwrap_err();
        assert!(matches!(error, FarError::OutOfBounds { size: 600_000, .. }), "{error}");
        assert!(array.try_write(start, &some[..len], PATIENCE).is_err());
    }
    array.try_read(50_000, &mut [], NONE).unwrap();
    let frozen = array.freeze().unwrap();
    frozen.try_read(49_995, &mut some, PATIENCE).unwrap();
    assert_eq!(some, [[7; 3]; 5]);
    let empty = far.allocate_with::<u64>(0, &region(Path::Direct, None)).unwrap();
    empty.try_read(0, &mut [], NONE).unwrap();
    assert!(empty.try_read(0, &mut [0], NONE).is_err());
    drop((frozen, empty, far));
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn a_server_that_is_stopped_is_lost_on_tcp_and_not_missed_on_shm() {
    let place = Place::new();
    for (by_tcp, has_agent, on_loss) in WAYS {
        let world = World::new(&place, by_tcp, has_agent, on_loss);
        let mapping = world.object(None);
        let mut losses = world.far.losses().unwrap();
        world.daemon.process.stop();
        let mut bytes = vec![0; mapping.len()];
        if by_tcp {
            if !has_agent {
                let error = mapping.try_read(0, &mut bytes, Duration::from_millis(1)).unwrap_err();
                assert!(matches!(error, FarError::Deadline { .. }), "{error}");
            }
            let kept = here(&mapping);
            assert!((0..8).all(|chunk| kept.contains(&chunk)), "{kept:?}");
            // An agent that has its memory mapped goes on for as long as nobody gives it up.
            assert_eq!(losses.wait(PATIENCE).expect("it is told of").address, world.server);
            let error = mapping.try_read(absent(&mapping) * CHUNK, &mut [0], PATIENCE).unwrap_err();
            assert!(matches!(error, FarError::Lost { .. }), "{error}");
        } else {
            mapping.try_read(0, &mut bytes, PATIENCE).unwrap();
            (0..CHUNKS).for_each(|chunk| assert_eq!(bytes[chunk * CHUNK..][..8], value(chunk)));
            assert!(losses.take().is_none());
        }
        world.daemon.process.signal(Signal::KILL);
        drop((mapping, losses));
        world.end();
    }
    place.assert_nothing_left();
}

#[test]
fn of_what_is_striped_one_part_is_lost() {
    let place = Place::new();
    for by_tcp in [false, true] {
        let daemons = [0, 1, 2].map(|_| serve(&place, &place.socket()));
        let door = |daemon: &Daemon| if by_tcp { daemon.remote().clone() } else { daemon.local().clone() };
        let [first, second, third] = daemons.each_ref().map(door);
        let options = far_options(&first).with_others(vec![second.clone(), third]);
        let far = connect(&options.with(|options| options.stripe = 4 * CHUNK));
        let mapping = object(&far, Path::Direct, Some("spread"));
        let whole = object(&far, Path::Direct, None);
        let mut losses = far.losses().unwrap();
        daemons[1].process.signal(Signal::KILL);
        let loss = losses.wait(PATIENCE).expect("it is told of");
        assert_eq!((loss.address, loss.objects.len()), (second.clone(), 2));
        let lost = loss.objects.iter().find(|lost| lost.name == "spread").expect("it has a part there");
        assert_eq!((lost.part, lost.parts), (2, 3));
        let is_at_second = |chunk: usize| chunk / 4 % 3 == 1;
        let mut errors = 0;
        for chunk in 0..CHUNKS {
            let mut found = [0; 8];
            match mapping.try_read(chunk * CHUNK, &mut found, PATIENCE) {
                Ok(()) => assert_eq!(found, value(chunk), "chunk {chunk}"),
                Err(FarError::Lost { server, name, .. }) if server == second && name == "spread" => {
                    assert!(is_at_second(chunk), "chunk {chunk}");
                    errors += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(errors > 0, "all of it was here");
        assert!(losses.take().is_none());
        drop((mapping, whole, losses, far));
        let [one, two, three] = daemons;
        two.process.exit();
        one.end();
        three.end();
    }
    place.assert_nothing_left();
}
