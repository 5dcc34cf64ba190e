//! The limits of an executor.

/// What an executor gives to each.
#[derive(Clone, Copy, Debug)]
pub struct ExecutorConfig {
    /// Calls of one client that wait or are suspended; default 512. More are not taken until some have ended.
    pub calls_per_client: usize,
    /// Calls of one function of a client that wait for their turn; default 512. More are not taken until some have begun.
    pub calls_per_function: usize,
    /// Bytes of arguments of one client's calls that wait; default 1 MiB. More are not taken until some have begun.
    pub bytes_per_client: usize,
    /// The longest arguments, in bytes; default 16 KiB. Each call that waits takes as much memory as its arguments have.
    pub arguments_max: usize,
    /// The longest buffer of a fetch, in bytes; default 16 KiB. A function can have 11 of them, which are kept for the next.
    pub fetch_max: usize,
    /// What a function may spend before it is another's turn, in fuel; default 8192.
    pub quantum: u32,
    /// The most fuel that a call can have; default 1,000,000, which takes about a millisecond.
    pub fuel_max: u64,
    /// The longest reply that can be agreed on, in bytes; default 16 KiB.
    pub reply_max: u32,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self {
            calls_per_client: 512,
            calls_per_function: 512,
            bytes_per_client: 1 << 20,
            arguments_max: 16 << 10,
            fetch_max: 16 << 10,
            quantum: 8192,
            fuel_max: 1_000_000,
            reply_max: 16 << 10,
        }
    }
}
