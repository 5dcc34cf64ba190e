//! What functions may ask of any site. `include/calling.h` says the same in C.

use std::sync::OnceLock;

use outboard_ebpf::{Argument, Helper, Helpers, Quantity, Returns};

pub(crate) const LOG: u32 = 1;
pub(crate) const TIME: u32 = 2;
pub(crate) const RANDOM: u32 = 3;
pub(crate) const READ: u32 = 16;
pub(crate) const WRITE: u32 = 17;
pub(crate) const COMPARE_SWAP: u32 = 18;
pub(crate) const FETCH_ADD: u32 = 19;
pub(crate) const REPLY: u32 = 20;
pub(crate) const FETCH: u32 = 21;
pub(crate) const FORWARD: u32 = 22;
pub(crate) const FORWARD_TO: u32 = 23;

/// The longest message that a function can log, in bytes.
pub(crate) const LOG_LEN_MAX: u64 = 1024;

/// The helpers of every site. Those that reach a region may take longer, so functions that call them have no variables.
pub fn helpers() -> Helpers {
    // One for all functions: it is looked at by every call of a helper, and is in the caches then.
    static ALL: OnceLock<Helpers> = OnceLock::new();
    ALL.get_or_init(list).clone()
}

fn list() -> Helpers {
    use Argument::{Reads, Scalar, Writes};
    let helper = |id, name: &str, arguments: &[Argument], may_suspend| Helper {
        id,
        name: name.to_owned(),
        arguments: arguments.to_vec(),
        returns: Returns::Scalar,
        may_suspend,
    };
    let fetched = Returns::Buffer { slot: Quantity::Argument(3), length: Quantity::Argument(2) };
    let fetch = helper(FETCH, "region_fetch", &[Scalar, Scalar, Scalar, Scalar], true);
    let second = Quantity::Argument(1);
    let (third, fourth) = (Quantity::Argument(2), Quantity::Argument(3));
    let all = vec![
        helper(LOG, "outboard_log", &[Reads(second), Scalar], false),
        helper(TIME, "outboard_time", &[], false),
        helper(RANDOM, "outboard_random", &[], false),
        helper(READ, "region_read", &[Scalar, Scalar, Writes(fourth), Scalar], true),
        helper(WRITE, "region_write", &[Scalar, Scalar, Reads(fourth), Scalar], true),
        helper(COMPARE_SWAP, "region_compare_swap", &[Scalar, Scalar, Scalar, Scalar], true),
        helper(FETCH_ADD, "region_fetch_add", &[Scalar, Scalar, Scalar], true),
        helper(REPLY, "reply", &[Reads(second), Scalar], false),
        Helper { returns: fetched, ..fetch },
        helper(FORWARD, "forward", &[Scalar, Reads(third), Scalar], false),
        helper(FORWARD_TO, "forward_to", &[Scalar, Scalar, Reads(fourth), Scalar], false),
    ];
    // The list is fixed, and a test makes it.
    Helpers::new(all).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_one() {
        assert_eq!(helpers().all().len(), 11);
        assert_eq!(helpers().get(REPLY).map(|helper| helper.name.as_str()), Some("reply"));
    }

    #[test]
    fn the_header_says_the_same() {
        let header = include_str!("../include/calling.h");
        for helper in helpers().all().iter().filter(|helper| helper.id >= READ) {
            assert!(header.contains(&format!("// Number {}.", helper.id)), "{}", helper.name);
            assert!(header.contains(&format!("{}(", helper.name)), "{}", helper.name);
        }
    }
}
