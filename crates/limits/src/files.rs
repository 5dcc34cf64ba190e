//! Where the texts of `/proc` and `/sys` come from.

use std::str::FromStr;

use rustix::fs::Access;

/// Reads the kernel's text files, from this machine or from a sample of another one.
pub struct Files<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    writable: &'a dyn Fn(&str) -> bool,
}

impl Files<'static> {
    /// This machine's.
    pub fn of_this_machine() -> Self {
        Self {
            read: &|path| std::fs::read_to_string(path).ok(),
            writable: &|path| rustix::fs::access(path, Access::WRITE_OK).is_ok(),
        }
    }
}

impl Files<'_> {
    /// A whole file, if it exists and may be read.
    pub fn text(&self, path: &str) -> Option<String> {
        (self.read)(path)
    }

    /// A file that holds one word or number.
    pub fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.trim().parse().ok()
    }

    /// Whether this process may write there.
    pub fn is_writable(&self, path: &str) -> bool {
        (self.writable)(path)
    }
}

/// The rest of the first line that begins with `key`, without white space around it.
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// Calls `look` with a machine that has these files, of which those that end in `+w` may be written: for tests of what
/// other machines say.
pub fn with_files<T>(files: &[(&str, &str)], look: impl Fn(&Files<'_>) -> T) -> T {
    let found = |path: &str| files.iter().find(|(name, _)| name.trim_end_matches("+w") == path);
    let read = |path: &str| found(path).map(|(_, text)| (*text).to_owned());
    let writable = |path: &str| found(path).is_some_and(|(name, _)| name.ends_with("+w"));
    look(&Files { read: &read, writable: &writable })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_values_are_found_by_name() {
        let status = "Name:\tcat\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000080000\n";
        assert_eq!(field(status, "CapEff:"), Some("0000000000080000"));
        assert_eq!(field(status, "Seccomp:"), None);
        with_files(&[("/proc/a", "7\n"), ("/proc/b+w", "seven\n")], |files| {
            assert_eq!(files.value::<u32>("/proc/a"), Some(7));
            assert_eq!(files.value::<u32>("/proc/b"), None);
            assert_eq!(files.value::<u32>("/proc/c"), None);
            assert!(files.is_writable("/proc/b") && !files.is_writable("/proc/a"));
        });
    }
}
