//! Which control groups a process is in, and where they are mounted.

/// Where the limits of one controller are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The folder of the group this process is in.
    pub(super) folder: String,
    /// The topmost folder that can be seen.
    pub(super) top: String,
}

impl Place {
    /// The process's own folder and all above it that can be seen, lowest first.
    pub(super) fn upwards(&self) -> impl Iterator<Item = &str> {
        let below = self.folder.strip_prefix(&self.top).unwrap_or("");
        let ends = below.rmatch_indices('/').map(|(at, _)| self.top.len() + at);
        std::iter::once(self.folder.len()).chain(ends).filter_map(|end| self.folder.get(..end))
    }
}

/// The version 1 hierarchy of `controller`.
pub(super) fn version_1(cgroup: &str, mountinfo: &str, controller: &str) -> Option<Place> {
    let path = cgroup.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })?;
    let mount = mounts(mountinfo).find(|mount| {
        mount.kind == "cgroup" && mount.options.split(',').any(|option| option == controller)
    })?;
    Some(mount.place(path))
}

/// The version 2 hierarchy.
pub(super) fn version_2(cgroup: &str, mountinfo: &str) -> Option<Place> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount = mounts(mountinfo).find(|mount| mount.kind == "cgroup2")?;
    Some(mount.place(path))
}

/// One line of `/proc/self/mountinfo`.
struct Mount<'a> {
    /// Which folder of the file system is mounted.
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    /// In a container the mounted folder may itself be a group, and paths may begin above it.
    fn place(&self, path: &str) -> Place {
        let root = self.root.trim_end_matches('/');
        let below = path.strip_prefix(root).filter(|below| below.is_empty() || below.starts_with('/'));
        let below = below.unwrap_or("").trim_end_matches('/');
        // A path that leads out of the namespace cannot be followed.
        let below = if below.contains("/..") { "" } else { below };
        Place { folder: format!("{}{below}", self.point), top: self.point.to_owned() }
    }
}

fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut system = system.split(' ');
        let (root, point) = (mount.next()?, mount.next()?);
        Some(Mount { root, point, kind: system.next()?, options: system.nth(1)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const V1_GROUPS: &str = "4:memory:/batch/job7\n2:cpuacct:/\n1:cpu:/\n0::/\n";
    const V2_MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
    const V2_GROUPS: &str = "0::/user.slice/user-1000.slice/session-2.scope\n";

    #[test]
    fn version_1_has_a_place_for_each_controller() {
        let memory = version_1(V1_GROUPS, V1_MOUNTS, "memory").unwrap();
        let up = ["/sys/fs/cgroup/memory/batch/job7", "/sys/fs/cgroup/memory/batch", "/sys/fs/cgroup/memory"];
        assert_eq!(memory.upwards().collect::<Vec<_>>(), up);
        let cpu = version_1(V1_GROUPS, V1_MOUNTS, "cpu").unwrap();
        assert_eq!(cpu.upwards().collect::<Vec<_>>(), ["/sys/fs/cgroup/cpu"]);
        assert_eq!(version_1(V1_GROUPS, V1_MOUNTS, "pids"), None);
        let joined =
            version_1("2:cpu,cpuacct:/a\n", &V1_MOUNTS.replace("rw,cpu\n", "rw,cpu,cpuacct\n"), "cpu");
        assert_eq!(joined.unwrap().folder, "/sys/fs/cgroup/cpu/a");
    }

    #[test]
    fn version_2_has_one_place() {
        let place = version_2(V2_GROUPS, V2_MOUNTS).unwrap();
        assert_eq!(place.top, "/sys/fs/cgroup");
        assert_eq!(place.upwards().count(), 4);
        assert_eq!(place.upwards().next(), Some("/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"));
        assert_eq!(version_1(V2_GROUPS, V2_MOUNTS, "cpu"), None);
        assert_eq!(version_2("", V2_MOUNTS), None);
        assert_eq!(version_2(V2_GROUPS, "nonsense\n1 2 - \n"), None);
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let mounts = "35 31 0:32 /docker/ab12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let within = version_1("4:memory:/docker/ab12/sub\n", mounts, "memory").unwrap();
        assert_eq!(within.folder, "/sys/fs/cgroup/memory/sub");
        let at = version_1("4:memory:/docker/ab12\n", mounts, "memory").unwrap();
        assert_eq!(at.folder, "/sys/fs/cgroup/memory");
        for elsewhere in ["/docker/ab123", "/", "/../other"] {
            let place = version_1(&format!("4:memory:{elsewhere}\n"), mounts, "memory").unwrap();
            assert_eq!(place.folder, place.top, "{elsewhere}");
        }
    }
}
