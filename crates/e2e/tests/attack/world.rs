//! The daemons that are attacked.

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use outboard::{Address, Rights};
use outboard_e2e::{Daemon, Place, await_state, connect_memory};
use outboard_link::ofi;

use crate::holdings::{Holdings, await_idleness};
use crate::scene::Scene;

/// How long one turn of a daemon's thread may take where it has a processor. It is to find loops without an end, not
/// slowness.
const TURN_MAX: Duration = Duration::from_secs(2);
/// The numbers of a status page that tell of it, in microseconds.
const TURNS: &str = "longest_turn";
/// How long a daemon may take to end when it is asked to.
const END_MAX: Duration = Duration::from_secs(10);

/// How much a daemon may say of all this: attackers must not fill disks.
const LOG_MAX: usize = 1000;

/// A memory server, an agent, and a memory server that wants TLS.
pub(crate) struct World {
    pub(crate) place: Place,
    pub(crate) scene: Scene,
    daemons: Vec<Daemon>,
    before: Vec<Holdings>,
    /// How long tasks of this machine had waited for memory and for its disk when all this began.
    kept_waiting: Duration,
}

/// How long tasks of this machine have waited in all for memory and for its disk: so much of a turn may be no fault of its
/// thread.
fn kept_waiting() -> Duration {
    let total = |what: &str| {
        let text = std::fs::read_to_string(format!("/proc/pressure/{what}")).ok()?;
        let total = text.lines().next()?.rsplit_once("total=")?.1;
        Some(Duration::from_micros(total.trim().parse().ok()?))
    };
    ["memory", "io"].into_iter().filter_map(total).sum()
}

/// How long the threads of a daemon have waited in all for a processor. A turn may be longer by that: its thread waits, or one
/// that holds what it needs.
fn without_processor(pid: u32) -> Duration {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Duration::ZERO };
    let waited = |thread: std::fs::DirEntry| {
        // How long it ran and how long it could have run and did not, in nanoseconds, and how often it ran.
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        Some(Duration::from_nanos(text.split_whitespace().nth(1)?.parse().ok()?))
    };
    threads.flatten().filter_map(waited).sum()
}

/// A port that nobody listens at now.
fn free_port() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    Address::Tcp(listener.local_addr().expect("it is bound"))
}

fn address(text: &str) -> Address {
    text.parse().expect("the test makes addresses")
}

/// Makes an authority and returns its folder.
fn make_keys(place: &Place) -> String {
    let folder = place.folder("keys").join("node");
    let folder = folder.display().to_string();
    let mut command: Command = place.outboard(&["keys", "init", "--dir", &folder]);
    let made = command.output().expect("the program starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

fn at_port(daemon: &Daemon) -> [Address; 2] {
    [daemon.local().clone(), daemon.remote().clone()]
}

impl World {
    /// Starts everything.
    pub(crate) fn start() -> Self {
        let kept_waiting = kept_waiting();
        let place = Place::new();
        let (at, keys) = (place.socket(), make_keys(&place));
        let patient = ["--link-deadline", "60s", "--link-heartbeat", "500ms"];
        let mut more = vec!["--linger", "1s"];
        let has_fabric = match ofi::choose(None, None) {
            Ok(_) => true,
            Err(why) => {
                println!("skipped: no attacks on a fabric, since {why}");
                false
            }
        };
        if has_fabric {
            more.extend(["--listen", "ofi:127.0.0.1:0"]);
        }
        let metrics = free_port();
        let shown_at = metrics.to_string().replace("tcp:", "");
        more.extend(["--metrics", &shown_at]);
        let memory = Daemon::memory(&place, &at, &[&patient[..], &more].concat());
        let fabric = memory.listening.iter().find(|at| matches!(at, Address::Ofi(_))).cloned();
        let awaited = || [address(&place.socket()), free_port()];
        let (awaited_server, awaited_agent) = (awaited(), awaited());
        let list = |all: &[Address]| all.iter().map(Address::to_string).collect::<Vec<_>>().join(",");
        let servers = format!("{at},{}", list(&awaited_server));
        let peers = list(&awaited_agent);
        let joining = ["--job-join-timeout", "3s", "--peers", &peers, "--cache", "16MiB"];
        let agent = Daemon::agent(&place, &place.socket(), &servers, &[&patient[..], &joining].concat());
        let secure = ["--link-encryption", "all", "--link-keys", &keys, "--capacity", "16MiB"];
        let listen = ["--listen", &place.socket_file(), "--listen", "tcp:127.0.0.1:0"].map(str::to_owned);
        let listen: Vec<&str> = listen.iter().map(String::as_str).collect();
        let secure =
            Daemon::start(&place, "memory", "attack-secure", &[&secure[..], &listen, &patient].concat());
        let scene = Scene {
            memory: at_port(&memory),
            agent: at_port(&agent),
            awaited_server,
            awaited_agent,
            metrics,
            secure: Some((secure.remote().clone(), keys.into())),
            fabric,
        };
        let mut world =
            Self { place, scene, daemons: vec![memory, agent, secure], before: Vec::new(), kept_waiting };
        world.daemons[1].await_number("memory_servers_connected", 1);
        world
    }

    /// Waits until nobody is connected any more, and remembers what the daemons hold.
    pub(crate) fn remember(&mut self) {
        self.await_departures();
        self.before = self.daemons.iter().map(|daemon| Holdings::of(daemon.process.pid())).collect();
    }

    fn await_departures(&mut self) {
        for daemon in &mut self.daemons {
            await_state(&format!("the clients of {} to have gone", daemon.name), || {
                // The agent at the memory server, by each of its workers, and whoever looks.
                match daemon.number("clients") {
                    0..=3 => Ok(()),
                    others => Err(others.to_string()),
                }
            });
        }
    }

    /// Checks that the attackers, who have gone, left nothing behind, and kept no thread from its turn.
    pub(crate) fn check(&mut self) {
        self.check_turns();
        self.await_departures();
        self.free_named();
        for (daemon, before) in self.daemons.iter().zip(&self.before) {
            before.await_return(daemon);
            await_idleness(daemon);
        }
    }

    /// Frees what was left under a name: such regions outlive their makers, as they should.
    fn free_named(&self) {
        let mut memory = connect_memory(&self.scene.memory[0]);
        await_state("regions with names to be freed", || {
            let left = memory.list().unwrap();
            for name in left.iter().filter_map(|region| region.name.as_deref()) {
                if let Ok(region) = memory.open_shared(name, Rights::ALL) {
                    memory.free(region).unwrap();
                }
            }
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
        memory.close("all is free");
    }

    fn check_turns(&mut self) {
        let kept_waiting = kept_waiting().saturating_sub(self.kept_waiting);
        for daemon in &mut self.daemons {
            let longest = daemon.view().entries.into_iter().filter(|(name, _)| name.contains(TURNS));
            for (number, microseconds) in longest {
                let took = Duration::from_micros(microseconds);
                let most = TURN_MAX + kept_waiting + without_processor(daemon.process.pid());
                assert!(took < most, "{}: {number} is {took:?}, and may be {most:?}", daemon.name);
            }
        }
    }

    /// Ends all daemons, each in time, and looks whether anything is left of them.
    pub(crate) fn end(self) {
        for mut daemon in self.daemons {
            let (name, log) = (daemon.name.clone(), daemon.process.said().len());
            assert!(log < LOG_MAX, "{log} lines of log of {name}: {:?}", &daemon.process.said()[log - 20..]);
            let began = Instant::now();
            daemon.end();
            assert!(began.elapsed() < END_MAX, "{name} ended {:?} after it was asked to", began.elapsed());
        }
        std::fs::remove_dir_all(self.scene.secure.as_ref().map_or("none".into(), |(_, keys)| {
            keys.parent().map(std::path::Path::to_path_buf).unwrap_or_default()
        }))
        .expect("the keys are the test's own");
        self.place.assert_nothing_left();
    }
}
