//! Dependencies point one way.

use super::Finding;
use crate::workspace::Package;

/// Which rooms a room may depend on, tests and build scripts included. A room not named here is an error: its
/// place in the order has to be decided when it is made.
const RULES: &[(&str, &[&str])] = &[
    ("crates/wire", &[]),
    // For `Time`: the one clock that all rooms' state machines speak of.
    ("crates/steering", &["crates/wire"]),
    // The bytes by which a memory server finds its regions again; others read and write them.
    ("crates/keep", &["crates/wire"]),
    ("crates/ebpf", &[]),
    // It starts programs of tests again, and knows nothing of what they test.
    ("crates/child", &[]),
    // What the machine allows is asked by every room that makes threads or takes memory.
    ("crates/limits", &[]),
    // What a link is, for those who use one and those who make one.
    ("crates/contract", &["crates/limits", "crates/wire"]),
    ("crates/link", &["crates/child", "crates/contract", "crates/limits", "crates/wire"]),
    // It stands between a program and the C library, and uses far memory as any application does.
    ("crates/preload", &["crates/outboard"]),
    // Certificates are made for links, and by people.
    ("crates/keys", &["crates/link", "crates/wire"]),
    // System calls without an opinion, so that it can be used, tried and measured alike.
    ("crates/userfaultfd", &[]),
    // It looks at the machine; for an address it names the link.
    ("crates/probe", &["crates/limits", "crates/link", "crates/userfaultfd"]),
    ("crates/settings", &["crates/limits", "crates/wire", "crates/link"]),
    // The four services are strangers to each other and to I/O: they see a link only as its traits.
    // It shows sizes to people, and has no other use for limits.
    ("crates/paging", &["crates/contract", "crates/limits", "crates/wire", "crates/steering"]),
    ("crates/routing", &["crates/contract", "crates/wire", "crates/steering"]),
    ("crates/calling", &["crates/contract", "crates/wire", "crates/steering", "crates/ebpf"]),
    ("crates/writing", &["crates/contract", "crates/wire", "crates/steering"]),
    // Runs every machine there is: those of the services, and of the daemons.
    (
        "crates/sim",
        &["crates/agent", "crates/rendezvous", "crates/driver", "crates/link", "crates/ebpf", SERVICES],
    ),
    (
        "crates/driver",
        &["crates/settings", "crates/limits", "crates/link", "crates/probe", "crates/userfaultfd", SERVICES],
    ),
    ("crates/rendezvous", &["crates/driver", "crates/link", "crates/wire"]),
    (
        "crates/agent",
        &[
            "crates/driver",
            "crates/keep",
            "crates/rendezvous",
            "crates/settings",
            "crates/limits",
            "crates/link",
            "crates/probe",
            SERVICES,
        ],
    ),
    (
        "crates/outboard",
        &[
            "crates/child",
            // The examples in its documentation run at a memory server of their own.
            "crates/nearby",
            "crates/driver",
            "crates/rendezvous",
            "crates/settings",
            "crates/limits",
            "crates/link",
            SERVICES,
        ],
    ),
    // C sees what applications in Rust see, and nothing beneath it.
    ("crates/c", &["crates/outboard"]),
    ("crates/nearby", &["crates/agent", "crates/link", "crates/settings"]),
    // What links carry, for `outboard characterize`; benchmarks measure with it.
    ("crates/measure", &["crates/agent", "crates/outboard", "crates/link", "crates/wire"]),
    (
        "bench",
        &[
            "apps/*",
            "crates/measure",
            // For questions that one machine cannot answer.
            "crates/sim",
            "crates/ebpf",
            "crates/agent",
            "crates/outboard",
            "crates/driver",
            "crates/settings",
            "crates/link",
            "crates/userfaultfd",
            SERVICES,
        ],
    ),
    // It starts processes and knows nothing of what they say to each other.
    ("crates/launch", &["crates/child", "crates/limits"]),
    // The papers' applications use the public library and each other's formats.
    ("apps/*", &["crates/outboard", "apps/*"]),
    // For programs in Python: the public library, and the tables that are made of it.
    ("bindings/python", &["crates/outboard", "apps/btree", "apps/kv"]),
    (
        "crates/cli",
        &[
            "apps/*",
            "crates/measure",
            "crates/ebpf",
            "crates/keep",
            "crates/launch",
            "crates/rendezvous",
            "crates/agent",
            "crates/outboard",
            "crates/driver",
            "crates/settings",
            "crates/limits",
            "crates/link",
            "crates/keys",
            "crates/probe",
            SERVICES,
        ],
    ),
    // Its tests start the program, and look at what that does from every side.
    (
        "crates/e2e",
        &[
            "apps/*",
            // For the archive, which cargo builds with it.
            "crates/c",
            "crates/child",
            "crates/launch",
            "crates/agent",
            "crates/outboard",
            "crates/driver",
            "crates/settings",
            "crates/limits",
            "crates/link",
            SERVICES,
        ],
    ),
    ("fuzz", &["crates/ebpf", "crates/keep", "crates/link", SERVICES]),
    // It only starts cargo, so it works while the rest does not compile.
    ("xtask", &[]),
];

/// Stands for what every room above the services may use.
const SERVICES: &str = "the services";
const SERVICE_ROOMS: &[&str] = &[
    "crates/contract",
    "crates/wire",
    "crates/steering",
    "crates/paging",
    "crates/routing",
    "crates/calling",
    "crates/writing",
];

/// Checks every dependency between packages of the workspace.
pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let manifest = format!("{}/Cargo.toml", package.room);
        let Some((_, allowed)) = RULES.iter().find(|(room, _)| covers(room, &package.room)) else {
            let message = format!(
                "`{}` has no rule about what it may depend on; add `{}` to RULES in xtask/src/tidy/direction.rs",
                package.name, package.room
            );
            findings.push(Finding::error(&manifest, 1, message));
            continue;
        };
        for dependency in &package.dependencies {
            let Some(room) = &dependency.room else { continue };
            if *room != package.room && !allowed.iter().any(|rule| covers(rule, room)) {
                let message = format!(
                    "{} must not depend on {room} ({} dependency `{}`): dependencies point one way, see \
                     ARCHITECTURE.md; move what both need into a room below both",
                    package.room, dependency.kind, dependency.name
                );
                findings.push(Finding::error(&manifest, 1, message));
            }
        }
    }
    findings
}

fn covers(rule: &str, room: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(folder) => room.starts_with(folder),
        None if rule == SERVICES => SERVICE_ROOMS.contains(&room),
        None => rule == room,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(room: &str, uses: &[(&str, &str)]) -> Package {
        let dependency = |(room, kind): &(&str, &str)| Dependency {
            name: format!("outboard-{room}"),
            kind: (*kind).to_owned(),
            room: Some((*room).to_owned()),
        };
        let dependencies = uses.iter().map(dependency).collect();
        Package { name: format!("outboard-{room}"), room: room.to_owned(), dependencies, roots: Vec::new() }
    }

    fn refused(room: &str, uses: &[(&str, &str)]) -> usize {
        check(&[package(room, uses)]).len()
    }

    #[test]
    fn the_drawn_directions_are_allowed() {
        assert_eq!(refused("crates/link", &[("crates/wire", "normal"), ("crates/link", "dev")]), 0);
        assert_eq!(refused("crates/calling", &[("crates/wire", "normal"), ("crates/ebpf", "normal")]), 0);
        assert_eq!(refused("crates/routing", &[("crates/contract", "normal")]), 0);
        assert_eq!(refused("crates/sim", &[("crates/link", "normal"), ("crates/paging", "normal")]), 0);
        assert_eq!(refused("apps/graph500", &[("crates/outboard", "normal"), ("apps/graphs", "dev")]), 0);
        assert_eq!(refused("crates/cli", &[("crates/measure", "normal"), ("crates/agent", "normal")]), 0);
    }

    #[test]
    fn every_other_direction_is_refused_in_tests_too() {
        assert_eq!(refused("crates/wire", &[("crates/link", "normal")]), 1);
        assert_eq!(refused("crates/contract", &[("crates/link", "normal")]), 1);
        assert_eq!(refused("crates/paging", &[("crates/routing", "normal"), ("crates/link", "dev")]), 2);
        assert_eq!(refused("crates/paging", &[("crates/ebpf", "normal")]), 1);
        assert_eq!(refused("apps/graph500", &[("crates/link", "normal")]), 1);
        assert_eq!(refused("xtask", &[("crates/wire", "build")]), 1);
    }

    #[test]
    fn nothing_depends_on_the_program() {
        for (room, _) in RULES.iter().filter(|(room, _)| *room != "crates/cli") {
            assert_eq!(refused(room, &[("crates/cli", "dev")]), 1, "{room}");
        }
    }

    #[test]
    fn no_two_rooms_may_depend_on_each_other() {
        for (one, _) in RULES {
            for (other, allowed) in RULES.iter().filter(|(other, _)| other != one) {
                let forth = allowed.iter().any(|rule| covers(rule, one));
                assert!(!forth || refused(one, &[(other, "normal")]) == 1, "{one} and {other}");
            }
        }
    }

    #[test]
    fn a_room_without_a_rule_is_an_error_and_outside_packages_are_not_looked_at() {
        let findings = check(&[package("crates/cellar", &[])]);
        assert!(findings[0].message.contains("no rule"), "{}", findings[0]);
        let mut link = package("crates/link", &[("crates/wire", "normal")]);
        link.dependencies[0].room = None;
        assert_eq!(check(&[link]), []);
    }
}
