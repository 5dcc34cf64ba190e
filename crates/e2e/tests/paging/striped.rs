//! Objects that are striped over several memory servers.

use std::time::Duration;

use outboard::{Address, Advice, CacheMode, FarError, Path, RegionOptions};

use super::mixture::{Run, play};
use super::{FarSetup, connect, options, words};
use outboard_e2e::{Daemon, Place, await_state, seed};

const CHUNK: usize = 4096;
/// Of which an object has many.
const STRIPE: usize = 4 * CHUNK;

fn servers(place: &Place, count: usize) -> Vec<Daemon> {
    (0..count).map(|_| Daemon::memory(place, &place.socket(), &[])).collect()
}

/// Far memory over all of these, in stripes of some chunks.
fn striped(servers: &[&Address], chunk: usize, buffer: usize) -> FarSetup {
    let others = servers[1..].iter().map(|address| (*address).clone()).collect();
    options(servers[0], chunk, buffer).with_others(others).with(|options| options.stripe = 4 * chunk)
}

fn region(name: &str) -> RegionOptions {
    RegionOptions { chunk: CHUNK, path: Path::Direct, name: Some(name.to_owned()), ..Default::default() }
}

fn end(place: &Place, daemons: Vec<Daemon>) {
    for daemon in daemons {
        daemon.end();
    }
    place.assert_nothing_left();
}

#[test]
fn everything_is_kept_whatever_links_lead_to_its_servers() {
    let place = Place::new();
    let daemons = servers(&place, 3);
    let (local, remote) = (daemons.iter().map(Daemon::local), daemons.iter().map(Daemon::remote));
    let (local, remote): (Vec<_>, Vec<_>) = (local.collect(), remote.collect());
    let mixed = [local[0], remote[1], local[2]];
    let seed = seed();
    let runs = [(&local[..2], CHUNK, 2), (&remote[1..], 65_536, 1), (&mixed[..], CHUNK, 1)];
    for (number, (servers, chunk, pagers)) in (0..).zip(runs) {
        let run = Run::new(chunk, pagers);
        let options = striped(servers, chunk, run.buffer());
        play(&options.with(|options| options.threads = Some(pagers)), &run, seed + number, |_| {});
    }
    end(&place, daemons);
}

#[test]
fn an_agent_that_dies_in_the_middle_costs_nothing() {
    let place = Place::new();
    let daemons = servers(&place, 2);
    let memory = [daemons[0].local(), daemons[1].local()];
    let at = place.socket();
    let known = format!("{},{}", memory[0], memory[1]);
    let start = || {
        let mut agent = Daemon::agent(&place, &at, &known, &[]);
        agent.await_number("memory_servers_connected", 2);
        agent
    };
    let seed = seed();
    let modes =
        [(Path::Agent, CacheMode::Dynamic), (Path::Agent, CacheMode::Static), (Path::Auto, CacheMode::Off)];
    for (number, (path, cache)) in (0..).zip(modes) {
        let mut agent = Some(start());
        let run = Run { path, cache, ..Run::new(CHUNK, 2) };
        let options = striped(&memory, CHUNK, run.buffer()).with_agent(Some(at.parse().unwrap()));
        play(&options, &run, seed + number, |is_done| {
            while !is_done() {
                if let Some(agent) = agent.take() {
                    agent.process.idle(Duration::from_millis(20));
                    agent.process.kill();
                }
                agent = Some(start());
            }
        });
        if let Some(agent) = agent {
            agent.end();
        }
    }
    end(&place, daemons);
}

#[test]
fn the_loss_of_one_server_names_it_and_leaves_what_others_have() {
    let place = Place::new();
    let daemons = servers(&place, 2);
    for by_tcp in [false, true] {
        let lost = Daemon::memory(&place, &place.socket(), &[]);
        let door = |daemon: &Daemon| if by_tcp { daemon.remote().clone() } else { daemon.local().clone() };
        let at = [door(&daemons[0]), door(&lost), door(&daemons[1])];
        let mut options = striped(&at.each_ref(), CHUNK, 64 * CHUNK);
        options.grace = Duration::from_millis(200);
        let far = connect(&options);
        let mapping = far.reserve(24 * CHUNK as u64, &region("precious")).unwrap();
        assert_eq!(mapping.servers(), 3);
        // All of it is here, whoever is gone.
        let mut added = 0;
        let mut change = || {
            (0..24).for_each(|chunk| words(&mapping).add(chunk * CHUNK, 1));
            added += 1;
            mapping.flush()
        };
        change().unwrap();
        lost.process.kill();
        let error = await_state("a server that is missed", || change().err().ok_or_else(String::new));
        assert!(matches!(&error, FarError::NotFlushed { server, .. } if *server == at[1]), "{error}");
        assert!(error.to_string().contains(&at[1].to_string()), "{error}");
        // Those of the others go on: what they have can leave and come back.
        let of_others = (0..24).filter(|chunk| chunk / 4 % 3 != 1);
        mapping.advise(0..mapping.len(), Advice::DontNeed).unwrap();
        for chunk in of_others {
            let mut word = [0; 8];
            words(&mapping).read(chunk * CHUNK, &mut word);
            assert_eq!(u64::from_ne_bytes(word), added, "chunk {chunk}");
        }
        let explained = mapping.explain();
        assert!(explained[1].contains(&format!("part 2 of 3 at {}", at[1])), "{explained:?}");
        drop((mapping, far));
        free(&at[0], "precious 1 of 3 by 16384");
        free(&at[2], "precious 3 of 3 by 16384");
    }
    end(&place, daemons);
}

/// Frees what a part of an object has left at a server.
fn free(server: &Address, name: &str) {
    let mut memory = outboard_e2e::connect_memory(server);
    let region = memory.open(name, outboard_wire::Rights::READ.and(outboard_wire::Rights::WRITE)).unwrap();
    memory.free(region).unwrap();
}

#[test]
fn a_name_finds_an_object_only_as_it_was_divided() {
    let place = Place::new();
    let daemons = servers(&place, 2);
    let at = [daemons[0].local(), daemons[1].remote()];
    let options = striped(&at, CHUNK, 64 * CHUNK);
    let far = connect(&options);
    let elements = 10 * STRIPE / 8 + 3;
    let mut array = far.allocate_with::<u64>(elements, &region("numbers")).unwrap();
    array.iter_mut().zip(0..).for_each(|(element, number)| *element = number);
    array.pin(100..5000).unwrap();
    array.flush().unwrap();
    let frozen = array.freeze().unwrap();
    assert!(frozen.iter().zip(0..).all(|(element, number)| *element == number));
    drop((frozen, far));

    let again = connect(&options);
    let found = again.open::<u64>("numbers", &region("numbers")).unwrap();
    assert!(found.len() == elements && found.iter().zip(0..).all(|(element, number)| *element == number));
    drop(found);
    let turned = striped(&[at[1], at[0]], CHUNK, 64 * CHUNK);
    let longer = options.clone().with(|options| options.stripe = 2 * STRIPE);
    let alone = options.clone().with(|options| options.servers.clear());
    for wrong in [turned, longer, alone] {
        let error = connect(&wrong).open::<u64>("numbers", &region("numbers")).err().unwrap();
        assert!(error.to_string().contains("numbers"), "{error}");
    }
    // What is no longer than a stripe is at one server, by its own name.
    let short = again.allocate_with::<u64>(8, &region("short")).unwrap();
    assert_eq!(short.mapping().servers(), 1);
    short.free().unwrap();
    again.open_writable::<u64>("numbers", &region("numbers")).unwrap().free().unwrap();
    end(&place, daemons);
}

#[test]
fn servers_are_used_by_turns_and_what_came_to_nothing_is_given_back() {
    let place = Place::new();
    let daemons = servers(&place, 2);
    let at = [daemons[0].local(), daemons[1].local()];
    let far = connect(&striped(&at, CHUNK, 64 * CHUNK));
    let unnamed = RegionOptions { name: None, ..region("") }.with_guarantee();
    let small: Vec<_> = (0..4).map(|_| far.reserve(CHUNK as u64, &unnamed).unwrap()).collect();
    let regions = |server: &Address| outboard_e2e::connect_memory(server).list().unwrap().len();
    assert_eq!((regions(at[0]), regions(at[1])), (2, 2));
    // Servers of 256 MiB have no room for this; the first is asked first, and gets back what it gave.
    far.reserve(500 << 20, &unnamed).map(drop).unwrap();
    far.reserve(513 << 20, &unnamed).map(drop).unwrap_err();
    drop(small);
    assert_eq!((regions(at[0]), regions(at[1])), (0, 0));
    drop(far);
    end(&place, daemons);
}
