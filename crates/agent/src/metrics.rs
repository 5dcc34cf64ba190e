//! The numbers of a daemon for Prometheus, over a minimal HTTP.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use outboard_driver::Mailbox;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::status::{StatusPage, StatusView};

/// How long one reader may take in all.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many readers are heard at the same time. One more takes the place of the one that came first.
const READERS_MAX: usize = 32;
/// How long no connection is accepted after one could not be.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest request that is read.
const REQUEST_MAX: usize = 8 << 10;

/// A thread that answers `GET /metrics`.
pub(crate) struct MetricsEndpoint {
    address: SocketAddr,
    stop: Arc<Mailbox<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsEndpoint {
    /// Listens on `address` and answers with what `page` shows.
    pub(crate) fn start(address: SocketAddr, page: Arc<StatusPage>) -> std::io::Result<Self> {
        Self::start_with(address, page, PATIENCE)
    }

    fn start_with(address: SocketAddr, page: Arc<StatusPage>, patience: Duration) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(Mailbox::new()?);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || serve(&listener, &page, &stopped, patience))?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsEndpoint {
    fn drop(&mut self) {
        self.stop.post(());
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// A connection whose answer has not left as a whole.
struct Reader {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// What is still to be sent; nothing before the request is whole.
    answer: Vec<u8>,
}

/// Hears all readers at once, so that one that says nothing keeps no other from its answer.
fn serve(listener: &TcpListener, page: &StatusPage, stop: &Mailbox<()>, patience: Duration) {
    // The first has been there for longest.
    let mut readers: Vec<Reader> = Vec::new();
    let mut deaf_until: Option<Instant> = None;
    loop {
        let now = Instant::now();
        deaf_until = deaf_until.filter(|until| *until > now);
        readers.retain(|reader| reader.until > now);
        let listening = if deaf_until.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let mut descriptors = vec![
            PollFd::from_borrowed_fd(stop.descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(listener.as_fd(), listening),
        ];
        descriptors.extend(readers.iter().map(|reader| {
            let awaited = if reader.answer.is_empty() { PollFlags::IN } else { PollFlags::OUT };
            PollFd::from_borrowed_fd(reader.stream.as_fd(), awaited)
        }));
        let until = readers.iter().map(|reader| reader.until).chain(deaf_until).min();
        let timeout = until.and_then(|until| Timespec::try_from(until.saturating_duration_since(now)).ok());
        // An interrupted wait is begun again.
        let _ = poll(&mut descriptors, timeout.as_ref());
        let ready: Vec<bool> =
            descriptors.iter().map(|descriptor| !descriptor.revents().is_empty()).collect();
        if !stop.take().is_empty() {
            return;
        }
        let mut is_ready = ready[2..].iter();
        // A reader that goes away or stalls loses its answer, nothing else.
        readers.retain_mut(|reader| {
            is_ready.next() != Some(&true) || reader.go_on(page).is_ok_and(|ended| !ended)
        });
        if !ready[1] {
            continue;
        }
        match accept(listener, patience) {
            Ok(reader) => {
                if readers.len() == READERS_MAX {
                    readers.remove(0);
                }
                readers.push(reader);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // Most likely no descriptor is left. The reader stays in the queue, so that asking again at once would be in
            // vain and take a core.
            Err(_) => deaf_until = Some(Instant::now() + PAUSE),
        }
    }
}

fn accept(listener: &TcpListener, patience: Duration) -> std::io::Result<Reader> {
    let (stream, _) = listener.accept()?;
    stream.set_nonblocking(true)?;
    Ok(Reader { stream, until: Instant::now() + patience, request: Vec::new(), answer: Vec::new() })
}

impl Reader {
    /// Reads what has come, or sends what the socket takes. Returns whether the answer has left as a whole.
    fn go_on(&mut self, page: &StatusPage) -> std::io::Result<bool> {
        if self.answer.is_empty() {
            let mut bytes = [0; 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.request.extend_from_slice(&bytes[..len]),
                Err(error) => return waits(error).map(|()| false),
            }
            if !self.request.windows(4).any(|window| window == b"\r\n\r\n") {
                let is_too_long = self.request.len() >= REQUEST_MAX;
                return if is_too_long { Err(ErrorKind::InvalidData.into()) } else { Ok(false) };
            }
            self.answer = answer(&self.request, page).into_bytes();
        }
        match self.stream.write(&self.answer) {
            Ok(len) => drop(self.answer.drain(..len)),
            Err(error) => waits(error)?,
        }
        Ok(self.answer.is_empty())
    }
}

/// Whether a socket that has failed only has to be waited for.
fn waits(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

/// What is said to a request, of which the first line counts.
fn answer(request: &[u8], page: &StatusPage) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, body) = match String::from_utf8_lossy(line).split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/metrics", ..] => match page.view() {
            Ok(view) => ("200 OK", exposition(&view)),
            Err(error) => ("500 Internal Server Error", format!("{error}\n")),
        },
        ["GET", ..] => ("404 Not Found", "the numbers are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET is answered\n".to_owned()),
    };
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    head + &body
}

/// The page in the text form that Prometheus reads.
fn exposition(view: &StatusView) -> String {
    let mut text = String::new();
    let labels = format!("role=\"{}\",name=\"{}\"", view.role, escape(&view.name));
    let uptime = SystemTime::now().duration_since(view.started).unwrap_or_default();
    let uptime = ("uptime_seconds".to_owned(), uptime.as_secs());
    for (name, value) in view.entries.iter().chain([&uptime]) {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE outboard_{name} {kind}\noutboard_{name}{{{labels}}} {value}");
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use outboard_wire::Role;

    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn numbers_are_served_and_nonsense_is_not() {
        let page = Arc::new(StatusPage::create(Role::Agent, "a\"b").unwrap());
        page.gauge("frames_total").set(42);
        let endpoint = MetricsEndpoint::start(([127, 0, 0, 1], 0).into(), page).unwrap();
        let answer = ask(endpoint.address(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("# TYPE outboard_frames_total counter"), "{answer}");
        assert!(answer.contains("outboard_frames_total{role=\"agent\",name=\"a\\\"b\"} 42"), "{answer}");
        assert!(ask(endpoint.address(), "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(endpoint.address(), "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        drop(TcpStream::connect(endpoint.address()).unwrap());
        assert!(ask(endpoint.address(), "GET /metrics HTTP/1.1\r\n\r\n").contains(" 42"));
    }

    #[test]
    fn readers_that_say_nothing_keep_no_other_from_its_answer() {
        let page = Arc::new(StatusPage::create(Role::Agent, "a").unwrap());
        let endpoint =
            MetricsEndpoint::start_with(([127, 0, 0, 1], 0).into(), page, Duration::from_secs(600)).unwrap();
        let mut silent: Vec<TcpStream> = Vec::new();
        for count in 0..2 * READERS_MAX {
            let mut reader = TcpStream::connect(endpoint.address()).unwrap();
            // Some say half of what they want.
            if count % 2 == 0 {
                reader.write_all(b"GET /met").unwrap();
            }
            silent.push(reader);
        }
        assert!(ask(endpoint.address(), "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        // The last of those who came before is still heard, and the first is not any more.
        let [first, .., last] = &mut silent[..] else { unreachable!() };
        last.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut said = String::new();
        last.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 404"), "{said}");
        assert!(matches!(first.read(&mut [0; 16]), Ok(0) | Err(_)), "its place was given away");
    }

    #[test]
    fn a_reader_whose_time_is_up_is_closed() {
        let page = Arc::new(StatusPage::create(Role::Agent, "a").unwrap());
        let endpoint = MetricsEndpoint::start(([127, 0, 0, 1], 0).into(), page).unwrap();
        let began = Instant::now();
        let mut silent = TcpStream::connect(endpoint.address()).unwrap();
        assert!(matches!(silent.read(&mut [0; 16]), Ok(0)));
        assert!(began.elapsed() >= PATIENCE);
    }
}
