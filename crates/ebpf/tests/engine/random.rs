//! Random programs: all executors agree on them, however often they are suspended on the way, and none
//! gets at anything that is not theirs.
//!
//! `EBPF_PROGRAMS=10000000 cargo test --release -p outboard-ebpf --test engine random` tries that many;
//! `EBPF_SEED=7` begins with another one. A failure prints the seed of its program, so that `EBPF_SEED` with
//! `EBPF_PROGRAMS=1` shows it again.

mod agreement;
mod drive;
mod forgery;
mod generator;
mod guard;
mod host;
mod operations;

/// The seeds to try: so many unless told otherwise.
fn seeds(usual: u64) -> impl Iterator<Item = u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = number("EBPF_SEED").unwrap_or(0);
    first..first + number("EBPF_PROGRAMS").unwrap_or(usual)
}
