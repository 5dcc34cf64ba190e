use super::*;
use crate::files::with_files;

const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable:  524288 kB\n");
const GROUP: (&str, &str) = ("/proc/self/cgroup", "0::/a/b\n");
const V2: (&str, &str) =
    ("/proc/self/mountinfo", "35 24 0:30 / /cg rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
const HYBRID: (&str, &str) = (
    "/proc/self/mountinfo",
    "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n",
);
const MIB: u64 = 1 << 20;

fn read(files: &[(&str, &str)]) -> MemoryLimits {
    with_files(files, |files| MemoryLimits::read(files, &Groups::read(files)))
}

fn cgroup(file: &str) -> LimitSetter {
    LimitSetter::Cgroup { file: file.to_owned() }
}

#[test]
fn a_machine_that_says_nothing_has_no_limits() {
    let limits = read(&[]);
    assert_eq!((limits.lowest(), limits.tightest()), (None, None));
}

#[test]
fn without_groups_the_machine_is_the_limit() {
    let limits = read(&[MEMINFO]);
    let expected = MemoryLimit { bytes: 1 << 30, left: 512 * MIB, set_by: LimitSetter::Machine };
    assert_eq!((limits.lowest(), limits.tightest()), (Some(&expected), Some(&expected)));
    assert_eq!(expected.to_string(), "the 1 GiB of this machine");
    // A sixteenth is kept free.
    assert_eq!(expected.spare(), 448 * MIB);
    assert_eq!(MemoryLimit { left: 3, ..expected }.spare(), 0);
}

#[test]
fn the_lowest_limit_on_the_way_up_counts_in_version_2() {
    let with = |own, above| {
        let files = [MEMINFO, GROUP, V2, ("/cg/a/b/memory.max", own), ("/cg/a/memory.max", above)];
        read(&files).lowest().unwrap().clone()
    };
    assert_eq!(with("max\n", "max\n").set_by, LimitSetter::Machine);
    assert_eq!(with("max\n", "8589934592\n").set_by, LimitSetter::Machine);
    assert_eq!(with("max\n", "268435456\n").bytes, 256 * MIB);
    let own = with("134217728\n", "268435456\n");
    assert_eq!((own.bytes, &own.set_by), (128 * MIB, &cgroup("/cg/a/b/memory.max")));
    assert_eq!(
        own.to_string(),
        "the 128 MiB that the memory cgroup of this process allows (/cg/a/b/memory.max)"
    );
}

#[test]
fn memory_high_is_a_limit_too() {
    let files =
        [MEMINFO, GROUP, V2, ("/cg/a/b/memory.max", "268435456"), ("/cg/a/b/memory.high", "134217728")];
    let lowest = read(&files).lowest().unwrap().clone();
    assert_eq!((lowest.bytes, lowest.set_by), (128 * MIB, cgroup("/cg/a/b/memory.high")));
}

#[test]
fn a_container_finds_its_limit_at_the_top() {
    let files = [MEMINFO, ("/proc/self/cgroup", "0::/\n"), V2, ("/cg/memory.max", "209715200\n")];
    assert_eq!(read(&files).lowest().unwrap().bytes, 200 * MIB);
}

#[test]
fn what_is_used_is_gone_but_not_the_pages_of_files() {
    let files = [
        MEMINFO,
        GROUP,
        V2,
        ("/cg/a/b/memory.max", "209715200\n"),
        ("/cg/a/b/memory.current", "104857600\n"),
        (
            "/cg/a/b/memory.stat",
            "anon 1\nfile 62914560\nshmem 10\ninactive_file 31457280\nactive_file 10485760\n",
        ),
        // The group around it allows more, but others have used most of it.
        ("/cg/a/memory.max", "419430400\n"),
        ("/cg/a/memory.current", "398458880\n"),
    ];
    let limits = read(&files);
    let lowest = limits.lowest().unwrap();
    assert_eq!((lowest.bytes, lowest.left), (200 * MIB, 140 * MIB));
    let tightest = limits.tightest().unwrap();
    assert_eq!((tightest.left, &tightest.set_by), (20 * MIB, &cgroup("/cg/a/memory.max")));
    assert_eq!(tightest.spare(), 0);
}

#[test]
fn version_1_writes_no_limit_as_a_huge_number() {
    let with = |own, above| {
        let files = [
            MEMINFO,
            ("/proc/self/cgroup", "4:memory:/a/b\n1:cpu:/\n0::/\n"),
            HYBRID,
            ("/cg/memory/a/b/memory.limit_in_bytes", own),
            ("/cg/memory/a/memory.limit_in_bytes", above),
            ("/cg/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/cg/memory/a/b/memory.usage_in_bytes", "52428800\n"),
            (
                "/cg/memory/a/b/memory.stat",
                "active_file 1\ntotal_active_file 10485760\ntotal_inactive_file 1048576\n",
            ),
        ];
        read(&files).lowest().unwrap().clone()
    };
    assert_eq!(with("9223372036854771712\n", "9223372036854771712\n").set_by, LimitSetter::Machine);
    assert_eq!(
        with("9223372036854771712\n", "104857600\n").set_by,
        cgroup("/cg/memory/a/memory.limit_in_bytes")
    );
    let own = with("104857600\n", "9223372036854771712\n");
    assert_eq!((own.bytes, own.left), (100 * MIB, 61 * MIB));
}

#[test]
fn version_1_tells_of_limits_that_cannot_be_seen() {
    let with = |around: &str| {
        let stat = format!("cache 0\nhierarchical_memory_limit {around}\nhierarchical_memsw_limit 5\n");
        let files = [
            MEMINFO,
            ("/proc/self/cgroup", "4:memory:/\n"),
            HYBRID,
            ("/cg/memory/memory.limit_in_bytes", "209715200\n"),
            ("/cg/memory/memory.stat", &stat),
        ];
        read(&files).lowest().unwrap().clone()
    };
    assert_eq!(with("209715200").set_by, cgroup("/cg/memory/memory.limit_in_bytes"));
    assert_eq!(with("9223372036854771712").bytes, 200 * MIB);
    let around = with("104857600");
    assert_eq!((around.bytes, around.set_by), (100 * MIB, cgroup("/cg/memory/memory.stat")));
}

#[test]
fn garbage_is_no_limit() {
    for text in ["", "\n", "x", "-1", "99999999999999999999999", "12 34", "0x10", "\0\u{fffd}"] {
        let files = [
            MEMINFO,
            ("/proc/self/cgroup", "0::/\n"),
            V2,
            ("/cg/memory.max", text),
            ("/cg/memory.high", text),
            ("/cg/memory.current", text),
            ("/cg/memory.stat", text),
        ];
        let limits = read(&files);
        assert_eq!(limits.lowest().unwrap().set_by, LimitSetter::Machine, "{text}");
        assert_eq!(limits.0.len(), 1, "{text}");
    }
    // Nothing may be used: no reason to divide by it.
    let files = [("/proc/self/cgroup", "0::/\n"), V2, ("/cg/memory.max", "0\n")];
    assert_eq!(read(&files).tightest().map(|limit| (limit.bytes, limit.spare())), Some((0, 0)));
}

#[test]
fn this_machine_has_memory_left() {
    let here = MemoryLimits::of_this_process();
    let lowest = here.lowest().unwrap();
    println!("{lowest}, {} left", quantity::bytes(lowest.left));
    assert!(lowest.bytes >= lowest.left && lowest.left > 0, "{here:?}");
}

#[test]
fn private_memory_is_read_in_bytes() {
    let status = "VmRSS:\t    9000 kB\nRssAnon:\t    1328 kB\nRssFile:\t    7672 kB\n";
    with_files(&[("/proc/self/status", status)], |files| {
        assert_eq!(private_memory(files), Some(1328 << 10));
    });
    with_files(&[], |files| assert_eq!(private_memory(files), None));
}
