//! Keys from the command line, and a daemon that asks for them.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use outboard_e2e::{Daemon, Ended, Folder};

fn outboard(arguments: &[&str], keys: Option<&Path>) -> Command {
    let mut command = outboard_e2e::outboard(arguments);
    command.env("OUTBOARD_LINK_ENCRYPTION", "all");
    command.env("OUTBOARD_LINK_KEYS", keys.map_or("none".into(), |keys| keys.as_os_str().to_owned()));
    command
}

fn run(arguments: &[&str], keys: Option<&Path>) -> Ended {
    Ended::of(&mut outboard(arguments, keys))
}

#[test]
fn keys_are_made_shown_and_never_replaced() {
    let (head, node) = (Folder::new(), Folder::new());
    let (at_head, at_node) = (head.name(), node.name());
    let made = run(&["keys", "init", "--dir", at_head], None);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.out.contains("outboard keys issue"));
    let issued = run(&["keys", "issue", "node7", "--for", at_node, "--dir", at_head, "--days", "30"], None);
    assert_eq!(issued.code, Some(0), "{issued:?}");
    let shown = run(&["keys", "show", at_node], None);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let shown = shown.out;
    assert!(shown.contains("node7, valid until") && shown.contains("29 days left"), "{shown}");
    assert!(run(&["keys", "show", at_head], None).out.contains("issues certificates here"));
    assert_eq!(shown, run(&["keys", "show", "--dir", at_node], None).out);
    let again = run(&["keys", "init", "--dir", at_head], None);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("not replaced"), "{}", again.err);
    let secret = run(&["keys", "secret"], None).out;
    assert_eq!(secret.trim().len(), 32, "{secret}");
    assert_ne!(secret, run(&["keys", "secret"], None).out);
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn keys_are_made_in_the_home_of_every_user() {
    let home = Folder::new();
    let mut command = outboard(&["keys", "init"], None);
    let made = Ended::of(command.env("HOME", home.path()).env_remove("XDG_CONFIG_HOME"));
    assert_eq!(made.code, Some(0), "{made:?}");
    let keys = home.path().join(".config/outboard/keys");
    assert!(made.out.starts_with(keys.to_str().unwrap()), "{}", made.out);
    // A group that is given the folder must be able to reach it.
    assert_eq!((mode(&keys), mode(&keys.join("ca.key"))), (0o700, 0o600));
    assert_eq!(
        mode(keys.parent().unwrap()) & !0o022,
        0o755,
        "a usual umask takes away what others may write"
    );
}

#[test]
fn keys_that_may_not_be_read_are_not_said_to_be_absent() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become another user");
    }
    let as_nobody = |command: &mut Command| command.uid(NOBODY).gid(NOBODY).current_dir("/").output();
    if !as_nobody(&mut outboard(&["--version"], None)).is_ok_and(|output| output.status.success()) {
        return println!("skipped: another user cannot start the program");
    }
    let config = Folder::new();
    let keys = config.path().join("outboard/keys");
    assert!(run(&["keys", "init", "--dir", keys.to_str().unwrap()], None).code == Some(0));
    std::fs::set_permissions(config.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = outboard(arguments, None);
        command.env("XDG_CONFIG_HOME", config.path()).env("OUTBOARD_LINK_KEYS", "auto");
        Ended::from(as_nobody(&mut command).unwrap()).err.to_lowercase()
    };
    for arguments in [&["keys", "show"][..], &["memory", "list", "--server", "tcp:192.0.2.7:7000"]] {
        let told = ask(arguments);
        assert!(
            told.contains("permission denied") && told.contains("outboard/keys/"),
            "{arguments:?}: {told}"
        );
    }
    // Within the machine no keys are needed.
    let told = Ended::from(
        as_nobody(
            outboard(&["memory", "list", "--server", "tcp:127.0.0.1:1"], None)
                .env("XDG_CONFIG_HOME", config.path())
                .env("OUTBOARD_LINK_KEYS", "auto")
                .env("OUTBOARD_LINK_ENCRYPTION", "remote"),
        )
        .unwrap(),
    )
    .err;
    assert!(told.contains("refused"), "{told}");
}

#[test]
fn a_daemon_lets_in_whom_its_authority_knows_and_logs_the_others() {
    let (head, node, other) = (Folder::new(), Folder::new(), Folder::new());
    let at = |folder: &Folder| folder.name().to_owned();
    assert!(run(&["keys", "init", "--dir", &at(&head)], None).code == Some(0));
    assert!(run(&["keys", "issue", "n", "--for", &at(&node), "--dir", &at(&head)], None).code == Some(0));
    assert!(run(&["keys", "init", "--dir", &at(&other)], None).code == Some(0));
    let arguments = ["memory", "--capacity", "1MiB", "--listen", "tcp:127.0.0.1:0"];
    let mut server = Daemon::of(outboard(&arguments, Some(head.path())));
    let address = server.remote().to_string();
    let list = ["memory", "list", "--server", &address];

    let friend = run(&list, Some(node.path()));
    assert_eq!(friend.code, Some(0), "{friend:?}");

    let stranger = run(&list, Some(other.path()));
    assert_eq!(stranger.code, Some(1));
    assert!(stranger.err.contains("not issued by our authority"), "{}", stranger.err);
    let line = server.process.await_line("no trust between us and tcp:127.0.0.1:");
    assert!(line.contains("WARN") && line.contains("authority"), "{line}");

    let plain = Ended::of(outboard(&list, None).env("OUTBOARD_LINK_ENCRYPTION", "none"));
    assert!(plain.err.contains("wants TLS"), "{}", plain.err);
    let line = server.process.await_line("does not speak TLS");
    assert!(line.contains("no trust between us and tcp:127.0.0.1:"), "{line}");

    // A second machine with the same mistake has a line of its own, and only one.
    let port = address_of(&address);
    for from in ["127.0.0.7", "127.0.0.7", "127.0.0.8"] {
        let mut plain = connect_from(from, &port);
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // It hangs up when it has seen enough.
        let _ = plain.read(&mut [0; 64]);
    }
    let lines = [server.process.await_line("no trust"), server.process.await_line("no trust")];
    assert!(lines[0].contains("tcp:127.0.0.7:") && lines[1].contains("tcp:127.0.0.8:"), "{lines:?}");

    let friend = run(&list, Some(node.path()));
    assert_eq!(friend.code, Some(0), "{friend:?}");
}

fn address_of(text: &str) -> SocketAddr {
    text.trim_start_matches("tcp:").parse().unwrap()
}

/// A connection that comes from another address of this machine.
fn connect_from(address: &str, to: &SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
    connect(&socket, to).unwrap();
    socket.into()
}
