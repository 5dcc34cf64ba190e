//! The parts of this machine's memory, and buffers in a part of one's choice.

use outboard_link::memory::Buffer;
use rustix::io::Errno;

/// The nodes that have memory, as the kernel numbers them; empty if it does not say.
const WITH_MEMORY: &str = "/sys/devices/system/node/has_memory";

/// Where buffers can lie.
pub(super) struct Nodes {
    /// The nodes to try; `None` stands for wherever the kernel puts them.
    pub(super) choices: Vec<Option<u32>>,
    /// Why there is no choice although there are several nodes.
    pub(super) remark: Option<String>,
}

impl Nodes {
    /// Looks what there is, and whether memory can be bound to it.
    pub(super) fn survey() -> Self {
        let text = std::fs::read_to_string(WITH_MEMORY).unwrap_or_default();
        let Some(nodes) = parse_list(&text).filter(|nodes| !nodes.is_empty()) else {
            return Self { choices: vec![None], remark: None };
        };
        let tried = nodes.iter().try_for_each(|node| allocate(1, Some(*node)).map(drop));
        match (tried, nodes.len()) {
            (Ok(()), _) => Self { choices: nodes.into_iter().map(Some).collect(), remark: None },
            // With one node there is nothing to bind.
            (Err(_), 1) => Self { choices: vec![None], remark: None },
            (Err(errno), count) => {
                let remark = format!(
                    "this machine has {count} memory nodes, but buffers cannot be bound to one of them \
                     (mbind: {errno}), so all figures are for wherever the kernel puts them"
                );
                Self { choices: vec![None], remark: Some(remark) }
            }
        }
    }
}

/// A buffer of at least `len` bytes on a node.
pub(super) fn allocate(len: usize, node: Option<u32>) -> Result<Buffer, Errno> {
    let buffer = Buffer::allocate(len)?;
    if let Some(node) = node {
        bind(&buffer, node)?;
    }
    // The pages are taken now, not while the measurement runs.
    let page = rustix::param::page_size();
    for offset in (0..buffer.len()).step_by(page) {
        buffer.window_mut().set_word(offset, 1);
    }
    Ok(buffer)
}

/// The kernel takes all pages of `buffer`, none of which exists yet, from `node`.
fn bind(buffer: &Buffer, node: u32) -> Result<(), Errno> {
    const BITS: u32 = usize::BITS;
    let mut mask = vec![0usize; (node / BITS + 1) as usize];
    mask[(node / BITS) as usize] = 1 << (node % BITS);
    // One more than there are: the kernel does not look at the last.
    let bits = mask.len() * BITS as usize + 1;
    let start = buffer.window_mut().as_mut_ptr();
    // SAFETY: the range is a mapping of our own, the mask has as many bits as it says, and where pages come from
    // changes nothing that a program can see in them.
    let answer = unsafe {
        libc::syscall(libc::SYS_mbind, start, buffer.len(), libc::MPOL_BIND, mask.as_ptr(), bits, 0usize)
    };
    if answer == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

/// The numbers in a list like `0-2,8`; `None` if it is no such list.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    /// More nodes than any kernel is built for.
    const MOST: u32 = 4096;
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_are_read_or_refused() {
        assert_eq!(parse_list("0\n"), Some(vec![0]));
        assert_eq!(parse_list("0-2,8"), Some(vec![0, 1, 2, 8]));
        assert_eq!(parse_list(""), Some(vec![]));
        for wrong in ["2-1", "x", "0-99999999", "-", "1-2-3"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn there_is_somewhere_to_put_buffers() {
        let nodes = Nodes::survey();
        assert!(!nodes.choices.is_empty());
        for node in nodes.choices {
            let buffer = allocate(3 << 12, node).unwrap();
            assert_eq!(buffer.window().word(2 << 12), 1);
        }
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused() {
        assert!(allocate(1, Some(4000)).is_err());
    }
}
