//! The kernel bounds how many descriptors one user has on their way through sockets. Clients of a node need one for their
//! link, those over a network none.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use outboard_e2e::{Place, Process, await_state};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use rustix::process::{Signal, Uid};
use rustix::thread::set_thread_res_uid;

/// A user that nothing else here runs as.
const USER: u32 = 61_234;
/// How many descriptors the daemon may have, and so how many of its user's may be on their way before it has to wait.
const LIMIT: usize = 128;
/// How many descriptors one message carries at most.
const PER_MESSAGE: usize = 253;

/// Has more descriptors on their way, as [`USER`], than the daemon may have, until the socket is dropped.
fn fill_the_way() -> [OwnedFd; 2] {
    let filling = thread::spawn(|| {
        let user = Uid::from_raw(USER);
        // This thread does nothing else and ends as this user.
        set_thread_res_uid(user, user, user).expect("root may become anybody");
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let passed = vec![near.as_fd(); PER_MESSAGE];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PER_MESSAGE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
        sendmsg(&near, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        drop(passed);
        [near, far]
    });
    filling.join().expect("descriptors can be sent")
}

/// Starts the program with few descriptors, which it cannot raise.
fn start_as_user(place: &Place, arguments: &[&str]) -> Process {
    let program = place.outboard(arguments);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {LIMIT} && exec \"$0\" \"$@\"")]).arg(program.get_program());
    command
        .args(program.get_args())
        .envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.uid(USER).gid(USER).current_dir("/").env("OUTBOARD_LINK_HANDSHAKE_TIMEOUT", "60s");
    Process::start_told(command)
}

fn descriptors(daemon: &Process) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("it runs").count()
}

#[test]
fn clients_over_a_network_do_not_wait_for_those_whose_descriptor_cannot_be_passed() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can play another user");
        return;
    }
    let (place, port) = (Place::new(), "tcp:127.0.0.1:0");
    let at = place.socket();
    let mut server =
        start_as_user(&place, &["memory", "--listen", &at, "--listen", port, "--capacity", "1MiB"]);
    let line = server.await_line(["listens at"]);
    let remote =
        line.split([' ', ',']).find(|word| word.starts_with("tcp:")).expect("it has a port").to_owned();
    let way = fill_the_way();
    let before = descriptors(&server);
    let waiting = start_as_user(&place, &["memory", "list", "--server", &at]);
    await_state("a visitor", || match descriptors(&server) > before {
        true => Ok(()),
        false => Err("none".to_owned()),
    });
    for _ in 0..3 {
        let (status, said) = start_as_user(&place, &["memory", "list", "--server", &remote]).exit();
        assert_eq!(status.code(), Some(0), "{said:?}");
    }
    drop(way);
    let (status, said) = waiting.exit();
    assert_eq!(status.code(), Some(0), "it has waited long enough to be served: {said:?}");
    server.signal(Signal::TERM);
    assert_eq!(server.exit().0.code(), Some(0));
    place.assert_nothing_left();
}
