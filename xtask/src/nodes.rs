//! `cargo xtask nodes`: several nodes on one machine, for experiments and tests.
//!
//! A node is a network namespace with an address of its own on a bridge that leads nowhere else. Sockets without a file
//! are its own too, so daemons and ranks in it see what they would see on a machine of their own.

use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::step::Outcome;
use crate::tally::Tally;
use crate::test::BUILDS_OUTBOARD;
use crate::workspace::Workspace;

/// Set up several nodes on this machine, with a memory server and an agent in each
///
/// Needs root and the program ip. Runs a command and takes the nodes down when it ends; without a command, when the
/// standard input ends. The command finds in CLUSTER_HOSTS a file that names the nodes, for `outboard run --hosts`, and
/// the program outboard on its search path; links between the nodes are encrypted by a secret in its environment. Nothing is left behind, however this ends.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask nodes 4                                         four nodes, until Ctrl-D
  cargo xtask nodes 2 --rate 1gbit -- bash                    two with slower links, and a shell to try things
  cargo xtask nodes 4 -- sh -c 'outboard run --hosts $CLUSTER_HOSTS --shell \"ip netns exec\" ./program'
                                                              a job on all of them")]
pub(crate) struct Args {
    /// How many nodes
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    count: u8,
    /// How much each node can send and receive in a second, as tc writes it
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Use a build with debug assertions, which is what tests have
    #[arg(long)]
    debug: bool,
    /// The command, and its arguments
    #[arg(trailing_var_arg = true)]
    command: Vec<String>,
}

impl Args {
    /// The tests that need nodes.
    pub(crate) fn tests() -> Self {
        let command = ["cargo", "test", "--workspace", "--test", "cluster", "--", "--show-output"];
        Self { count: 4, rate: None, debug: true, command: command.map(str::to_owned).to_vec() }
    }
}

/// The ports of every node's daemons.
const MEMORY_PORT: u16 = 7401;
const AGENT_PORT: u16 = 7402;
/// How long daemons may take to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// Sets the nodes up, runs the command, and takes them down.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<(Outcome, Tally)> {
    if let Some(reason) = unfit() {
        return Ok((Outcome::Skipped(reason), Tally::default()));
    }
    let program = if args.debug {
        process::program_of_tests(workspace, BUILDS_OUTBOARD, "outboard")?
    } else {
        let build = ["build", "--release", "-p", "outboard-cli", "--message-format=json"];
        process::program_in(&process::output(process::cargo(workspace, &build))?, "outboard")?
    };
    let programs = program.parent().context("a program lies in a folder")?;
    let nodes = Nodes::new(args.count, &workspace.target_dir)?;
    nodes.connect(args.rate.as_deref())?;
    let mut daemons = nodes.start_daemons(&program)?;
    println!("{}", nodes.describe());
    let outcome = match args.command.split_first() {
        None => wait_for_end_of_input(),
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest).env("CLUSTER_HOSTS", &nodes.hosts).env("PATH", path_with(programs)?);
            command.env(SECRET_VARIABLE, &nodes.secret);
            process::hide_this_package(&mut command);
            process::run_tests(command)
        }
    };
    // In the other order, so that no daemon misses another.
    while daemons.pop().is_some() {}
    outcome
}

/// Why there can be no nodes here.
fn unfit() -> Option<String> {
    if process::find_program(&["ip"]).is_none() {
        return Some("the program ip is missing: apt-get install iproute2".to_owned());
    }
    let can = Command::new("ip").args(["netns", "exec", "no-such-node", "true"]).output();
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    (can.is_err() || !is_root).then(|| "network namespaces need root".to_owned())
}

fn path_with(programs: &Path) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(all)?)
}

fn wait_for_end_of_input() -> Result<(Outcome, Tally)> {
    println!("the nodes stay until the standard input ends (Ctrl-D)");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok((Outcome::Passed, Tally::default()))
}

/// The nodes of this process. What takes them down is a process of its own, which notices when this one ends.
struct Nodes {
    prefix: String,
    count: u8,
    hosts: PathBuf,
    /// By what they know each other.
    secret: String,
    cleaner: Child,
}

const SECRET_VARIABLE: &str = "OUTBOARD_LINK_SECRET";

/// 128 random bits.
fn draw_secret() -> Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Nodes {
    fn new(count: u8, folder: &Path) -> Result<Self> {
        let prefix = format!("ob{}", std::process::id());
        let hosts = folder.join(format!("nodes-{}.txt", std::process::id()));
        let mut script = "trap '' INT TERM HUP; cat >/dev/null; ".to_owned();
        for index in 1..=count {
            let node = format!("{prefix}-{index}");
            write!(
                script,
                "for pid in $(ip netns pids {node}); do kill -9 $pid; done; ip netns del {node}; "
            )?;
        }
        write!(script, "ip link del {prefix}; rm -f {}", hosts.display())?;
        let mut cleaner = Command::new("sh");
        cleaner.args(["-c", &script]).process_group(0);
        cleaner.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let cleaner = cleaner.spawn().context("cannot start sh, which takes the nodes down in the end")?;
        let nodes = Self { prefix, count, hosts, secret: draw_secret()?, cleaner };
        let lines: String =
            nodes.all().map(|index| format!("{}={}\n", nodes.name(index), address(index))).collect();
        std::fs::write(&nodes.hosts, lines)?;
        Ok(nodes)
    }

    fn all(&self) -> std::ops::RangeInclusive<u8> {
        1..=self.count
    }

    fn name(&self, index: u8) -> String {
        format!("{}-{index}", self.prefix)
    }

    /// Makes the namespaces, and a bridge between them.
    fn connect(&self, rate: Option<&str>) -> Result<()> {
        let bridge = &self.prefix;
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("link set {bridge} up"))?;
        for index in self.all() {
            let (node, port, address) = (self.name(index), format!("{bridge}v{index}"), address(index));
            ip(&format!("netns add {node}"))?;
            ip(&format!("link add {port} type veth peer name eth0 netns {node}"))?;
            ip(&format!("link set {port} master {bridge} up"))?;
            ip(&format!("-n {node} link set lo up"))?;
            ip(&format!("-n {node} addr add {address}/24 dev eth0"))?;
            if Path::new("/proc/net/if_inet6").exists() {
                ip(&format!("-n {node} addr add fd77::{address}/64 dev eth0 nodad"))?;
            }
            ip(&format!("-n {node} link set eth0 up"))?;
            if let Some(rate) = rate {
                let shape = format!("root tbf rate {rate} burst 256kb latency 20ms");
                tool("tc", &format!("qdisc add dev {port} {shape}"))?;
                tool("tc", &format!("-n {node} qdisc add dev eth0 {shape}"))?;
            }
        }
        Ok(())
    }

    /// Starts a memory server and an agent in every node, and waits until they are ready.
    fn start_daemons(&self, program: &Path) -> Result<Vec<Daemon>> {
        let mut daemons = Vec::new();
        for index in self.all() {
            let address = address(index);
            let memory = format!("--listen unix:@outboard-memory --listen tcp:{address}:{MEMORY_PORT}");
            daemons.push(self.start(program, index, "memory", &format!("{memory} --capacity 512MiB"))?);
        }
        for index in self.all() {
            let mut agent =
                format!("--listen unix:@outboard-agent --listen tcp:{}:{AGENT_PORT}", address(index));
            for peer in 1..index {
                write!(agent, " --peers tcp:{}:{AGENT_PORT}", self::address(peer))?;
            }
            daemons.push(self.start(program, index, "agent", &agent)?);
        }
        for index in self.all() {
            self.wait_until_ready(program, index)?;
        }
        Ok(daemons)
    }

    fn start(&self, program: &Path, index: u8, daemon: &str, flags: &str) -> Result<Daemon> {
        let mut command = self.inside(index, program);
        command.args([daemon, "--config", "none", "--log-level", "warn"]);
        command.args(flags.split_whitespace()).stdin(Stdio::null());
        Ok(Daemon(command.spawn().with_context(|| format!("cannot start `{}`", process::show(&command)))?))
    }

    /// A program in a node.
    fn inside(&self, index: u8, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(index)]).arg(program).env(SECRET_VARIABLE, &self.secret);
        command
    }

    fn wait_until_ready(&self, program: &Path, index: u8) -> Result<()> {
        let began = Instant::now();
        loop {
            let mut status = self.inside(index, program);
            status.args(["status", "--config", "none", "--json"]).stdout(Stdio::null()).stderr(Stdio::null());
            if status.status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
            if began.elapsed() > READY_TIMEOUT {
                bail!("the daemons of {} are not ready after {READY_TIMEOUT:?}", self.name(index));
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        for index in self.all() {
            let (name, address) = (self.name(index), address(index));
            text += &format!(
                "{name}  {address}  memory tcp:{address}:{MEMORY_PORT}  agent tcp:{address}:{AGENT_PORT}\n"
            );
        }
        text + &format!("in a node: ip netns exec {} outboard status\n", self.name(1))
            + &format!("links between them are encrypted: {SECRET_VARIABLE}={}\n", self.secret)
            + &format!("on all:    outboard run --hosts {} --shell 'ip netns exec' …", self.hosts.display())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        drop(self.cleaner.stdin.take());
        // What it could not do, it could not be told either.
        let _ = self.cleaner.wait();
    }
}

fn address(index: u8) -> String {
    format!("10.77.0.{index}")
}

fn ip(words: &str) -> Result<()> {
    tool("ip", words)
}

fn tool(program: &str, words: &str) -> Result<()> {
    let output = Command::new(program).args(words.split_whitespace()).output();
    let output = output.with_context(|| format!("cannot start `{program} {words}`"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{program} {words}`: {}: {}", output.status, said.trim());
    Ok(())
}

/// A daemon that ends with this process.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
