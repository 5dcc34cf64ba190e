//! The settings of links.

use std::time::Duration;

use outboard_link::ofi;
use outboard_link::shm::{self, Users};
use outboard_link::tcp::{self, Credential, Encryption};
use outboard_link::{LinkConfigs, StreamConfig};

use crate::keys_place::{KeysPlace, can_read};
use crate::section::section;
use crate::value::Choice;
use crate::{ByteSize, JobSettings, Secret};

section! {
    /// The settings of links between processes. Where the two sides differ, the accepting side's count.
    "link" => pub struct LinkSettings {
        /// The size of each of a link's two rings, or queues over TCP: a power of two from 64KiB to 1GiB. A
        /// link takes up to twice this in memory, as it is used, and its longest frame is a little under half of it.
        pub ring: ByteSize where ring_size = ByteSize(512 << 10),
        /// How often an idle TCP link shows that it lives, in whole milliseconds.
        pub heartbeat: Duration where a_millisecond = Duration::from_millis(500),
        /// How long a peer may be silent on a TCP link before it is given up, in whole milliseconds; at least
        /// two heartbeats, at most an hour. Calls and messages give up silent daemons behind shared memory after it too.
        pub deadline: Duration where an_hour_at_most = Duration::from_secs(5),
        /// How long the other side may say nothing during a handshake. A daemon that is busy with other clients says that
        /// this one's turn will come, which gives it as long again, two minutes in all.
        pub handshake_timeout: Duration where a_millisecond = Duration::from_secs(2),
        /// Who may connect through a Unix socket besides root: same (the user that the daemon runs as),
        /// everyone, or user ids.
        pub users: Users = Users::Same,
        /// Which TCP connections are encrypted: remote (those between machines), all or none. Encryption needs keys
        /// or a secret; without them no process listens on or connects to addresses of other machines.
        pub encryption: Encryption = Encryption::Remote,
        /// The folder of keys that this node shows to others: a path, none, or auto for the first that exists of
        /// outboard/keys in the user's configuration folder and /etc/outboard/keys.
        pub keys: KeysPlace = KeysPlace::Auto,
        /// What all processes that belong together know and others do not, in place of keys; without either, it is
        /// the job's secret. Has to be random: outboard keys secret draws one.
        pub secret: Option<Secret> = None,
        /// Whether to go without encryption to and from other machines: where there are neither keys nor a secret,
        /// where encryption is none, and on fabrics, which have none.
        pub allow_remote: bool = false,
        /// Who moves the bytes of links over libfabric, by libfabric's name, such as verbs;ofi_rxm. Without it, the
        /// best that there is; where others connect, what they chose.
        pub provider: Option<String> = None,
        /// Who lets libfabric's provider do its work: fitting (as the provider prefers), manual (the link's owner, when
        /// it has time) or automatic (the provider, by a thread of its own if it has to: what peers read and write is
        /// reached at any time then, and costs processor time). Where there is nothing automatic, it is manual.
        pub progress: ofi::Progress = ofi::Progress::Fitting,
        /// How much memory all links of a process over libfabric have for long frames. Each takes 1.7 MiB of it when its
        /// peer begins to send some, and 1 MiB when it does so itself; without room they go in pieces.
        pub fabric_pool: ByteSize = ByteSize(64 << 20),
        /// Which of 256 slots, 0 to 255, TCP connections that this process makes over IPv6 belong to: they carry it in
        /// their flow label, and a daemon gives those of one slot to one of its threads. Without it, any thread.
        pub slot: Option<u8> = None,
    }
}

impl LinkSettings {
    /// What links of each kind are built with.
    pub fn configs(&self) -> LinkConfigs {
        LinkConfigs { shm: self.shm(), tcp: self.tcp(), ofi: self.ofi() }
    }

    /// What shared-memory links are built with.
    pub fn shm(&self) -> shm::ShmConfig {
        shm::ShmConfig {
            // The check of `ring` leaves nothing that does not fit.
            ring_bytes: u32::try_from(self.ring.0).unwrap_or(u32::MAX),
            handshake_timeout: self.handshake_timeout,
            users: self.users.clone(),
            ..shm::ShmConfig::default()
        }
    }

    /// What TCP links are built with.
    pub fn tcp(&self) -> tcp::TcpConfig {
        tcp::TcpConfig {
            stream: self.stream(),
            allow_remote: self.allow_remote,
            encryption: self.encryption,
            credential: self.credential(),
            slot: self.slot,
        }
    }
}

impl LinkSettings {
    /// The settings of links over TCP and fabrics alike.
    fn stream(&self) -> StreamConfig {
        StreamConfig {
            buffer_bytes: usize::try_from(self.ring.0).unwrap_or(usize::MAX),
            heartbeat: self.heartbeat,
            deadline: self.deadline,
            handshake_timeout: self.handshake_timeout,
            ..StreamConfig::default()
        }
    }

    /// What links over libfabric are built with.
    pub fn ofi(&self) -> ofi::OfiConfig {
        let defaults = ofi::OfiConfig::default();
        ofi::OfiConfig {
            stream: StreamConfig {
                // Providers take their time, and no other test has to wait for that.
                handshake_timeout: self.handshake_timeout.max(defaults.stream.handshake_timeout),
                ..self.stream()
            },
            allow_remote: self.allow_remote,
            provider: self.provider.clone(),
            progress: self.progress,
            pool_bytes: usize::try_from(self.fabric_pool.0).unwrap_or(usize::MAX),
            ..defaults
        }
    }

    /// What is shown to other machines. What was said beats what was found.
    pub fn credential(&self) -> Option<Credential> {
        let secret = || self.secret.as_ref().map(|secret| Credential::Secret(secret.expose().into()));
        match &self.keys {
            KeysPlace::At(folder) => Some(Credential::Keys(folder.clone())),
            KeysPlace::None => secret(),
            KeysPlace::Auto => secret().or_else(|| KeysPlace::find().map(Credential::Keys)),
        }
    }

    /// The settings for a process of this job: where there is nothing else, it shows the job's secret.
    pub fn of_job(&self, job: &JobSettings) -> Self {
        let secret = job.secret.clone().filter(|secret| !secret.is_guessable());
        let is_usable = match (self.credential(), &self.keys) {
            // Keys of others that lie where keys are looked for are no reason to go without the job's secret.
            (Some(Credential::Keys(folder)), KeysPlace::Auto) => can_read(&folder) == Some(true),
            (credential, _) => credential.is_some(),
        };
        if is_usable { self.clone() } else { Self { secret, ..self.clone() } }
    }
}

impl Choice for Encryption {
    const KIND: &'static str = "encryption";
    const EXAMPLE: &'static str = "remote, all or none";
    const ALL: &'static [(&'static str, Self)] =
        &[("remote", Self::Remote), ("all", Self::All), ("none", Self::None)];
}

impl Choice for ofi::Progress {
    const KIND: &'static str = "progress";
    const EXAMPLE: &'static str = "fitting, manual or automatic";
    const ALL: &'static [(&'static str, Self)] =
        &[("fitting", Self::Fitting), ("manual", Self::Manual), ("automatic", Self::Automatic)];
}

fn ring_size(ring: &ByteSize) -> Result<(), &'static str> {
    let ByteSize(bytes) = *ring;
    match bytes.is_power_of_two() && (1 << 16..=1 << 30).contains(&bytes) {
        true => Ok(()),
        false => Err("it must be a power of two from 64KiB to 1GiB"),
    }
}

fn a_millisecond(time: &Duration) -> Result<(), &'static str> {
    if *time < Duration::from_millis(1) { Err("it must be at least 1ms") } else { Ok(()) }
}

fn an_hour_at_most(deadline: &Duration) -> Result<(), &'static str> {
    match (Duration::from_millis(2)..=Duration::from_secs(3600)).contains(deadline) {
        true => Ok(()),
        false => Err("it must be at least two heartbeats, and at most 1h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_links() {
        let settings = LinkSettings { keys: KeysPlace::None, ..LinkSettings::default() };
        assert_eq!(format!("{:?}", settings.shm()), format!("{:?}", shm::ShmConfig::default()));
        assert_eq!(format!("{:?}", settings.tcp()), format!("{:?}", tcp::TcpConfig::default()));
        assert_eq!(format!("{:?}", settings.ofi()), format!("{:?}", ofi::OfiConfig::default()));
    }

    #[test]
    fn what_was_said_beats_what_was_found_and_that_the_job() {
        let secret = |text: &str| Some(Secret::new(text).unwrap());
        let job = JobSettings { secret: secret("the secret of the job"), ..JobSettings::default() };
        let nothing = LinkSettings { keys: KeysPlace::None, ..LinkSettings::default() };
        assert_eq!(nothing.credential(), None);
        assert_eq!(
            nothing.of_job(&job).credential(),
            Some(Credential::Secret("the secret of the job".into()))
        );
        let own = LinkSettings { secret: secret("the secret of links"), ..nothing.clone() };
        assert_eq!(own.of_job(&job).credential(), Some(Credential::Secret("the secret of links".into())));
        let keys = LinkSettings { keys: KeysPlace::At("/keys".into()), ..own };
        assert_eq!(keys.of_job(&job).credential(), Some(Credential::Keys("/keys".into())));
        let siblings = JobSettings { secret: secret("ranks-of-0123456789abcdef"), ..job };
        assert_eq!(nothing.of_job(&siblings).credential(), None, "others could guess it");
    }
}
