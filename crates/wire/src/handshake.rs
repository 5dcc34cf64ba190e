//! The first words on every link: who is there, which version, and with what proof.
//!
//! The side that connects sends a [`Hello`]; the other answers with a [`Welcome`] or a [`Refusal`], and before that with
//! as many [`Wait`]s as it takes. All four have one size, so that a stream reader always knows how much to wait for. That
//! size, the magic and the place of the versions are the same in every version. What a build of a newer version adds
//! elsewhere in a hello or a refusal is left out by an older one: the two speak the older version, or part.

use core::fmt;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::exact;
use crate::text::Text;
use crate::{DecodeError, Incarnation, JobId, Rank, Role, StoreId, Versions};

/// The size of each handshake message in bytes.
pub const HANDSHAKE_LEN: usize = 176;

/// Proof of identity: a method and what it needs. Method 0 is "none"; links within a node rely on the
/// kernel's word about the peer instead.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Auth {
    /// Which method `proof` belongs to.
    pub method: u8,
    /// The method's bytes.
    pub proof: [u8; 64],
}

impl Auth {
    /// No proof is offered or asked for.
    pub const NONE: Self = Self { method: 0, proof: [0; 64] };
}

impl fmt::Debug for Auth {
    /// Leaves the proof out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Auth {{ method: {} }}", self.method)
    }
}

/// What each side says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The random number this process drew at its start.
    pub incarnation: Incarnation,
    /// What kind of process it is.
    pub role: Role,
    /// The job it belongs to.
    pub job: JobId,
    /// Its number in the job.
    pub rank: Rank,
    /// Its process id on its own node, for messages to people.
    pub pid: u32,
    /// The name people know it by.
    pub name: Text<32>,
    /// The longest payload it accepts, in bytes.
    pub max_payload: u32,
    /// Its proof of identity.
    pub auth: Auth,
    /// The store that a memory server goes on with. Only a [`Welcome`] says it, since version 2.
    pub store: StoreId,
}

/// The first version in which a welcome says which store the server has.
const STORE_SINCE: u16 = 2;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Message {
    magic: [u8; 8],
    version_min: U16,
    version_max: U16,
    role: u8,
    auth_method: u8,
    reserved: U16,
    incarnation: U64,
    job: U64,
    rank: U32,
    pid: U32,
    max_payload: U32,
    ring_bytes: U32,
    heartbeat_ms: U32,
    deadline_ms: U32,
    name: Text<32>,
    auth: [u8; 64],
    store: U64,
    padding: [u8; 16],
}

const _: () = assert!(size_of::<Message>() == HANDSHAKE_LEN);
const _: () = assert!(core::mem::offset_of!(Message, name) == 56);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RefusalMessage {
    magic: [u8; 8],
    version_min: U16,
    version_max: U16,
    reason: U16,
    reserved: U16,
    detail: Text<160>,
}

const _: () = assert!(size_of::<RefusalMessage>() == HANDSHAKE_LEN);

const HELLO: [u8; 8] = *b"OUTBOARD";
const WELCOME: [u8; 8] = *b"OUTBWELC";
const REFUSAL: [u8; 8] = *b"OUTBSTOP";
const WAIT: [u8; 8] = *b"OUTBWAIT";

impl Message {
    fn new(magic: [u8; 8], versions: Versions, intro: &Introduction) -> Self {
        Self {
            magic,
            version_min: versions.min.into(),
            version_max: versions.max.into(),
            role: intro.role as u8,
            auth_method: intro.auth.method,
            reserved: 0.into(),
            incarnation: intro.incarnation.0.into(),
            job: intro.job.0.into(),
            rank: intro.rank.0.into(),
            pid: intro.pid.into(),
            max_payload: intro.max_payload.into(),
            ring_bytes: 0.into(),
            heartbeat_ms: 0.into(),
            deadline_ms: 0.into(),
            name: intro.name,
            auth: intro.auth.proof,
            store: 0.into(),
            padding: [0; 16],
        }
    }

    /// Who says this. What a build of a version that we do not know says besides is left out where `may_say_more`.
    fn introduction(&self, may_say_more: bool) -> Result<Introduction, DecodeError> {
        self.name.check("peer name")?;
        let padding = self.padding.iter().fold(0, |or, b| or | u64::from(*b));
        let has_store = self.magic == WELCOME && self.versions().max >= STORE_SINCE;
        let store = if has_store { 0 } else { self.store.get() };
        let reserved = u64::from(self.reserved.get()) | padding | store;
        if reserved != 0 && !may_say_more {
            return Err(DecodeError::BadValue { what: "reserved handshake bytes", value: reserved });
        }
        Ok(Introduction {
            incarnation: Incarnation(self.incarnation.get()),
            role: self.role.try_into()?,
            job: JobId(self.job.get()),
            rank: Rank(self.rank.get()),
            pid: self.pid.get(),
            name: self.name,
            max_payload: self.max_payload.get(),
            auth: Auth { method: self.auth_method, proof: self.auth },
            store: StoreId(if has_store { self.store.get() } else { 0 }),
        })
    }

    fn versions(&self) -> Versions {
        Versions { min: self.version_min.get(), max: self.version_max.get() }
    }
}

/// The connecting side's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What it can speak.
    pub versions: Versions,
    /// Who it is.
    pub intro: Introduction,
}

impl Hello {
    /// The message as it travels.
    pub fn encode(&self) -> [u8; HANDSHAKE_LEN] {
        zerocopy::transmute!(Message::new(HELLO, self.versions, &self.intro))
    }

    /// What the sender of a message of exactly [`HANDSHAKE_LEN`] bytes speaks, whatever else it says there.
    pub fn versions_in(bytes: &[u8]) -> Result<Versions, DecodeError> {
        let message: &Message = exact("hello", bytes)?;
        if message.magic != HELLO {
            return Err(DecodeError::NotOutboard { start: message.magic });
        }
        message.versions().check()
    }

    /// Reads a message of exactly [`HANDSHAKE_LEN`] bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let versions = Self::versions_in(bytes)?;
        let message: &Message = exact("hello", bytes)?;
        let unused = message.ring_bytes.get() | message.heartbeat_ms.get() | message.deadline_ms.get();
        if unused != 0 {
            return Err(DecodeError::BadValue { what: "link parameters in a hello", value: unused.into() });
        }
        Ok(Self { versions, intro: message.introduction(versions.reach_beyond_ours())? })
    }
}

/// The accepting side's answer, with the parameters of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version both will speak from here on.
    pub version: u16,
    /// Who the accepting side is.
    pub intro: Introduction,
    /// The size of each shared-memory ring in bytes; zero on other links.
    pub ring_bytes: u32,
    /// How often an idle side shows that it lives, in milliseconds.
    pub heartbeat_ms: u32,
    /// After how long a silence the other side counts as lost, in milliseconds.
    pub deadline_ms: u32,
}

impl Welcome {
    /// The message as it travels.
    pub fn encode(&self) -> [u8; HANDSHAKE_LEN] {
        let versions = Versions { min: self.version, max: self.version };
        let mut message = Message::new(WELCOME, versions, &self.intro);
        message.ring_bytes = self.ring_bytes.into();
        message.heartbeat_ms = self.heartbeat_ms.into();
        message.deadline_ms = self.deadline_ms.into();
        if self.version >= STORE_SINCE {
            message.store = self.intro.store.0.into();
        }
        zerocopy::transmute!(message)
    }
}

/// Why a connection was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RefusalReason {
    /// One that this build has no word for; the detail says it.
    Other = 0,
    /// No version is spoken by both sides.
    Version = 1,
    /// The credentials or the proof are not accepted.
    Credentials = 2,
    /// No room for another connection.
    Busy = 3,
    /// The hello could not be understood.
    Malformed = 4,
    /// The process is shutting down.
    Closing = 5,
}

impl From<u16> for RefusalReason {
    fn from(value: u16) -> Self {
        match value {
            1 => Self::Version,
            2 => Self::Credentials,
            3 => Self::Busy,
            4 => Self::Malformed,
            5 => Self::Closing,
            _ => Self::Other,
        }
    }
}

/// The accepting side's "no".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why, for programs.
    pub reason: RefusalReason,
    /// What the accepting side speaks.
    pub versions: Versions,
    /// Why, for people.
    pub detail: Text<160>,
}

impl Refusal {
    /// A refusal by this build.
    pub fn new(reason: RefusalReason, detail: &str) -> Self {
        Self { reason, versions: Versions::OURS, detail: Text::new(detail) }
    }

    /// No version is spoken by both sides. It is in the same words on both.
    pub fn of_versions(connecting: Versions, accepting: Versions) -> Self {
        let detail = format!(
            "no version of the protocol in common: the side that connects speaks {connecting}, the other {accepting}; \
             update the older one"
        );
        Self { reason: RefusalReason::Version, versions: accepting, detail: Text::new(&detail) }
    }

    /// The message as it travels.
    pub fn encode(&self) -> [u8; HANDSHAKE_LEN] {
        zerocopy::transmute!(RefusalMessage {
            magic: REFUSAL,
            version_min: self.versions.min.into(),
            version_max: self.versions.max.into(),
            reason: (self.reason as u16).into(),
            reserved: 0.into(),
            detail: self.detail,
        })
    }
}

/// The accepting side's "not yet": it has heard the hello and is busy with others that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait;

impl Wait {
    /// The message as it travels.
    pub fn encode(self) -> [u8; HANDSHAKE_LEN] {
        let mut bytes = [0; HANDSHAKE_LEN];
        bytes[..WAIT.len()].copy_from_slice(&WAIT);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        match bytes[WAIT.len()..].iter().find(|byte| **byte != 0) {
            None => Ok(Self),
            Some(byte) => Err(DecodeError::BadValue { what: "rest of a wait", value: (*byte).into() }),
        }
    }
}

/// Any answer to a [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeAnswer {
    /// The link is open.
    Welcome(Welcome),
    /// It is not.
    Refusal(Refusal),
    /// It will be; another answer follows.
    Wait(Wait),
}

impl HandshakeAnswer {
    /// Reads a message of exactly [`HANDSHAKE_LEN`] bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let message: &Message = exact("handshake answer", bytes)?;
        match message.magic {
            WELCOME => Self::decode_welcome(message),
            REFUSAL => Self::decode_refusal(exact("refusal", bytes)?),
            WAIT => Wait::decode(bytes).map(Self::Wait),
            start => Err(DecodeError::NotOutboard { start }),
        }
    }

    fn decode_welcome(message: &Message) -> Result<Self, DecodeError> {
        let Versions { min, max } = message.versions().check()?;
        if min != max {
            return Err(DecodeError::BadValue { what: "agreed version", value: max.into() });
        }
        Ok(Self::Welcome(Welcome {
            version: min,
            intro: message.introduction(false)?,
            ring_bytes: message.ring_bytes.get(),
            heartbeat_ms: message.heartbeat_ms.get(),
            deadline_ms: message.deadline_ms.get(),
        }))
    }

    fn decode_refusal(message: &RefusalMessage) -> Result<Self, DecodeError> {
        message.detail.check("refusal detail")?;
        let versions = Versions { min: message.version_min.get(), max: message.version_max.get() }.check()?;
        if message.reserved.get() != 0 && !versions.reach_beyond_ours() {
            let value = message.reserved.get().into();
            return Err(DecodeError::BadValue { what: "reserved refusal bytes", value });
        }
        Ok(Self::Refusal(Refusal { reason: message.reason.get().into(), versions, detail: message.detail }))
    }
}
