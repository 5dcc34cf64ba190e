//! A thread that sends chunks over loopback as soon as it is asked, with nothing around it.

use std::thread::JoinHandle;

use super::{BareListener, BareSocket};
use crate::BenchError;
use crate::error::Named;
use crate::pair::Waits;

/// A request: how many chunks, how long each, and how to wait.
const REQUEST: usize = 16;

/// The one who asks.
pub(crate) struct BareClient {
    socket: BareSocket,
    /// Ends when the socket is closed.
    _server: JoinHandle<Result<(), BenchError>>,
}

impl BareClient {
    /// Starts a thread that serves chunks of up to `chunk_max` bytes, and connects to it.
    pub(crate) fn start(chunk_max: usize) -> Result<Self, BenchError> {
        let listener = BareListener::bind()?;
        let address = listener.address()?;
        let server = move || serve(&mut listener.accept()?, &vec![0x5a; chunk_max]);
        let server =
            std::thread::Builder::new().name("bare-server".to_owned()).spawn(server).named("clone")?;
        Ok(Self { socket: BareSocket::connect(address)?, _server: server })
    }

    /// Asks for one chunk and waits for it; both sides sleep while they wait.
    #[inline]
    pub(crate) fn fetch(&mut self, chunk: &mut [u8]) -> Result<(), BenchError> {
        self.ask(1, chunk.len(), Waits::Asleep)?;
        self.socket.read_exact(chunk)
    }

    /// Asks for `count` chunks of `chunk_len` bytes at once, takes them as they come and hands them to `sink`.
    pub(crate) fn stream(
        &mut self,
        count: u32,
        chunk_len: usize,
        waits: Waits,
        buffer: &mut [u8],
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), BenchError> {
        self.ask(count, chunk_len, waits)?;
        let mut left = count as usize * chunk_len;
        while left > 0 {
            let space = buffer.len().min(left);
            let len = self.socket.read_some(&mut buffer[..space])?;
            sink(&buffer[..len]);
            left -= len;
        }
        Ok(())
    }

    fn ask(&mut self, count: u32, chunk_len: usize, waits: Waits) -> Result<(), BenchError> {
        let mut request = [0; REQUEST];
        request[..4].copy_from_slice(&count.to_le_bytes());
        request[4..8].copy_from_slice(&(chunk_len as u32).to_le_bytes());
        request[8] = u8::from(waits == Waits::Spinning);
        self.socket.waits = waits;
        self.socket.write_all(&request)
    }
}

/// Answers until the client closes.
fn serve(socket: &mut BareSocket, chunk: &[u8]) -> Result<(), BenchError> {
    let mut request = [0; REQUEST];
    loop {
        // Between requests nothing is measured.
        socket.waits = Waits::Asleep;
        socket.read_exact(&mut request)?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| request[at + byte]));
        let (count, chunk_len) = (word(0), word(4) as usize);
        if request[8] == 1 {
            socket.waits = Waits::Spinning;
        }
        for _ in 0..count {
            socket.write_all(&chunk[..chunk_len.min(chunk.len())])?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_arrive_whole_one_by_one_and_in_a_stream() {
        let mut client = BareClient::start(1 << 16).unwrap();
        let mut chunk = vec![0; 1 << 12];
        client.fetch(&mut chunk).unwrap();
        assert!(chunk.iter().all(|byte| *byte == 0x5a));
        for waits in Waits::BOTH {
            let (mut buffer, mut seen) = (vec![0; 100_000], 0);
            client.stream(20, 1 << 16, waits, &mut buffer, |bytes| seen += bytes.len()).unwrap();
            assert_eq!(seen, 20 << 16);
        }
        client.fetch(&mut chunk).unwrap();
    }
}
