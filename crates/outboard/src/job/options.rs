//! A job that a program describes itself.

use std::time::Duration;

use outboard_link::Address;
use outboard_settings::{AddressChoice, JobSettings, Secret, Settings};
use outboard_wire::{JobId, Rank};

use super::JobError;
use crate::outboard::Outboard;

/// A job whose processes are started by something that this library does not know: threads of a test, a batch system, another
/// runtime. Each process says which rank it is; neither environment nor configuration file is read.
///
/// All ranks give the same size, id, secret and meeting place.
///
/// ```
/// use outboard::{Job, JobOptions};
///
/// # let id = u64::from(std::process::id());
/// let ranks: Vec<_> = (0..3).map(|rank| {
///     std::thread::spawn(move || {
///         let job = Job::with(JobOptions::new(rank, 3, id, "sixteen bytes or more"))?;
///         let mut messenger = job.messenger()?;
///         messenger.send(0, format!("rank {rank} is here").as_bytes())?;
///         let mut heard = 0;
///         messenger.quiesce(0, |_, _from, _message| heard += 1)?;
///         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(heard)
///     })
/// }).collect();
/// let heard: Vec<u32> = ranks.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect();
/// assert_eq!(heard, [3, 0, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct JobOptions {
    rank: u32,
    size: u32,
    id: u64,
    secret: Hidden,
    rendezvous: Option<Address>,
    listen: Option<Address>,
    outboard: Option<Outboard>,
    join_deadline: Duration,
}

/// A text that is not shown.
#[derive(Clone)]
struct Hidden(String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl JobOptions {
    /// Rank `rank` of `size`, in the job of this id, which no other job of these machines has at the time. The ranks know each
    /// other by `secret`, of 16 to 64 bytes that others cannot guess.
    ///
    /// As it stands the ranks are on one machine, meet at rank 0, and have neither an agent nor a memory server. Links between
    /// machines are encrypted with the secret, unless the daemons are reached by other credentials.
    pub fn new(rank: u32, size: u32, id: u64, secret: &str) -> Self {
        let join_deadline = JobSettings::default().join_timeout;
        let secret = Hidden(secret.to_owned());
        Self { rank, size, id, secret, rendezvous: None, listen: None, outboard: None, join_deadline }
    }

    /// Has the ranks meet at this address, at which rank 0 listens for the others: `tcp:` and an address of rank 0's
    /// machine if there are several machines.
    pub fn with_rendezvous(self, address: Address) -> Self {
        Self { rendezvous: Some(address), ..self }
    }

    /// Has other ranks reach this one at this address: `tcp:` and an address of this machine, with port 0 for any
    /// that is free, if there are several machines.
    pub fn with_listen(self, address: Address) -> Self {
        Self { listen: Some(address), ..self }
    }

    /// Takes these daemons, which have to be there, and what was said of far memory and deadlines.
    pub fn with_outboard(self, outboard: Outboard) -> Self {
        Self { outboard: Some(outboard), ..self }
    }

    /// Sets how long ranks wait for each other at the start; default 30 s.
    pub fn with_join_deadline(self, join_deadline: Duration) -> Self {
        Self { join_deadline, ..self }
    }

    /// What a process is told that is started by `outboard run`.
    pub(super) fn settings(&self) -> Result<Settings, JobError> {
        let at = |address: Option<&Address>| match address {
            Some(address) => AddressChoice::At(address.clone()),
            None => AddressChoice::None,
        };
        let job = JobSettings {
            agent: at(self.outboard.as_ref().and_then(Outboard::agent)),
            memory: at(self.outboard.as_ref().and_then(Outboard::address)),
            rendezvous: self.rendezvous.clone(),
            rank0_hosts: true,
            listen: self.listen.clone(),
            id: Some(JobId(self.id)),
            rank: Some(Rank(self.rank)),
            size: Some(self.size),
            secret: Some(Secret::new(&*self.secret.0).map_err(|_| JobError::SecretTooShort)?),
            join_timeout: self.join_deadline,
            ..JobSettings::default()
        };
        let link = self.outboard.as_ref().map(|outboard| outboard.link.clone()).unwrap_or_default();
        Ok(Settings { job, link, ..Settings::default() })
    }

    /// The daemons, as they were given.
    pub(super) fn outboard(&self) -> Option<&Outboard> {
        self.outboard.as_ref()
    }
}
