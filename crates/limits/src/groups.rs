//! Which control groups a process is in, and where they are mounted.

use serde::Serialize;

use crate::files::Files;

/// The two kinds of control groups that Linux has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupVersion {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy for all.
    V2,
}

/// The control groups of a process, and the mounts that show them.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// The text of `/proc/self/cgroup`.
    cgroup: String,
    /// The text of `/proc/self/mountinfo`.
    mountinfo: String,
}

impl Groups {
    /// Those of this process.
    pub fn of_this_process() -> Self {
        Self::read(&Files::of_this_machine())
    }

    /// Those that these files tell of.
    pub fn read(files: &Files<'_>) -> Self {
        let text = |path| files.text(path).unwrap_or_default();
        Self { cgroup: text("/proc/self/cgroup"), mountinfo: text("/proc/self/mountinfo") }
    }

    /// Where `controller` rules this process: a hierarchy of its own, else the one for all; none where neither is mounted.
    pub fn place(&self, controller: &str) -> Option<GroupFolder> {
        let first = |version| self.places(version, controller).into_iter().next();
        first(GroupVersion::V1).or_else(|| first(GroupVersion::V2))
    }

    /// Every place where the hierarchy of this version with `controller` shows this process's group. The hierarchy of
    /// version 2 is shown whether it has the controller or not.
    pub fn places(&self, version: GroupVersion, controller: &str) -> Vec<GroupFolder> {
        let Some(path) = self.cgroup.lines().find_map(|line| path_of(line, version, controller)) else {
            return Vec::new();
        };
        let mounts = self.mountinfo.lines().filter_map(|line| Mount::parse(line, version, controller));
        mounts.map(|mount| mount.place(path, version)).collect()
    }
}

/// The group that a line `number:controllers:group` tells of; version 2 has no controllers there.
fn path_of<'a>(line: &'a str, version: GroupVersion, controller: &str) -> Option<&'a str> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    let is_it = match version {
        GroupVersion::V1 => controllers.split(',').any(|name| name == controller),
        GroupVersion::V2 => controllers.is_empty(),
    };
    is_it.then_some(path)
}

/// The folder of a process's group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFolder {
    /// In which kind of hierarchy.
    pub version: GroupVersion,
    /// The folder of the group that the process is in.
    pub folder: String,
    /// The topmost folder that can be seen.
    pub top: String,
}

impl GroupFolder {
    /// The process's own folder and all above it that can be seen, lowest first.
    pub fn upwards(&self) -> impl Iterator<Item = &str> {
        let below = self.folder.strip_prefix(&self.top).unwrap_or("");
        let ends = below.rmatch_indices('/').map(|(at, _)| self.top.len() + at);
        std::iter::once(self.folder.len()).chain(ends).filter_map(|end| self.folder.get(..end))
    }
}

/// One line of `/proc/self/mountinfo`.
struct Mount {
    /// Which folder of the hierarchy is mounted.
    root: String,
    point: String,
}

impl Mount {
    /// `id parent major:minor root point options… - type source super-options`
    fn parse(line: &str, version: GroupVersion, controller: &str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (kind, options) = (system.next()?, system.nth(1)?);
        let is_it = match version {
            GroupVersion::V1 => kind == "cgroup" && options.split(',').any(|option| option == controller),
            GroupVersion::V2 => kind == "cgroup2",
        };
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
        is_it.then_some(Self { root, point })
    }

    /// In a container the mounted folder may itself be a group, and paths may begin above it.
    fn place(self, path: &str, version: GroupVersion) -> GroupFolder {
        let root = self.root.trim_end_matches('/');
        let below = path.strip_prefix(root).filter(|below| below.is_empty() || below.starts_with('/'));
        let below = below.unwrap_or("").trim_end_matches('/');
        // A path that leads out of the namespace cannot be followed.
        let below = if below.contains("/..") { "" } else { below };
        GroupFolder { version, folder: format!("{}{below}", self.point), top: self.point }
    }
}

/// The kernel writes spaces and the like as `\040`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
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

    fn groups(cgroup: &str, mountinfo: &str) -> Groups {
        Groups { cgroup: cgroup.to_owned(), mountinfo: mountinfo.to_owned() }
    }

    #[test]
    fn version_1_has_a_place_for_each_controller() {
        let here = groups(V1_GROUPS, V1_MOUNTS);
        let memory = here.place("memory").unwrap();
        let up = ["/sys/fs/cgroup/memory/batch/job7", "/sys/fs/cgroup/memory/batch", "/sys/fs/cgroup/memory"];
        assert_eq!(memory.upwards().collect::<Vec<_>>(), up);
        let cpu = here.place("cpu").unwrap();
        assert_eq!(
            (cpu.version, cpu.upwards().collect::<Vec<_>>()),
            (GroupVersion::V1, vec!["/sys/fs/cgroup/cpu"])
        );
        let mounts = V1_MOUNTS.replace("rw,cpu\n", "rw,cpu,cpuacct\n");
        assert_eq!(
            groups("2:cpu,cpuacct:/a\n", &mounts).place("cpu").unwrap().folder,
            "/sys/fs/cgroup/cpu/a"
        );
    }

    #[test]
    fn a_controller_without_a_hierarchy_of_its_own_is_in_the_one_for_all() {
        let pids = groups(V1_GROUPS, V1_MOUNTS).place("pids").unwrap();
        assert_eq!((pids.version, &*pids.folder), (GroupVersion::V2, "/sys/fs/cgroup/unified"));
    }

    #[test]
    fn version_2_has_one_place() {
        let place = groups(V2_GROUPS, V2_MOUNTS).place("memory").unwrap();
        assert_eq!((place.version, &*place.top), (GroupVersion::V2, "/sys/fs/cgroup"));
        assert_eq!(place.upwards().count(), 4);
        assert_eq!(place.upwards().next(), Some("/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"));
        assert_eq!(groups("", V2_MOUNTS).place("memory"), None);
        assert_eq!(groups("4:memory:/a\n", V2_MOUNTS).place("memory"), None);
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let mounts = "35 31 0:32 /docker/ab12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let folder =
            |path: &str| groups(&format!("4:memory:{path}\n"), mounts).place("memory").unwrap().folder;
        assert_eq!(folder("/docker/ab12/sub"), "/sys/fs/cgroup/memory/sub");
        for at_the_top in ["/docker/ab12", "/docker/ab123", "/", "/../other"] {
            assert_eq!(folder(at_the_top), "/sys/fs/cgroup/memory", "{at_the_top}");
        }
        let namespaced = "606 605 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n";
        assert_eq!(groups("0::/\n", namespaced).place("memory").unwrap().folder, "/sys/fs/cgroup");
        let outside = "606 605 0:26 /../.. /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n";
        assert_eq!(groups("0::/\n", outside).place("memory").unwrap().folder, "/sys/fs/cgroup");
        let spaced = "36 35 0:32 /docker/1f /sys/fs/my\\040groups ro - cgroup2 cgroup rw\n";
        assert_eq!(
            groups("0::/docker/1f/job\n", spaced).place("cpu").unwrap().folder,
            "/sys/fs/my groups/job"
        );
    }

    #[test]
    fn no_text_makes_it_fail() {
        for text in
            ["", "\n\n", "1 2 3 - cgroup2", " - cgroup2 a b", "a b c \\9 \\ - cgroup2 x y z", "0::", ":::"]
        {
            for controller in ["memory", ""] {
                let _ = groups(text, text).place(controller);
                let _ = groups("0::/a\n1::b\n", text).place(controller);
                let _ = groups(text, V1_MOUNTS).place(controller);
            }
        }
        assert_eq!(groups(V2_GROUPS, "24 30 0:22 / /proc rw - proc proc rw").place("memory"), None);
    }
}
