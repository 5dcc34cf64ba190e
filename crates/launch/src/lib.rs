//! Starts the processes of a job on this machine, shows what they print, and ends them together.
//!
//! It knows nothing of links or of how ranks find each other: what they need to know is passed to them as
//! environment, by the caller.
//!
//! | to | use |
//! |---|---|
//! | start the ranks of a job and wait for them | [`Launch`], [`Running`], [`JobOutcome`] |
//! | start an agent or a memory server and know when it is ready | [`DaemonProcess`] |
//! | show output, whole lines only, each with its origin | [`Console`], or any other [`Sink`] |
//! | run one program as a shell would | [`Foreground`] |
//! | end a job on Ctrl-C | [`Interrupts`] |
//! | choose the processors of ranks and agent | [`CorePlan`] |
//! | hold a process to a share of a processor | [`Quota`] |
//!
//! ```
//! use outboard_launch::{Console, Launch, Style};
//!
//! let launch = Launch::new("sh").args(["-c", "echo I am rank $MY_RANK"]).ranks(2);
//! let running = launch.env(|rank| vec![("MY_RANK".into(), rank.to_string())]).start()?;
//! // [0] I am rank 0
//! // [1] I am rank 1
//! let outcome = running.wait(&mut Console::stdio(Style::Prefixed)?, None)?;
//! assert_eq!(outcome.to_string(), "ranks 0, 1 succeeded");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What ends when
//!
//! Every process started here leads a process group of its own and is asked to end with `SIGTERM` to the whole
//! group, then, when its grace has passed, killed with `SIGKILL` to the whole group. A process stays a zombie
//! until its job is over, so that its number cannot come to mean another process.
//!
//! When the launcher itself is killed with `SIGKILL`, the kernel kills what it started
//! (`PR_SET_PDEATHSIG`), and a guard, a second process that waits for the launcher's death, kills what the ranks
//! had started in turn. A daemon has no guard: it is expected to start nothing. A process that leaves its group
//! (`setsid`) leaves the job: nothing here follows it.

mod cores;
mod daemon;
mod foreground;
mod interrupts;
mod job;
mod output;
mod process;
mod quota;

pub use cores::{AgentCores, CoreError, CorePlan, CoreRequest, allowed_cpus};
pub use daemon::{DaemonConfig, DaemonError, DaemonProcess, READY_FD_VARIABLE};
pub use foreground::Foreground;
pub use interrupts::{InterruptError, Interrupts};
pub use job::{JobOutcome, Launch, LaunchError, RankEnd, RankFailure, Running, StdinTo, WaitError};
pub use output::{Acceptance, Console, OutputSource, Piece, Sink, Stream, Style};
pub use process::{End, ProgramNotFound, find_program, signal_name};
pub use quota::{Limit, Quota, QuotaError};
