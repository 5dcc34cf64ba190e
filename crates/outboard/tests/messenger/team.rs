//! The ranks of a test.

use outboard::{Address, Job, Messenger, MessengerError, MessengerOptions, Settings};
use outboard_link::Identity;
use outboard_settings::{AddressChoice, Secret};
use outboard_wire::{JobId, Rank, Role};

/// How ranks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Shm,
    Tcp,
}

impl Way {
    pub(crate) const ALL: [Self; 2] = [Self::Shm, Self::Tcp];
}

/// The ranks of a test: how many there are and what each of them is told.
pub(crate) struct Team<'a> {
    pub(crate) job: JobId,
    pub(crate) ranks: u32,
    pub(crate) way: Way,
    pub(crate) options: MessengerOptions,
    /// Changes what a rank is told.
    #[allow(clippy::type_complexity, reason = "the type of one field")]
    adjust: Box<dyn Fn(u32, &mut Settings, &mut MessengerOptions) + Sync + 'a>,
}

impl<'a> Team<'a> {
    pub(crate) fn new(ranks: u32, way: Way, options: MessengerOptions) -> Self {
        let job = JobId(Identity::new(Role::Tool, "").incarnation.0);
        Self { job, ranks, way, options, adjust: Box::new(|_, _, _| ()) }
    }

    /// Runs ranks with settings and options that differ from rank to rank.
    pub(crate) fn adjusted(
        self,
        adjust: impl Fn(u32, &mut Settings, &mut MessengerOptions) + Sync + 'a,
    ) -> Self {
        Self { adjust: Box::new(adjust), ..self }
    }

    /// What a rank is told.
    pub(crate) fn told(&self, rank: u32) -> (Settings, MessengerOptions) {
        let mut settings = Settings::default();
        settings.job.id = Some(self.job);
        settings.job.rank = Some(Rank(rank));
        settings.job.size = Some(self.ranks);
        settings.job.secret = Some(Secret::new("a secret of this test").unwrap());
        settings.job.agent = AddressChoice::None;
        settings.job.memory = AddressChoice::None;
        if self.way == Way::Tcp {
            settings.job.listen = Some("tcp:127.0.0.1:0".parse::<Address>().unwrap());
        }
        let mut options = self.options.clone();
        (self.adjust)(rank, &mut settings, &mut options);
        (settings, options)
    }

    /// Connects as one of the ranks.
    pub(crate) fn join(&self, rank: u32) -> (Job, Result<Messenger, MessengerError>) {
        let (settings, options) = self.told(rank);
        let job = Job::with_settings(&settings).unwrap();
        let messenger = job.messenger_with(options);
        (job, messenger)
    }

    /// Runs `work` as each rank, in threads of their own.
    pub(crate) fn run<R: Send>(&self, work: impl Fn(&mut Messenger) -> R + Sync) -> Vec<R> {
        self.try_run(|messenger| work(&mut messenger.unwrap()))
    }

    /// Connects ranks, of which some may not be connected.
    pub(crate) fn try_run<R: Send>(
        &self,
        work: impl Fn(Result<Messenger, MessengerError>) -> R + Sync,
    ) -> Vec<R> {
        let (this, work) = (self, &work);
        std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..self.ranks)
                .map(|rank| {
                    scope.spawn(move || {
                        let (_job, messenger) = this.join(rank);
                        work(messenger)
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }
}

/// Few and small bundles: there is often none.
pub(crate) fn small() -> MessengerOptions {
    MessengerOptions { bundle: 1 << 10, buffers: 2, ..MessengerOptions::default() }
}
