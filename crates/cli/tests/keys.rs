//! Keys from the command line, and a daemon that asks for them.
// Also outside test functions a test fails by panicking.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("outboard-cli-keys-{}-{name}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn outboard(arguments: &[&str], keys: Option<&Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboard"));
    command.args(arguments).env("OUTBOARD_CONFIG", "none").env("OUTBOARD_LINK_ENCRYPTION", "all");
    command.env("OUTBOARD_LINK_KEYS", keys.map_or("none".into(), |keys| keys.as_os_str().to_owned()));
    command
}

fn run(arguments: &[&str], keys: Option<&Path>) -> Output {
    outboard(arguments, keys).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A memory server that is ended with the test.
struct Server {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    address: String,
}

impl Server {
    fn start(keys: &Path) -> Self {
        let arguments = ["memory", "--capacity", "1MiB", "--listen", "tcp:127.0.0.1:0"];
        let mut child = outboard(&arguments, Some(keys)).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let line = next_line(&mut log, "listens at");
        let address = line.split_whitespace().find(|word| word.starts_with("tcp:")).unwrap();
        let address = address.trim_end_matches(',').to_owned();
        Self { child, log, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next_line(log: &mut impl BufRead, part: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the log ends before it says “{part}”");
        if line.contains(part) {
            return line;
        }
    }
}

#[test]
fn keys_are_made_shown_and_never_replaced() {
    let (head, node) = (Folder::new("head"), Folder::new("node"));
    let (at_head, at_node) = (head.0.to_str().unwrap(), node.0.to_str().unwrap());
    let made = run(&["keys", "init", "--dir", at_head], None);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(text(&made.stdout).contains("outboard keys issue"));
    let issued = run(&["keys", "issue", "node7", "--for", at_node, "--dir", at_head, "--days", "30"], None);
    assert!(issued.status.success(), "{}", text(&issued.stderr));
    let shown = run(&["keys", "show", at_node], None);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let shown = text(&shown.stdout);
    assert!(shown.contains("node7, valid until") && shown.contains("29 days left"), "{shown}");
    assert!(text(&run(&["keys", "show", at_head], None).stdout).contains("issues certificates here"));
    assert_eq!(shown, text(&run(&["keys", "show", "--dir", at_node], None).stdout));
    let again = run(&["keys", "init", "--dir", at_head], None);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("not replaced"), "{}", text(&again.stderr));
    let secret = text(&run(&["keys", "secret"], None).stdout);
    assert_eq!(secret.trim().len(), 32, "{secret}");
    assert_ne!(secret, text(&run(&["keys", "secret"], None).stdout));
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn keys_are_made_in_the_home_of_every_user() {
    let home = Folder::new("home");
    std::fs::create_dir(&home.0).unwrap();
    let mut command = outboard(&["keys", "init"], None);
    let made = command.env("HOME", &home.0).env_remove("XDG_CONFIG_HOME").output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let keys = home.0.join(".config/outboard/keys");
    assert!(text(&made.stdout).starts_with(keys.to_str().unwrap()), "{}", text(&made.stdout));
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
    let config = Folder::new("closed");
    let keys = config.0.join("outboard/keys");
    assert!(run(&["keys", "init", "--dir", keys.to_str().unwrap()], None).status.success());
    std::fs::set_permissions(&config.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = outboard(arguments, None);
        command.env("XDG_CONFIG_HOME", &config.0).env("OUTBOARD_LINK_KEYS", "auto");
        text(&as_nobody(&mut command).unwrap().stderr).to_lowercase()
    };
    for arguments in [&["keys", "show"][..], &["memory", "list", "--server", "tcp:192.0.2.7:7000"]] {
        let told = ask(arguments);
        assert!(
            told.contains("permission denied") && told.contains("outboard/keys/"),
            "{arguments:?}: {told}"
        );
    }
    // Within the machine no keys are needed.
    let told = text(
        &as_nobody(
            outboard(&["memory", "list", "--server", "tcp:127.0.0.1:1"], None)
                .env("XDG_CONFIG_HOME", &config.0)
                .env("OUTBOARD_LINK_KEYS", "auto")
                .env("OUTBOARD_LINK_ENCRYPTION", "remote"),
        )
        .unwrap()
        .stderr,
    );
    assert!(told.contains("refused"), "{told}");
}

#[test]
fn a_daemon_lets_in_whom_its_authority_knows_and_logs_the_others() {
    let (head, node, other) = (Folder::new("our-head"), Folder::new("our-node"), Folder::new("other"));
    let at = |folder: &Folder| folder.0.to_str().unwrap().to_owned();
    assert!(run(&["keys", "init", "--dir", &at(&head)], None).status.success());
    assert!(run(&["keys", "issue", "n", "--for", &at(&node), "--dir", &at(&head)], None).status.success());
    assert!(run(&["keys", "init", "--dir", &at(&other)], None).status.success());
    let mut server = Server::start(&head.0);
    let address = server.address.clone();
    let list = ["memory", "list", "--server", &address];

    let friend = run(&list, Some(&node.0));
    assert!(friend.status.success(), "{}", text(&friend.stderr));

    let stranger = run(&list, Some(&other.0));
    assert_eq!(stranger.status.code(), Some(1));
    assert!(text(&stranger.stderr).contains("not issued by our authority"), "{}", text(&stranger.stderr));
    let line = next_line(&mut server.log, "no trust between us and tcp:127.0.0.1:");
    assert!(line.contains("WARN") && line.contains("authority"), "{line}");

    let plain = outboard(&list, None).env("OUTBOARD_LINK_ENCRYPTION", "none").output().unwrap();
    assert!(text(&plain.stderr).contains("wants TLS"), "{}", text(&plain.stderr));
    let line = next_line(&mut server.log, "does not speak TLS");
    assert!(line.contains("no trust between us and tcp:127.0.0.1:"), "{line}");

    // A second machine with the same mistake has a line of its own, and only one.
    for address in ["127.0.0.7", "127.0.0.7", "127.0.0.8"] {
        let mut plain = connect_from(address, &address_of(&server.address));
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // It hangs up when it has seen enough.
        let _ = plain.read(&mut [0; 64]);
    }
    let lines = [next_line(&mut server.log, "no trust"), next_line(&mut server.log, "no trust")];
    assert!(lines[0].contains("tcp:127.0.0.7:") && lines[1].contains("tcp:127.0.0.8:"), "{lines:?}");

    let friend = run(&list, Some(&node.0));
    assert!(friend.status.success(), "{}", text(&friend.stderr));
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
