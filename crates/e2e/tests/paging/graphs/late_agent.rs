//! An agent that reaches the memory server after the application does.

use std::time::{Duration, Instant};

use outboard::{BufferSize, CacheMode, FarOptions, Outboard, Path, RegionOptions};
use outboard_agent::Daemon;
use outboard_settings::Settings;

use super::cluster::socket;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn it_is_used_once_it_has_found_the_server() {
    let mut settings = Settings::default();
    settings.memory.listen = vec![socket()];
    settings.agent.listen = vec![socket()];
    settings.agent.memory_servers = settings.memory.listen.clone();
    // It dials a server that is not there yet, and tries again only after a while.
    let agent = Daemon::agent(&settings).unwrap();
    let memory = Daemon::memory(&settings).unwrap();
    let outboard =
        Outboard::at(settings.memory.listen[0].clone()).with_agent(settings.agent.listen[0].clone());
    let far = outboard.far_with(FarOptions::default().with_buffer(BufferSize::Bytes(1 << 20))).unwrap();
    let name = Some("numbers".to_owned());
    let options =
        RegionOptions { path: Path::Agent, cache: CacheMode::Off, name, ..RegionOptions::default() };
    // What is not known to be zero has to be fetched.
    drop(far.allocate_with::<u64>(1 << 20, &options).unwrap());
    let numbers = far.open_writable::<u64>("numbers", &options).unwrap();
    let deadline = Instant::now() + PATIENCE;
    // More chunks than there is room for, so that each has to be fetched again.
    let mut at = 0;
    while far.stats().traffic.by_agent == 0 {
        assert!(Instant::now() < deadline, "nothing goes by the agent: {:?}", far.stats());
        assert_eq!(numbers[at], 0);
        at = (at + 8192) % numbers.len();
        far.wait_for_agent(Duration::from_millis(20));
    }
    drop(numbers);
    drop(far);
    agent.stop("done").unwrap();
    memory.stop("done").unwrap();
}
