//! How a messenger comes to its links: others call, and it calls others.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use outboard_driver::{Dial, FrontDesk, FrontDeskConfig, Listener, WorkerHandle};
use outboard_link::{Address, Clock, Exports};

use super::error::MessengerError;
use crate::Job;
use crate::job::doors::way_to;

/// The thread that receives other ranks and calls them, and the agent if there is one.
pub(super) struct Reception {
    stop: Box<dyn Fn() + Send>,
    thread: Option<JoinHandle<()>>,
    last_error: Arc<Mutex<String>>,
}

impl Reception {
    /// Begins to receive and to call. The links go to the worker behind `handle`.
    pub(super) fn open(
        job: &Job,
        (doors, exports): (Vec<Listener>, Arc<Exports>),
        agent: Option<Address>,
        handle: WorkerHandle<()>,
        clock: Clock,
    ) -> Result<Self, MessengerError> {
        // The higher rank dials the lower one.
        let own = job.members()[job.rank() as usize].address;
        let lower = job.members()[..job.rank() as usize].iter().map(|member| {
            let address = way_to(member.address.as_str(), own.as_str());
            address.map_err(|error| MessengerError::BadOptions(error.to_string()))
        });
        let dials = lower.chain(agent.map(Ok)).map(|address| {
            let (identity, exports) = (job.outboard().identity.clone(), Arc::clone(&exports));
            Ok(Dial { address: address?, identity, exports, worker: None })
        });
        let dials = dials.collect::<Result<Vec<_>, MessengerError>>()?;
        let links = job.outboard().link.configs();
        let config = FrontDeskConfig { links, ..FrontDeskConfig::default() };
        let last_error = Arc::new(Mutex::new("no answer".to_owned()));
        let heard = Arc::clone(&last_error);
        let desk = FrontDesk::new(config, clock, (doors, dials), vec![handle], move |error| {
            *heard.lock().unwrap_or_else(PoisonError::into_inner) = error.to_string();
        });
        let desk = desk.map_err(std::io::Error::from)?;
        let stop = Box::new(desk.stopper());
        let thread = std::thread::Builder::new().name("outboard-desk".to_owned()).spawn(move || {
            // It ends with the messenger.
            let _ = desk.run();
        })?;
        Ok(Self { stop, thread: Some(thread), last_error })
    }

    /// The latest error.
    pub(super) fn last_error(&self) -> String {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn close(&mut self) {
        (self.stop)();
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing left to end.
            let _ = thread.join();
        }
    }
}
