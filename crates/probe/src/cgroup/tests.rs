use outboard_limits::with_files;

use super::*;

const V1_MOUNTS: &str = "\
32 31 0:29 / /cg/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /cg/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /cg/unified rw,relatime - cgroup2 cgroup2 rw
";
const V2_MOUNTS: &str = "30 23 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

#[test]
fn version_1_limits_are_the_smallest_on_the_way_up() {
    let files = [
        ("/proc/self/cgroup", "4:memory:/a/b\n1:cpu:/a\n0::/\n"),
        ("/proc/self/mountinfo", V1_MOUNTS),
        ("/cg/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
        ("/cg/memory/a/memory.limit_in_bytes", "1073741824\n"),
        ("/cg/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("/cg/cpu/a+w", ""),
        ("/cg/cpu/a/cpu.cfs_quota_us", "-1\n"),
        ("/cg/cpu/a/cpu.cfs_period_us", "100000\n"),
        ("/cg/cpu/cpu.cfs_quota_us", "150000\n"),
        ("/cg/cpu/cpu.cfs_period_us", "100000\n"),
    ];
    let cgroup = with_files(&files, Cgroup::probe);
    assert_eq!(cgroup.version, Some(GroupVersion::V1));
    assert_eq!(cgroup.memory_limit, Some(1 << 30));
    assert_eq!(cgroup.cpu_quota, Some(1.5));
    assert_eq!(cgroup.child_quota, ChildQuota::Now { parent: "/cg/cpu/a".to_owned() });
    assert!(cgroup.findings().iter().all(|finding| finding.state == FindingState::Good));
}

#[test]
fn version_2_limits_are_the_smallest_on_the_way_up() {
    let files = [
        ("/proc/self/cgroup", "0::/user.slice/app.scope\n"),
        ("/proc/self/mountinfo", V2_MOUNTS),
        ("/cg/user.slice/app.scope/memory.max", "max\n"),
        ("/cg/user.slice/memory.max", "536870912\n"),
        ("/cg/user.slice/app.scope/cpu.max", "30000 100000\n"),
        ("/cg/user.slice/cpu.max", "max 100000\n"),
        ("/cg/user.slice/app.scope/cgroup.controllers", "memory pids\n"),
    ];
    let cgroup = with_files(&files, Cgroup::probe);
    assert_eq!(cgroup.version, Some(GroupVersion::V2));
    assert_eq!(cgroup.memory_limit, Some(512 << 20));
    assert_eq!(cgroup.cpu_quota, Some(0.3));
    assert!(matches!(&cgroup.child_quota, ChildQuota::Never { why } if why.contains("not given")));
    let limited: Vec<_> =
        cgroup.findings().into_iter().filter(|finding| finding.state == FindingState::Limited).collect();
    assert_eq!(limited.len(), 2, "{limited:?}");
    assert!(limited.iter().all(|finding| finding.fix.is_some()), "{limited:?}");
}

#[test]
fn a_group_without_room_is_a_limit_with_a_file_to_mend() {
    let with = |used| {
        let files = [
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", V2_MOUNTS),
            ("/cg/memory.max", "209715200\n"),
            ("/cg/memory.current", used),
        ];
        with_files(&files, Cgroup::probe)
    };
    let (roomy, full) = (with("10485760\n"), with("209000000\n"));
    assert_eq!((roomy.memory_left, roomy.memory_finding().state), (Some(190 << 20), FindingState::Good));
    let finding = full.memory_finding();
    assert_eq!(finding.state, FindingState::Limited);
    assert!(finding.detail.contains("200 MiB by /cg/memory.max"), "{finding:?}");
    assert!(finding.fix.unwrap().contains("/cg/memory.max"));
}

/// A group of version 2 with the given files beside its controllers.
fn child_quota(controllers: &str, files: &[(&str, &str)]) -> ChildQuota {
    let mut all = vec![("/cg/g/cgroup.controllers", controllers)];
    all.extend(files);
    let place = GroupFolder { version: GroupVersion::V2, folder: "/cg/g".to_owned(), top: "/cg".to_owned() };
    with_files(&all, |files| child_quota_v2(files, &place))
}

#[test]
fn version_2_hands_controllers_on_only_from_groups_without_processes() {
    let parent = || "/cg/g".to_owned();
    let handed_on = [("/cg/g+w", ""), ("/cg/g/cgroup.subtree_control", "cpu memory\n")];
    assert_eq!(child_quota("cpu memory\n", &handed_on), ChildQuota::Now { parent: parent() });
    let top = [("/cg/g+w", ""), ("/cg/g/cgroup.subtree_control+w", "\n")];
    assert_eq!(child_quota("cpu\n", &top), ChildQuota::Now { parent: parent() });
    let ours = [top[0], top[1], ("/cg/g/cgroup.type", "domain\n")];
    assert_eq!(child_quota("cpu\n", &ours), ChildQuota::AfterMoving { parent: parent() });
    assert!(matches!(child_quota("cpuset\n", &handed_on), ChildQuota::Never { .. }));
    let read_only = [("/cg/g", ""), handed_on[1]];
    assert!(matches!(child_quota("cpu\n", &read_only), ChildQuota::Never { .. }));
    assert!(matches!(child_quota("cpu\n", &[("/cg/g+w", "")]), ChildQuota::Never { .. }));
}

#[test]
fn a_machine_without_groups_has_no_limits() {
    let cgroup = with_files(&[], Cgroup::probe);
    assert_eq!((cgroup.version, cgroup.memory_limit, cgroup.cpu_quota), (None, None, None));
    assert!(matches!(cgroup.child_quota, ChildQuota::Never { .. }));
}

#[test]
fn a_version_1_group_that_may_not_be_written_gets_no_child() {
    let place =
        GroupFolder { version: GroupVersion::V1, folder: "/cg/cpu".to_owned(), top: "/cg/cpu".to_owned() };
    let quota = ("/cg/cpu/cpu.cfs_quota_us", "-1\n");
    let why = |files: &[(&str, &str)]| match with_files(files, |files| child_quota_v1(files, &place)) {
        ChildQuota::Never { why } => why,
        other => panic!("{other:?}"),
    };
    assert!(why(&[quota, ("/cg/cpu", "")]).contains("may not be written"));
    assert!(why(&[("/cg/cpu+w", "")]).contains("CONFIG_CFS_BANDWIDTH"));
}
