//! The numbers of a daemon for Prometheus, over a minimal HTTP.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use outboard_driver::Mailbox;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::status::{StatusPage, StatusView};

/// How long one reader may take in all.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long nobody is received after that has failed.
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
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(Mailbox::new()?);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || serve(&listener, &page, &stopped))?;
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

fn serve(listener: &TcpListener, page: &StatusPage, stop: &Mailbox<()>) {
    loop {
        let mut descriptors = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stop.descriptor(), PollFlags::IN),
        ];
        // An interrupted wait is begun again.
        let _ = poll(&mut descriptors, None);
        if !stop.take().is_empty() {
            return;
        }
        match listener.accept() {
            // A reader that goes away or stalls loses its answer, nothing else.
            Ok((stream, _)) => drop(answer(stream, page)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // Most likely no descriptor is left. The reader stays in the queue, so that asking again at once would be in
            // vain and take a core.
            Err(_) => {
                let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE.subsec_nanos().into() };
                // An interrupted wait is over sooner.
                let _ = poll(&mut descriptors[1..], Some(&pause));
            }
        }
    }
}

fn answer(mut stream: TcpStream, page: &StatusPage) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = read_request(&mut stream)?;
    let (status, body) = match request.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/metrics", ..] => match page.view() {
            Ok(view) => ("200 OK", exposition(&view)),
            Err(error) => ("500 Internal Server Error", format!("{error}\n")),
        },
        ["GET", ..] => ("404 Not Found", "the numbers are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET is answered\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Reads up to the end of the headers and returns the first line.
fn read_request(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut request = Vec::new();
    let began = std::time::Instant::now();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        if request.len() >= REQUEST_MAX || began.elapsed() >= PATIENCE {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            len => request.extend_from_slice(&bytes[..len]),
        }
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
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
}
