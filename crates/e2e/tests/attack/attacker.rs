//! The process that attacks. It is told what to do line by line, so that it can be killed in the middle of it.

use std::io::{BufRead, Write};
use std::thread;
use std::time::{Duration, Instant};

use outboard_e2e::{Place, Process, Random};
use rustix::process::Signal;

use crate::scene::Scene;
use crate::wrong::Attack;

/// What a line begins with that tells of something which must not be.
const FINDING: &str = "FINDING ";
/// After how long it is said what keeps a process that was killed.
const SLOW_DEATH: Duration = Duration::from_secs(10);
/// How long an attack may need to notice that its time is up.
const LATE: Duration = Duration::from_secs(40);

/// Says a line to the parent, which may have gone.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "\n{line}\n").and_then(|()| out.flush());
}

/// Tells of something that must not be.
pub(crate) fn report(finding: &str) {
    say(&format!("{FINDING}{finding}"));
}

/// Plays what it is told until it is told nothing more.
pub(crate) fn run(scene: &Scene) {
    outboard_driver::raise_descriptor_limit();
    let mut playing = Vec::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Some((attack, seed, span)) = read_order(&line) else { continue };
        let scene = scene.clone();
        playing.push(thread::spawn(move || {
            let (mut random, until) = (Random::new(seed), Instant::now() + span);
            let mut episodes = 0;
            while Instant::now() < until {
                attack.play(&scene, &mut random);
                episodes += 1;
            }
            say(&format!("ended {} after {episodes} episodes", attack.name));
        }));
    }
    for player in playing {
        if player.join().is_err() {
            report("an attack panics");
        }
    }
}

fn read_order(line: &str) -> Option<(&'static Attack, u64, Duration)> {
    let mut words = line.split(' ');
    let attack = Attack::named(words.next()?)?;
    let (seed, millis) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((attack, seed, Duration::from_millis(millis)))
}

/// An attacker, as whoever has started it sees it.
pub(crate) struct Attacker {
    process: Process,
}

impl Attacker {
    /// Starts one: the test's own program, anew.
    pub(crate) fn start(place: &Place, scene: &Scene) -> Self {
        let mut command = outboard_child::again();
        let (name, value) = scene.to_variable();
        command.env(name, value);
        command.env("OUTBOARD_CONFIG", "none");
        place.mark(&mut command);
        Self { process: Process::start_told(command) }
    }

    /// Has it play an attack for a while.
    pub(crate) fn order(&mut self, attack: &Attack, seed: u64, span: Duration) {
        self.process.tell(&format!("{} {seed} {}", attack.name, span.as_millis()));
    }

    /// Stops it in the middle of what it does, as if its machine hung.
    pub(crate) fn freeze(&self) {
        self.process.stop();
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.process.go_on();
    }

    /// Kills it in the middle of what it does.
    pub(crate) fn kill(self) -> Vec<String> {
        self.process.signal(Signal::KILL);
        self.process.idle(SLOW_DEATH);
        let alive = threads_of(self.process.pid());
        if !alive.is_empty() {
            println!("an attacker that was killed {SLOW_DEATH:?} ago still has threads: {alive:?}");
        }
        findings(&self.process.kill())
    }

    /// Lets it end by itself.
    pub(crate) fn end(mut self) -> Vec<String> {
        self.process.close_stdin();
        let (status, said) = self.process.exit_within(LATE);
        let mut found = findings(&said);
        if !status.success() {
            found.push(format!("an attacker ended with {status}: {said:?}"));
        }
        found
    }
}

/// The threads of a process that have not ended, each with its state and with what it waits for in the kernel.
fn threads_of(pid: u32) -> Vec<String> {
    let folder = format!("/proc/{pid}/task");
    let Ok(threads) = std::fs::read_dir(&folder) else { return Vec::new() };
    let state = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        let state = stat.rsplit_once(") ")?.1.get(..1)?.to_owned();
        let waits = std::fs::read_to_string(thread.path().join("wchan")).unwrap_or_default();
        (!matches!(state.as_str(), "Z" | "X")).then(|| format!("{state} {waits}"))
    };
    threads.flatten().filter_map(state).collect()
}

fn findings(said: &[String]) -> Vec<String> {
    said.iter().filter_map(|line| line.strip_prefix(FINDING)).map(str::to_owned).collect()
}
