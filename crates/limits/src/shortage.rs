//! What a process or its machine has run out of, told so that a user can do something about it.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// What the operating system has no more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// This process has as many descriptors as it may have.
    Descriptors {
        /// How many that is, if there is a limit.
        limit: Option<u64>,
    },
    /// All processes of the machine together have.
    DescriptorsOfMachine,
    /// Memory, or mappings of it.
    Memory,
}

impl Shortage {
    /// What an error of a system call means, if it is a shortage.
    pub fn of(source: Errno) -> Option<Self> {
        match source {
            Errno::MFILE => Some(Self::Descriptors { limit: getrlimit(Resource::Nofile).current }),
            Errno::NFILE => Some(Self::DescriptorsOfMachine),
            Errno::NOMEM | Errno::NOBUFS => Some(Self::Memory),
            _ => None,
        }
    }

    /// What that is called.
    pub fn what(self) -> &'static str {
        match self {
            Self::Descriptors { .. } | Self::DescriptorsOfMachine => "descriptors",
            Self::Memory => "memory or mappings",
        }
    }

    /// What to do about it.
    pub fn remedy(self) -> String {
        match self {
            Self::Descriptors { limit } => {
                let limit = limit.map_or_else(String::new, |limit| format!(" (limit {limit})"));
                format!("{limit}: raise it with `ulimit -n` or LimitNOFILE=")
            }
            Self::DescriptorsOfMachine => ", nor has its machine: raise fs.file-max".to_owned(),
            Self::Memory => ": raise its memory limit or vm.max_map_count".to_owned(),
        }
    }
}

/// Why a system call of `who` failed, in words that say what to do if something has run out.
pub fn why_failed(who: &str, source: Errno) -> String {
    match Shortage::of(source) {
        Some(shortage) => format!("{who} has no {} left{}", shortage.what(), shortage.remedy()),
        None => source.to_string(),
    }
}

/// Why a system call of this process failed, for its own user.
pub fn explain(source: Errno) -> String {
    why_failed("this process", source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_own_shortage_is_told_as_ones_own() {
        assert!(explain(Errno::MFILE).starts_with("this process has no descriptors left (limit "));
        assert_eq!(explain(Errno::INVAL), Errno::INVAL.to_string());
    }
}
