//! Where control groups with a cpu controller can be made.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The two kinds of control groups that Linux has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// An existing group in which one could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) version: Version,
    pub(super) path: PathBuf,
}

/// The groups to try, best first: version 2 before version 1, the group of this process before those around it.
///
/// Takes the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`.
pub(super) fn folders(mountinfo: &str, own: &str) -> Vec<Folder> {
    let mut folders = Vec::new();
    for version in [Version::V2, Version::V1] {
        let group = own.lines().find_map(|line| own_group(line, version)).unwrap_or("/");
        for mount in mountinfo.lines().filter_map(|line| Mount::parse(line, version)) {
            folders.extend(mount.around(group).map(|path| Folder { version, path }));
        }
    }
    folders
}

/// The group of this process: a line is `number:controllers:group`, without controllers for version 2.
fn own_group(line: &str, version: Version) -> Option<&str> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, group) = rest.split_once(':')?;
    let is_it = match version {
        Version::V1 => controllers.split(',').any(|controller| controller == "cpu"),
        Version::V2 => controllers.is_empty(),
    };
    is_it.then_some(group)
}

struct Mount {
    /// The group that is seen at the mount point.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// `id parent major:minor root point options… - type source super-options`
    fn parse(line: &str, version: Version) -> Option<Self> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut filesystem = filesystem.split(' ');
        let kind = filesystem.next()?;
        let controllers = filesystem.nth(1)?;
        let is_it = match version {
            Version::V1 => kind == "cgroup" && controllers.split(',').any(|controller| controller == "cpu"),
            Version::V2 => kind == "cgroup2",
        };
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
        is_it.then_some(Self { root, point })
    }

    /// The folders of `group` and of all groups around it that this mount shows.
    fn around(&self, group: &str) -> impl Iterator<Item = PathBuf> {
        let below = Path::new(group).strip_prefix(&self.root).unwrap_or(Path::new(""));
        // A group outside this process's view is written with `..`.
        let is_seen = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let below = if is_seen { below } else { Path::new("") };
        below.ancestors().map(|path| self.point.join(path)).collect::<Vec<_>>().into_iter()
    }
}

/// Spaces and the like are written as `\040`.
fn unescape(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(mountinfo: &str, own: &str) -> Vec<(Version, String)> {
        let found = folders(mountinfo, own);
        found.into_iter().map(|folder| (folder.version, folder.path.display().to_string())).collect()
    }

    fn v1(path: &str) -> (Version, String) {
        (Version::V1, path.to_owned())
    }

    fn v2(path: &str) -> (Version, String) {
        (Version::V2, path.to_owned())
    }

    #[test]
    fn a_system_with_version_2_only() {
        let mounts = "\
            24 30 0:22 / /proc rw,nosuid - proc proc rw\n\
            35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let expected =
            [v2("/sys/fs/cgroup/user.slice/s.scope"), v2("/sys/fs/cgroup/user.slice"), v2("/sys/fs/cgroup/")];
        assert_eq!(paths(mounts, "0::/user.slice/s.scope\n"), expected);
    }

    #[test]
    fn a_system_with_both_and_the_cpu_controller_in_version_1() {
        let mounts = "\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
            33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "3:cpuset:/a\n2:cpu,cpuacct:/job\n0::/\n";
        let expected = [
            v2("/sys/fs/cgroup/unified/"),
            v1("/sys/fs/cgroup/cpu,cpuacct/job"),
            v1("/sys/fs/cgroup/cpu,cpuacct/"),
        ];
        assert_eq!(paths(mounts, own), expected);
    }

    #[test]
    fn a_container_sees_its_part_only() {
        let mounts = "36 35 0:32 /docker/1f /sys/fs/my\\040groups ro - cgroup2 cgroup rw\n";
        assert_eq!(
            paths(mounts, "0::/docker/1f/job\n"),
            [v2("/sys/fs/my groups/job"), v2("/sys/fs/my groups/")]
        );
        assert_eq!(paths(mounts, "0::/../other\n"), [v2("/sys/fs/my groups/")]);
        assert_eq!(paths(mounts, ""), [v2("/sys/fs/my groups/")]);
    }

    #[test]
    fn no_text_makes_it_fail() {
        for text in ["", "\n\n", "1 2 3 - cgroup2", " - cgroup2 a b", "a b c \\9 \\ - cgroup2 x y z"] {
            let _ = folders(text, text);
        }
        assert_eq!(paths("24 30 0:22 / /proc rw - proc proc rw", "0::/"), []);
    }
}
