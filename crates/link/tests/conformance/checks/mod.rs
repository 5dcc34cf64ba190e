//! What every link must do, one file per subject.

pub(crate) mod access;
pub(crate) mod contention;
pub(crate) mod death;
pub(crate) mod frames;
pub(crate) mod garbage;
pub(crate) mod handshake;
pub(crate) mod long_reads;
pub(crate) mod pressure;
pub(crate) mod refusal;
pub(crate) mod waiting;
