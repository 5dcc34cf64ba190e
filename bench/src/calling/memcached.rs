//! The same gets and puts over loopback TCP, beside memcached.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outboard_kv::KvTable;
use outboard_kv::ycsb::{Distribution, YcsbOperation, fill, is_right};

use super::kv::{DEPTH, Rounds, VALUE, load, round, table_options};
use super::stage::{Stage, pin_process, wrong};
use crate::error::Named;
use crate::harness::{Duel, Effort, Figure, Progress, Round, Side, Unit};
use crate::pair::PATIENCE;
use crate::{BenchError, BenchOptions};

/// How many questions there are.
pub(super) const COUNT: usize = 1;

const NAME: &str = "calling.kv.ycsb_b.tcp_versus_memcached";

/// A memcached of our own.
struct Memcached {
    child: Child,
    socket: TcpStream,
    received: Vec<u8>,
    /// What is under way, oldest first.
    under_way: std::collections::VecDeque<YcsbOperation>,
    version: u32,
}

impl Drop for Memcached {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Memcached {
    /// Starts it with one thread and room for everything, or says why not.
    fn start(core: Option<usize>, mib: u64) -> Result<Self, String> {
        let unused =
            || -> std::io::Result<SocketAddr> { TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr() };
        let address = unused().map_err(|error| format!("no port: {error}"))?;
        let mut command = Command::new("memcached");
        let (port, mib) = (address.port().to_string(), mib.to_string());
        command.args(["-l", "127.0.0.1", "-p", &port, "-U", "0", "-t", "1", "-m", &mib]);
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "root"]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| match error.kind() {
            ErrorKind::NotFound => "memcached is not installed".to_owned(),
            _ => format!("memcached cannot be started: {error}"),
        })?;
        let socket = connect(&mut child, address)?;
        let set_up = || -> std::io::Result<()> {
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.set_write_timeout(Some(PATIENCE))
        };
        set_up().map_err(|error| format!("its socket cannot be set up: {error}"))?;
        if let Some(core) = core {
            pin_process(child.id(), core).map_err(|error| error.to_string())?;
        }
        Ok(Self { child, socket, received: Vec::new(), under_way: Default::default(), version: 0 })
    }

    fn ask(&mut self, operation: YcsbOperation, request: &mut Vec<u8>) {
        // Writing into memory does not fail.
        let _ = if operation.is_put() {
            let mut value = [0; VALUE];
            self.version += 1;
            fill(&mut value, operation.key(), self.version);
            write!(request, "set {:08x} 0 0 {VALUE}\r\n", operation.key())
                .and_then(|()| request.write_all(&value))
                .and_then(|()| request.write_all(b"\r\n"))
        } else {
            write!(request, "get {:08x}\r\n", operation.key())
        };
        self.under_way.push_back(operation);
    }

    /// Does all of these, with as many at once as ours has. Returns how many.
    fn run(&mut self, operations: impl IntoIterator<Item = YcsbOperation>) -> Result<u64, BenchError> {
        let mut operations = operations.into_iter();
        let (mut done, mut request) = (0, Vec::new());
        loop {
            request.clear();
            while self.under_way.len() < DEPTH {
                let Some(operation) = operations.next() else { break };
                self.ask(operation, &mut request);
            }
            if self.under_way.is_empty() {
                return Ok(done);
            }
            self.socket.write_all(&request).named("write to memcached")?;
            done += self.listen()?;
        }
    }

    /// Takes what has come. Returns how many answers that was.
    fn listen(&mut self) -> Result<u64, BenchError> {
        let mut chunk = [0; 64 << 10];
        let length = self.socket.read(&mut chunk).named("read from memcached")?;
        if length == 0 {
            return Err(BenchError::Calls { why: "memcached has closed its socket".to_owned() });
        }
        self.received.extend_from_slice(&chunk[..length]);
        let (mut at, mut done) = (0, 0);
        while let Some(operation) = self.under_way.front().copied() {
            match answer(&self.received[at..], operation) {
                Answer::Incomplete => break,
                Answer::Right(length) => at += length,
                Answer::Wrong => {
                    let why = format!("memcached gave a wrong value for key {}", operation.key());
                    return Err(BenchError::Calls { why });
                }
            }
            self.under_way.pop_front();
            done += 1;
        }
        self.received.drain(..at);
        Ok(done)
    }
}

fn connect(child: &mut Child, address: SocketAddr) -> Result<TcpStream, String> {
    let began = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(socket) => return Ok(socket),
            Err(error) if began.elapsed() > PATIENCE => {
                return Err(format!("memcached does not listen: {error}"));
            }
            Err(_) => {}
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("memcached ended at once: {status}"));
        }
        // tidy: allow(sleep) another program offers nothing to wait on
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Incomplete,
    /// So many bytes.
    Right(usize),
    Wrong,
}

/// Reads the first answer, to this operation.
fn answer(bytes: &[u8], operation: YcsbOperation) -> Answer {
    const STORED: &[u8] = b"STORED\r\n";
    const END: &[u8] = b"\r\nEND\r\n";
    if operation.is_put() {
        return match bytes.get(..STORED.len()) {
            None => Answer::Incomplete,
            Some(STORED) => Answer::Right(STORED.len()),
            Some(_) => Answer::Wrong,
        };
    }
    let head = format_args!("VALUE {:08x} 0 {VALUE}\r\n", operation.key()).to_string();
    let length = head.len() + VALUE + END.len();
    match bytes.get(..length) {
        // Whatever is shorter and complete is no value.
        None if bytes.starts_with(&END[2..]) => Answer::Wrong,
        None => Answer::Incomplete,
        Some(bytes) => {
            let value = &bytes[head.len()..head.len() + VALUE];
            let is_whole = bytes.starts_with(head.as_bytes()) && bytes.ends_with(END);
            if is_whole && is_right(value, operation.key(), VALUE) {
                Answer::Right(length)
            } else {
                Answer::Wrong
            }
        }
    }
}

/// The figures, or why there are none.
pub(super) fn figures(
    options: &BenchOptions,
    stage: &mut Stage,
    progress: &mut Progress,
) -> Result<Result<Vec<Figure>, String>, BenchError> {
    progress.begin(NAME);
    let (effort, mut shape) = (options.effort, table_options(options.effort));
    if effort == Effort::Quick {
        // To fill its table takes memcached longer than all rounds.
        shape.keys /= 4;
    }
    // An item takes some 60 bytes more than its value and key.
    let mut peer = match Memcached::start(stage.server_core(), (shape.keys >> 12) + 256) {
        Ok(peer) => peer,
        Err(why) => return Ok(Err(why)),
    };
    let table = KvTable::create(&mut stage.memory, "bench-calling-tcp", &shape).map_err(wrong)?;
    let mut ours = load(&stage.host.remote, &table)?;
    ours.fill(shape.keys as u32).map_err(wrong)?;
    peer.run(YcsbOperation::puts(0..shape.keys as u32))?;
    let mut rounds = Rounds::new(effort, shape.keys, Distribution::Zipf);
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => round(&mut ours, &mut rounds, effort),
        Side::Yardstick => peer_round(&mut peer, &mut rounds, effort),
    })?;
    drop(ours);
    table.free(&mut stage.memory).map_err(wrong)?;
    let versus = format!(
        "memcached with one thread, also over loopback TCP: {} keys, {VALUE} bytes, Zipf 0.99, {DEPTH} at once",
        shape.keys
    );
    let rates = duel.figure("calling.kv.ycsb_b.server.tcp", Unit::OperationsPerSecond, 1.0, &versus);
    progress.end();
    Ok(Ok(vec![Figure::new(NAME, Unit::Ratio, rates.ratio, 1.0, &versus), rates]))
}

fn peer_round(peer: &mut Memcached, rounds: &mut Rounds, effort: Effort) -> Result<Round, BenchError> {
    let (count, operations) = rounds.round(effort);
    let began = Instant::now();
    let done = peer.run(operations)?;
    debug_assert_eq!(done, count, "every operation has an answer");
    Ok(Round::rate(done, began.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_one_by_one() {
        let put = YcsbOperation::puts(7..8).next().unwrap();
        let get = YcsbOperation::get(7);
        assert_eq!(answer(b"STOR", put), Answer::Incomplete);
        assert_eq!(answer(b"STORED\r\nSTORED\r\n", put), Answer::Right(8));
        assert_eq!(answer(b"SERVER_ERROR out of memory\r\n", put), Answer::Wrong);
        let mut value = [0; VALUE];
        fill(&mut value, 7, 1);
        let mut bytes = format!("VALUE 00000007 0 {VALUE}\r\n").into_bytes();
        bytes.extend_from_slice(&value);
        bytes.extend_from_slice(b"\r\nEND\r\n");
        assert_eq!(answer(&bytes, get), Answer::Right(bytes.len()));
        assert_eq!(answer(&bytes[..bytes.len() - 1], get), Answer::Incomplete);
        assert_eq!(answer(b"END\r\n", get), Answer::Wrong);
        bytes[40] ^= 1;
        assert_eq!(answer(&bytes, get), Answer::Wrong);
    }
}
