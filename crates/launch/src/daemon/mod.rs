//! A daemon beside a job: started, awaited until it is ready, stopped.

mod config;
mod control;
mod error;
mod keeper;
mod tail;

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use config::{DaemonConfig, READY_FD_VARIABLE};
pub use error::DaemonError;

use crate::interrupts::let_children_wait;
use crate::output::Sink;
use crate::process::{End, find_program};
use control::{Control, Request};

/// A process that serves others, ready to do so. Dropping it kills it.
///
/// A thread of its own starts it, shows what it prints and waits for its end.
#[derive(Debug)]
pub struct DaemonProcess {
    name: Arc<str>,
    ready: Ready,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

/// What is known of a daemon when it is ready.
#[derive(Debug)]
struct Ready {
    pid: u32,
    line: String,
    limit: Option<String>,
    warning: Option<String>,
}

impl DaemonProcess {
    /// Starts a daemon and waits until it says that it is ready.
    pub fn start(config: DaemonConfig, sink: impl Sink + Send + 'static) -> Result<Self, DaemonError> {
        let name: Arc<str> = config.name.as_str().into();
        let program = find_program(&config.program)
            .map_err(|source| DaemonError::Program { name: config.name.clone(), source })?;
        let failed = |source| DaemonError::Start { name: name.to_string(), source };
        let_children_wait();
        let control = Arc::new(Control::new().map_err(failed)?);
        let (answer, answered) = mpsc::sync_channel(1);
        let for_thread = Arc::clone(&control);
        let thread = thread::Builder::new()
            .name(format!("keep {name}"))
            .spawn(move || keeper::run(config, &program, Box::new(sink), &for_thread, &answer))
            .map_err(failed)?;
        // The thread answers by the daemon's deadline, whatever happens.
        match answered.recv() {
            Ok(Ok(ready)) => Ok(Self { name, ready, control, thread: Some(thread) }),
            Ok(Err(error)) => {
                let _ = thread.join();
                Err(error)
            }
            Err(_) => Err(failed(std::io::Error::other("the thread that keeps it panicked"))),
        }
    }

    /// As its output is marked.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.ready.pid
    }

    /// What it wrote when it was ready, such as the address it listens on.
    pub fn ready_line(&self) -> &str {
        &self.ready.line
    }

    /// By what means its quota is kept, if it has one.
    pub fn limit(&self) -> Option<&str> {
        self.ready.limit.as_deref()
    }

    /// What the user should know if its quota is not enforced.
    pub fn warning(&self) -> Option<&str> {
        self.ready.warning.as_deref()
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.control.end()
    }

    /// Asks it to end and kills it when `grace` has passed.
    pub fn stop(mut self, grace: Duration) -> End {
        self.finish(Request::Stop { grace })
    }

    fn finish(&mut self, request: Request) -> End {
        self.control.request(request);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.control.end().unwrap_or(End::Stuck)
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.finish(Request::Kill);
        }
    }
}
