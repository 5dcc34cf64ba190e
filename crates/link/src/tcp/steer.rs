//! Connections that say to which slot they belong, and a kernel that gives them to the listener of that slot.
//!
//! The slot stands in the flow label of the connection's IPv6 packets, where network cards find it too: this is what
//! their flow rules do with queues, done by the kernel with listeners. The kernel runs a small program (classic BPF) for
//! every new connection, and the connection belongs to its listener from then on.

use std::net::{SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_int, c_void, sock_filter, sock_fprog};
use rustix::io::Errno;

/// How many slots there are.
pub(super) const SLOTS: usize = 256;

/// The first twelve of the twenty bits of all labels of slots. The highest is clear: labels that have it set are drawn by
/// the kernel for connections that have none.
const TAG: u32 = 0x0b0;
/// The first word of a packet: the version, and the label's first twelve bits.
const MASK: u32 = 0xf00f_ff00;
const EXPECTED: u32 = 6 << 28 | TAG << 8;

/// The flow label of connections of a slot.
fn flow_label(slot: u8) -> u32 {
    TAG << 8 | u32::from(slot)
}

/// A program that returns the number of the listener that takes a connection: that of its slot, or `others` if it belongs
/// to none.
fn program(table: &[u8; SLOTS], others: u8) -> Vec<sock_filter> {
    let step = |code: u32, k: u32, (jt, jf): (u8, u8)| sock_filter { code: code as u16, jt, jf, k };
    let load = step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::SKF_NET_OFF as u32, (0, 0));
    let and = |mask| step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, (0, 0));
    let answer = |listener: u8| step(libc::BPF_RET | libc::BPF_K, listener.into(), (0, 0));
    let jump = libc::BPF_JMP | libc::BPF_K;
    let mut steps = vec![load, and(MASK), step(jump | libc::BPF_JEQ, EXPECTED, (1, 0)), answer(others)];
    steps.extend([load, and(SLOTS as u32 - 1)]);
    // From the last run of slots with the same listener to the first.
    for first in (1..SLOTS).rev().filter(|slot| table[*slot] != table[slot - 1]) {
        steps.extend([step(jump | libc::BPF_JGE, first as u32, (0, 1)), answer(table[first])]);
    }
    steps.push(answer(table[0]));
    steps
}

/// Has the kernel choose among the listeners of a port, by their places in the order in which they began to listen.
pub(super) fn attach(listener: BorrowedFd<'_>, table: &[u8; SLOTS], others: u8) -> Result<(), Errno> {
    let mut steps = program(table, others);
    let program = sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    set_option(listener, (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF), &program)
}

/// A request for a label, as the kernel reads it.
#[repr(C)]
struct LabelRequest {
    destination: [u8; 16],
    label: u32,
    action: u8,
    share: u8,
    flags: u16,
    expires_seconds: u16,
    linger_seconds: u16,
    reserved: u32,
}

/// The kernel leases the label to this socket, makes it if no socket has it, and lets other sockets have it too.
const GET: u8 = 0;
const CREATE: u16 = 1;
const ANY_SOCKET: u8 = 255;

/// Lets connections from `socket` carry a slot's label. Returns the address to connect to; one without labels stays as it
/// is.
pub(super) fn label(socket: impl AsFd, address: SocketAddr, slot: u8) -> Result<SocketAddr, Errno> {
    let SocketAddr::V6(v6) = address else { return Ok(address) };
    if v6.ip().to_ipv4_mapped().is_some() {
        return Ok(address);
    }
    let request = LabelRequest {
        destination: v6.ip().octets(),
        label: flow_label(slot).to_be(),
        action: GET,
        share: ANY_SOCKET,
        flags: CREATE,
        expires_seconds: 0,
        linger_seconds: 0,
        reserved: 0,
    };
    let socket = socket.as_fd();
    set_option(socket, (libc::IPPROTO_IPV6, libc::IPV6_FLOWLABEL_MGR), &request)?;
    set_option(socket, (libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND), &(1 as c_int))?;
    Ok(SocketAddrV6::new(*v6.ip(), v6.port(), flow_label(slot), v6.scope_id()).into())
}

fn set_option<T>(socket: BorrowedFd<'_>, (level, name): (c_int, c_int), value: &T) -> Result<(), Errno> {
    let (value, len) = (core::ptr::from_ref(value).cast::<c_void>(), size_of::<T>() as libc::socklen_t);
    // SAFETY: an open socket, and a value that is as long as said and of the type that the option has; what it points to
    // is read during the call only.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) };
    if set == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of the program to a packet that begins with this word.
    fn run(steps: &[sock_filter], word: u32) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = steps[at];
            let is_true = match u32::from(code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    value = word;
                    false
                }
                code if code == libc::BPF_ALU | libc::BPF_AND => {
                    value &= k;
                    false
                }
                code if code == libc::BPF_JMP | libc::BPF_JEQ => value == k,
                code if code == libc::BPF_JMP | libc::BPF_JGE => value >= k,
                _ => return k,
            };
            at += 1 + usize::from(if is_true { jt } else { jf });
        }
    }

    #[test]
    fn every_slot_has_its_listener_and_others_have_theirs() {
        let by_turns = core::array::from_fn(|slot| (slot % 3) as u8);
        let in_runs = core::array::from_fn(|slot| (slot / 100) as u8);
        for table in [by_turns, in_runs, [7; SLOTS]] {
            let steps = program(&table, 9);
            for slot in 0..=u8::MAX {
                // Whatever the traffic class is.
                for class in [0, 0xff << 20] {
                    let word = 6 << 28 | class | flow_label(slot);
                    assert_eq!(run(&steps, word), table[usize::from(slot)].into(), "slot {slot}");
                }
            }
            // The version before, a label that the kernel has drawn, and none.
            for word in [4 << 28 | flow_label(1), 6 << 28 | 0x8_b001, 6 << 28] {
                assert_eq!(run(&steps, word), 9, "{word:#x}");
            }
        }
    }
}
