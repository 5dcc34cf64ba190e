use outboard_limits::with_files;

use super::*;
use crate::{ByteSize, Configuration, Inputs, Percent};

const GIB: u64 = 1 << 30;

/// A machine with 24 GiB and 8 cores, of which 23 GiB are available, and a process in a group with these files.
fn machine(group: &[(&str, &str)]) -> Allowance {
    let mut files = vec![
        ("/proc/meminfo", "MemTotal: 25165824 kB\nMemAvailable: 24117248 kB\n"),
        ("/proc/self/status", "Cpus_allowed_list:\t0-7\n"),
        ("/proc/self/cgroup", "0::/\n"),
        ("/proc/self/mountinfo", "30 23 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw\n"),
    ];
    files.extend(group);
    with_files(&files, Allowance::read)
}

fn small() -> Allowance {
    machine(&[
        ("/cg/memory.max", "209715200\n"),
        ("/cg/memory.current", "5242880\n"),
        ("/cg/cpu.max", "30000 100000\n"),
    ])
}

fn why<'a>(reasons: &'a Reasons, key: &str) -> &'a str {
    &reasons.chosen.iter().find(|chosen| chosen.key == key).unwrap().why
}

#[test]
fn on_a_machine_without_limits_everything_is_as_usual() {
    let (here, settings) = (machine(&[]), Settings::default());
    let memory = settings.memory.plan(&here);
    assert_eq!((memory.capacity, memory.workers), (12 * GIB, 2));
    assert_eq!(why(&memory.reasons, "memory.capacity"), "half of the 24 GiB of this machine");
    assert_eq!(why(&memory.reasons, "memory.workers"), "as this process may run on 8 cores");
    let agent = settings.agent.plan(&here);
    assert_eq!((agent.workers, agent.spin), (2, Duration::from_micros(20)));
    assert_eq!((agent.cache, agent.static_max), (256 * MIB, GIB));
    assert_eq!(settings.far.plan(&here).buffer, 256 * MIB);
    assert!([memory.reasons, agent.reasons].iter().all(|reasons| reasons.warnings.is_empty()));
}

#[test]
fn in_a_small_group_everything_fits_into_it_together() {
    let (here, settings) = (small(), Settings::default());
    let memory = settings.memory.plan(&here);
    assert_eq!((memory.capacity, memory.workers), (100 * MIB, 1));
    let half = "half of the 200 MiB that the memory cgroup of this process allows (/cg/memory.max)";
    assert_eq!(why(&memory.reasons, "memory.capacity"), half);
    assert!(why(&memory.reasons, "memory.workers").contains("0.30 cores (/cg/cpu.max)"));
    let agent = settings.agent.plan(&here);
    assert_eq!((agent.workers, agent.spin), (1, Duration::ZERO));
    assert_eq!((agent.cache, agent.static_max), (25 * MIB, 25 * MIB));
    let far = settings.far.plan(&here);
    assert_eq!(far.buffer, 25 * MIB);
    assert!(memory.capacity + agent.cache + agent.static_max + far.buffer < 200 * MIB);
}

#[test]
fn a_group_that_is_nearly_full_leaves_what_is_left() {
    let left = |used: &str| {
        let here = machine(&[("/cg/memory.max", "209715200\n"), ("/cg/memory.current", used)]);
        Settings::default().memory.plan(&here)
    };
    // A sixteenth of all is kept free, and three quarters of the rest are offered.
    let plan = left("104857600\n");
    assert_eq!(plan.capacity, 65 * MIB);
    assert!(
        why(&plan.reasons, "memory.capacity").starts_with("as only 100 MiB are left of the 200 MiB that")
    );
    assert_eq!(left("209715200\n").capacity, 4096);
    let here = machine(&[("/cg/memory.max", "1048576\n"), ("/cg/memory.current", "1048576\n")]);
    let settings = Settings::default();
    assert_eq!((settings.agent.plan(&here).cache, settings.far.plan(&here).buffer), (0, MIB));
}

#[test]
fn what_is_given_is_taken_and_warned_of_where_it_does_not_fit() {
    let mut settings = Settings::default();
    settings.memory.capacity = ByteSize(4 * GIB).into();
    settings.memory.workers = 5.into();
    settings.agent.spin = Duration::from_micros(7).into();
    settings.agent.cache = ByteSize(190 * MIB).into();
    let memory = settings.memory.plan(&small());
    assert_eq!((memory.capacity, memory.workers), (4 * GIB, 5));
    assert_eq!(memory.reasons.chosen, []);
    let warning = &memory.reasons.warnings[0];
    for part in ["memory.capacity is 4 GiB", "the 200 MiB that", "/cg/memory.max", "killed", "100 MiB"] {
        assert!(warning.contains(part), "{warning}");
    }
    assert_eq!(settings.memory.plan(&machine(&[])).reasons.warnings, Vec::<String>::new());
    let agent = settings.agent.plan(&small());
    assert_eq!((agent.spin, agent.cache), (Duration::from_micros(7), 190 * MIB));
    assert_eq!(agent.reasons.warnings, Vec::<String>::new());
    settings.agent.cache = ByteSize(196 * MIB).into();
    let warning = &settings.agent.plan(&small()).reasons.warnings[0];
    assert!(warning.contains("more than the 195 MiB that are left of the 200 MiB"), "{warning}");
}

#[test]
fn a_share_is_of_the_lowest_limit() {
    let mut settings = Settings::default();
    settings.memory.capacity = Capacity::Share(Percent::from_percent(30)).into();
    let plan = settings.memory.plan(&small());
    assert_eq!(plan.capacity, 60 * MIB);
    assert!(why(&plan.reasons, "memory.capacity").starts_with("30% of the 200 MiB that"));
    assert_eq!(settings.memory.plan(&machine(&[])).capacity, 24 * GIB * 3 / 10);
}

#[test]
fn a_machine_that_says_nothing_gets_little() {
    let (here, settings) = (Allowance::default(), Settings::default());
    assert_eq!((settings.memory.plan(&here).capacity, settings.memory.plan(&here).workers), (256 * MIB, 1));
    assert_eq!(settings.far.plan(&here).buffer, 256 * MIB);
}

#[test]
fn a_printed_configuration_says_what_was_chosen_and_why() {
    let configuration = Configuration::load(&Inputs::empty()).unwrap();
    let text = configuration.to_toml(&configuration.settings.chosen(&small()));
    let line = |field: &str| text.lines().find(|line| line.starts_with(field)).unwrap();
    let capacity = line("capacity = \"auto\"");
    assert!(
        capacity.contains("# default; here 100 MiB, half of the 200 MiB that the memory cgroup"),
        "{capacity}"
    );
    assert!(line("buffer = \"auto\"").contains("here 25 MiB"), "{text}");
    assert!(line("spin = \"auto\"").contains("here 0s, as the cpu cgroup"), "{text}");
}
