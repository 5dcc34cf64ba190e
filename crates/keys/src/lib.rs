//! Makes the certificates by which the nodes of a cluster know each other, and reads when they expire.
//! It encrypts nothing and decides about no peer: links do.
//!
//! One machine holds the authority, a key that signs certificates ([`init`]). Every node gets a folder with the
//! authority's certificate, its own, and its own private key ([`issue`]). All certificates are made out to the same
//! name, because nodes are told apart by their addresses: who has a certificate of the authority belongs to the
//! cluster, and who has none does not.
//!
//! # Caveats
//! - There is no list of revoked certificates. A stolen key is good until its certificate expires or the authority is
//!   replaced, so certificates should not live long.
//! - A holder of `ca.key` can let any machine in. It is needed to issue, and nowhere else.

#![forbid(unsafe_code)]

mod authority;
mod der;
mod error;
mod facts;
mod files;
#[cfg(test)]
mod tests;

pub use authority::{AUTHORITY_DAYS, NODE_DAYS, init, issue};
pub use error::KeysError;
pub use facts::{Certificate, Facts, look};

/// The authority's private key, in the folder of the person who issues certificates.
pub const AUTHORITY_KEY_FILE: &str = "ca.key";
