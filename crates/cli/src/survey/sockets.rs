//! The processes of this machine that listen at a Unix socket without a file.

use std::collections::BTreeSet;

/// The kernel's list of all Unix sockets.
const LIST: &str = "/proc/net/unix";
/// The flag of a socket that listens (`__SO_ACCEPTCON`).
const LISTENS: u32 = 1 << 16;

/// The names of all abstract sockets where a process listens, in order.
pub(crate) fn listening() -> BTreeSet<String> {
    std::fs::read_to_string(LIST).map(|text| names(&text)).unwrap_or_default()
}

/// `Num RefCount Protocol Flags Type St Inode Path`, a line each.
fn names(text: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
        let path = fields.nth(3)?;
        let name = path.strip_prefix('@')?;
        (flags & LISTENS != 0).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abstract_sockets_that_listen_count() {
        let text = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0005 01 84320 @outboard-memory
0000000000000000: 00000003 00000000 00000000 0005 03 84321 @outboard-memory
0000000000000000: 00000002 00000000 00010000 0001 01 84322 /run/dbus/system_bus_socket
0000000000000000: 00000003 00000000 00000000 0001 03 84323
";
        assert_eq!(names(text), BTreeSet::from(["outboard-memory".to_owned()]));
    }
}
