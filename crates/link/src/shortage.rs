//! What a process or its machine has run out of, told so that somebody can do something about it.

use outboard_wire::{Refusal, RefusalReason};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::Identity;

/// What the operating system has no more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shortage {
    /// This process has as many descriptors as it may have.
    Descriptors { limit: Option<u64> },
    /// All processes of the machine together have.
    DescriptorsOfMachine,
    /// Memory, or mappings of it.
    Memory,
}

impl Shortage {
    /// What an error of a system call means, if it is a shortage.
    fn of(source: Errno) -> Option<Self> {
        match source {
            Errno::MFILE => Some(Self::Descriptors { limit: getrlimit(Resource::Nofile).current }),
            Errno::NFILE => Some(Self::DescriptorsOfMachine),
            Errno::NOMEM | Errno::NOBUFS => Some(Self::Memory),
            _ => None,
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Descriptors { .. } | Self::DescriptorsOfMachine => "descriptors",
            Self::Memory => "memory or mappings",
        }
    }

    /// What to do about it.
    fn remedy(self) -> String {
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

/// The same of this process, for its own user.
pub(crate) fn explain(source: Errno) -> String {
    why_failed("this process", source)
}

/// What a client is told that cannot be served because `call` failed.
pub(crate) fn no_room(identity: &Identity, call: &str, source: Errno) -> Box<Refusal> {
    let Identity { role, name, .. } = identity;
    let detail = match Shortage::of(source) {
        Some(shortage) => {
            let (what, remedy) = (shortage.what(), shortage.remedy());
            format!("{role} “{name}” has no {what} left for another client{remedy}")
        }
        None => format!("{role} “{name}” cannot serve another client: {call}: {source}"),
    };
    Box::new(Refusal::new(RefusalReason::Busy, &detail))
}

#[cfg(test)]
mod tests {
    use outboard_wire::Role;

    use super::*;

    #[test]
    fn a_refusal_says_who_lacks_what_and_what_to_do() {
        let name = "a server whose name is as long ä";
        let identity = Identity::new(Role::MemoryServer, name);
        for (source, what, remedy) in [
            (Errno::MFILE, "no descriptors left for another client (limit ", "LimitNOFILE="),
            (Errno::NFILE, "no descriptors left for another client, nor has its machine", "fs.file-max"),
            (Errno::NOMEM, "no memory or mappings left for another client", "vm.max_map_count"),
        ] {
            let refusal = no_room(&identity, "call", source);
            let told = refusal.detail.as_str();
            assert!(told.contains(name) && told.contains(what) && told.ends_with(remedy), "{told}");
            assert_eq!(refusal.reason, RefusalReason::Busy);
        }
        let told = no_room(&identity, "setsockopt", Errno::INVAL).detail;
        assert!(told.as_str().contains("setsockopt: "), "{told}");
    }

    #[test]
    fn ones_own_shortage_is_told_as_ones_own() {
        assert!(explain(Errno::MFILE).starts_with("this process has no descriptors left (limit "));
        assert_eq!(explain(Errno::INVAL), Errno::INVAL.to_string());
    }
}
