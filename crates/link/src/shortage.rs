//! How a client is turned away when something has run out.

use outboard_limits::Shortage;
use outboard_wire::{Refusal, RefusalReason};
use rustix::io::Errno;

use crate::Identity;

/// The refusal of a client that cannot be served because `call` failed.
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
}
