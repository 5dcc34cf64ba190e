//! What daemons do where control groups and affinity masks allow less than the machine has.

use std::thread;

use outboard::{CallSite, CallerOptions, Client, FunctionImage, FunctionOptions, Memory, Outboard};
use outboard_link::Identity;
use outboard_settings::LinkSettings;
use outboard_wire::Role;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use outboard_e2e::{Ended, Folder, Group, Process, outboard, run_outboard, socket};

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 200 * MIB;

/// A daemon in a group.
fn daemon(group: &Group, arguments: &[&str]) -> (Process, String) {
    let mut daemon = Process::start(group.around(&outboard(arguments)));
    let line = daemon.await_line("listens at");
    (daemon, line)
}

/// What the program says in a group.
fn inside(group: &Group, arguments: &[&str]) -> Ended {
    Ended::from(group.around(&outboard(arguments)).output().unwrap())
}

/// Asks a memory server.
fn ask(at: &str, arguments: &[&str]) -> Ended {
    run_outboard(&[&["memory"], arguments, &["--server", at]].concat())
}

fn populate(at: &str, name: &str, size: u64) -> Ended {
    ask(at, &["reserve", "--name", name, "--size", &size.to_string(), "--populate"])
}

fn capacity(at: &str) -> u64 {
    run_outboard(&["status", at, "--json"]).json()[0]["numbers"]["capacity_bytes"].as_u64().unwrap()
}

#[test]
fn a_server_offers_what_its_group_allows_and_says_why() {
    let Some(group) = Group::of_memory(LIMIT) else { return };
    let at = socket();
    let (mut server, line) = daemon(&group, &["memory", "--listen", &at]);
    assert!(line.contains("capacity 100 MiB"), "{line}");
    let line = server.await_line("memory.capacity is");
    let why = format!(
        "half of the 200 MiB that the memory cgroup of this process allows ({})",
        group.memory_file()
    );
    assert!(line.contains(&why), "{line}");
    assert_eq!(capacity(&at), LIMIT / 2);
    ask(&at, &["reserve", "--name", "huge", "--size", "1GiB"])
        .failed(1, &["1 GiB asked, and of 100 MiB are 0 B in use"]);
    // All of what it offers can be had at once.
    populate(&at, "all", LIMIT / 2).succeeded();
    assert!(ask(&at, &["list"]).succeeded().contains("all"));
}

#[test]
fn what_would_get_a_server_killed_is_refused_and_it_serves_on() {
    let Some(group) = Group::of_memory(LIMIT) else { return };
    let (at, folder) = (socket(), Folder::new());
    for (name, size) in [("large", LIMIT * 2), ("small", 16 * MIB)] {
        std::fs::File::create(folder.path().join(name)).unwrap().set_len(size).unwrap();
    }
    let data_dir = folder.path().to_str().unwrap();
    let arguments = ["memory", "--listen", &at, "--capacity", "4GiB", "--data-dir", data_dir];
    let (mut server, _) = daemon(&group, &arguments);
    let warning = server.await_line("WARN");
    for part in
        ["memory.capacity is 4 GiB", "the 200 MiB that the memory cgroup", &group.memory_file(), "killed"]
    {
        assert!(warning.contains(part), "“{part}” is not in {warning}");
    }
    let refused = ["the server's memory cgroup (limit 200 MiB) has room for ", "raise the limit"];
    populate(&at, "much", 1 << 30).failed(1, &[&["1 GiB more are to be present"], &refused[..]].concat());
    ask(&at, &["load", "large"]).failed(1, &[&["400 MiB more are to be present"], &refused[..]].concat());
    // Nothing of what was refused is left, and what fits is done.
    assert_eq!(ask(&at, &["list"]).succeeded(), "no regions\n");
    ask(&at, &["load", "small"]).succeeded();
    populate(&at, "some", 120 * MIB).succeeded();
    // Which leaves too little for as much again, until it is freed.
    populate(&at, "more", 120 * MIB).failed(1, &refused);
    ask(&at, &["free", "some"]).succeeded();
    populate(&at, "more", 120 * MIB).succeeded();
    // A region that is not populated takes nothing yet.
    ask(&at, &["reserve", "--name", "empty", "--size", "1GiB"]).succeeded();
}

#[test]
fn a_function_that_takes_too_much_memory_to_compile_is_refused() {
    let Some(group) = Group::of_memory(LIMIT) else { return };
    let at = socket();
    let (_server, _) = daemon(&group, &["memory", "--listen", &at, "--capacity", "100MiB"]);
    let identity = Identity::new(Role::Application, "limits");
    let options = CallerOptions::default().with_placement(CallSite::Server);
    let mut caller = Outboard::at(at.parse().unwrap()).with_identity(identity).caller_with(options).unwrap();
    let long = format!("{}exit", "mov r0, 7\n".repeat(30_000));
    let image = FunctionImage::from_text(&long, "main").unwrap();
    let refused = caller.register(&image, FunctionOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("to compile it may take") && refused.contains("limit of 200 MiB"), "{refused}");
    // Others are compiled and run on.
    let image = FunctionImage::from_text("mov r0, 7\nexit", "main").unwrap();
    let short = caller.register(&image, FunctionOptions::default()).unwrap();
    caller.call(short, &[]).unwrap();
}

#[test]
fn memory_is_promised_once_to_those_who_ask_at_the_same_time() {
    let Some(group) = Group::of_memory(LIMIT) else { return };
    let at = socket();
    let (_server, _) = daemon(&group, &["memory", "--listen", &at, "--capacity", "4GiB"]);
    let askers: Vec<_> = (0..4)
        .map(|number| {
            let at = at.clone();
            thread::spawn(move || populate(&at, &format!("region-{number}"), 100 * MIB).code)
        })
        .collect();
    let codes: Vec<_> = askers.into_iter().map(|asker| asker.join().unwrap()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(ask(&at, &["list", "--json"]).json().as_array().unwrap().len(), 1);
}

#[test]
fn what_others_in_the_group_use_is_not_offered() {
    let Some(group) = Group::of_memory(LIMIT) else { return };
    let (first, second) = (socket(), socket());
    let (_first, _) = daemon(&group, &["memory", "--listen", &first, "--capacity", "150MiB"]);
    let (_second, _) = daemon(&group, &["memory", "--listen", &second, "--capacity", "150MiB"]);
    populate(&first, "neighbour", 130 * MIB).succeeded();
    populate(&second, "mine", 100 * MIB).failed(1, &["memory cgroup (limit 200 MiB)"]);
    let third = socket();
    let (mut daemon, _) = daemon(&group, &["memory", "--listen", &third]);
    let line = daemon.await_line("memory.capacity is");
    assert!(line.contains("as only ") && line.contains(" left of the 200 MiB that"), "{line}");
    let offered = capacity(&third);
    assert!(offered <= LIMIT - 130 * MIB, "{offered}");
    populate(&second, "fits", offered).succeeded();
    assert!(ask(&first, &["list"]).succeeded().contains("neighbour"));
}

#[test]
fn a_container_that_sees_its_own_group_only_finds_the_limit() {
    let Some(group) = Group::of_memory(LIMIT) else { return };
    let print = outboard(&["memory", "--print-config"]);
    let Some(mut command) = group.around_in_namespace(&print) else { return };
    let config = Ended::from(command.output().unwrap()).succeeded();
    let line = config.lines().find(|line| line.starts_with("capacity")).unwrap();
    assert!(line.contains("here 100 MiB, half of the 200 MiB that the memory cgroup"), "{line}");
}

/// What operations.md says of it.
#[test]
fn whoever_touches_a_page_first_pays_for_it() {
    let Some(group) = Group::of_memory(LIMIT) else { return };
    let at = socket();
    let (_server, line) = daemon(&group, &["memory", "--listen", &at, "--listen", "tcp:127.0.0.1:0"]);
    let tcp = line.split_whitespace().find(|word| word.starts_with("tcp:")).unwrap().trim_end_matches(',');
    let size = 32 * MIB;
    let fill = |at: &str| {
        let before = group.memory_used();
        let identity = Identity::new(Role::Application, "toucher");
        let client = Client::connect(&at.parse().unwrap(), identity, &LinkSettings::default()).unwrap();
        let mut memory = Memory::new(client);
        let region = memory.reserve(size, None).unwrap();
        for offset in (0..size).step_by(MIB as usize) {
            memory.write(&region, offset, &vec![1; MIB as usize]).unwrap();
        }
        let used = group.memory_used().saturating_sub(before);
        memory.free(region).unwrap();
        used
    };
    let (through_shm, over_tcp) = (fill(&at), fill(tcp));
    assert!(
        through_shm < size / 2,
        "this process, which is not in the group, has written {through_shm} bytes there"
    );
    assert!(over_tcp >= size, "the server has written only {over_tcp} bytes");
}

#[test]
fn an_agent_and_an_application_fit_into_their_group_and_the_doctor_says_so() {
    let Some(group) = Group::of_memory(LIMIT) else { return };
    let at = socket();
    let (mut agent, _) = daemon(&group, &["agent", "--listen", &at, "--memory-servers", "none"]);
    for setting in ["agent.cache", "agent.static_max"] {
        let line = agent.await_line(setting);
        assert!(line.contains("is 25 MiB, an eighth of the 200 MiB that the memory cgroup"), "{line}");
    }
    let doctor = inside(&group, &["doctor", "--json"]).json();
    assert_eq!(doctor["cgroup"]["memory_limit"], LIMIT);
    assert!(doctor["cgroup"]["memory_left"].as_u64().unwrap() < LIMIT);
    let found = |name: &str| {
        let findings = doctor["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["name"] == name).unwrap();
        finding["detail"].as_str().unwrap().to_owned()
    };
    assert!(found("memory limit").contains(&group.memory_file()), "{doctor}");
    assert!(found("memory.capacity").starts_with("100 MiB, half of the 200 MiB"), "{doctor}");
    assert!(found("far.buffer").starts_with("25 MiB, an eighth of the 200 MiB"), "{doctor}");
    let config = inside(&group, &["memory", "--print-config"]).succeeded();
    let line = config.lines().find(|line| line.starts_with("capacity")).unwrap();
    assert!(line.contains("# default; here 100 MiB, half of the 200 MiB"), "{line}");
}

#[test]
fn a_processor_quota_means_fewer_threads_and_no_spinning() {
    let Some(group) = Group::of_processors(50) else { return };
    let at = socket();
    let (mut agent, line) = daemon(&group, &["agent", "--listen", &at, "--memory-servers", "none"]);
    assert!(line.contains(", 1 worker,"), "{line}");
    for (setting, value) in [("agent.workers", "1"), ("agent.spin", "0s")] {
        let line = agent.await_line(setting);
        let why =
            format!("{setting} is {value}, as the cpu cgroup of this process has a quota of 0.50 cores");
        assert!(line.contains(&why), "{line}");
    }
    let doctor = inside(&group, &["doctor", "--json"]).json();
    assert_eq!((&doctor["cgroup"]["cpu_quota"], &doctor["cgroup"]["threads"]), (&0.5.into(), &1.into()));
    // What is set is not second-guessed.
    let given =
        ["agent", "--listen", &socket(), "--memory-servers", "none", "--workers", "3", "--spin", "5us"];
    let (_agent, line) = daemon(&group, &given);
    assert!(line.contains(", 3 workers,"), "{line}");
}

#[test]
fn an_affinity_mask_means_fewer_threads() {
    let all = sched_getaffinity(None).unwrap();
    let Some(first) = (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)) else { return };
    let mut one = CpuSet::new();
    one.set(first);
    // Of this thread alone, and of what it starts.
    sched_setaffinity(None, &one).unwrap();
    let config = run_outboard(&["memory", "--print-config"]).succeeded();
    let line = config.lines().find(|line| line.starts_with("workers")).unwrap();
    assert!(line.contains("here 1, as this process may run on 1 core"), "{line}");
}

#[test]
fn capacities_that_nobody_means_are_refused() {
    for (value, part) in [("0", "a size such as 4GiB"), ("0%", "no region"), ("500%", "at most 100%")] {
        let refused = run_outboard(&["memory", "--print-config", "--capacity", value]);
        refused.failed(2, &["--capacity: memory.capacity: ", value, part]);
    }
}
