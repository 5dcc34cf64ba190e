//! Why an encrypted connection did not come about, or was given up.

use std::time::Duration;

use thiserror::Error;

/// Why a peer is not trusted, or does not trust us, told so that one knows what to do.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Distrust {
    /// What it says is not encrypted.
    #[error(
        "it does not speak TLS, and a process on another machine has to; give both sides a credential, the \
         same `link.secret` or certificates by `outboard keys`"
    )]
    PlainText,
    /// What we say is not encrypted.
    #[error(
        "it wants TLS, and we spoke without; give this side a credential too, the same `link.secret` or a certificate \
         by `outboard keys`"
    )]
    WantsTls,
    /// Its certificate was valid once.
    #[error("its certificate expired {}; `outboard keys issue` makes a new one", days(.ago, "ago"))]
    Expired {
        /// How long ago it ended.
        ago: Duration,
    },
    /// Its certificate will be valid.
    #[error("its certificate is not valid yet, but {}; are both machines' clocks right?", days(.ahead, "from now"))]
    NotYetValid {
        /// In what time it begins.
        ahead: Duration,
    },
    /// Another authority made its certificate.
    #[error(
        "its certificate was not issued by our authority; both sides need the same ca.pem, and certificates \
         that `outboard keys issue` made with it"
    )]
    UnknownIssuer,
    /// It knows another secret.
    #[error("it has another secret; `link.secret`, or else `job.secret`, must be the same on both sides")]
    OtherSecret,
    /// It shows nothing.
    #[error("it showed no certificate")]
    NoCredential,
    /// One side has a certificate and the other a secret.
    #[error("it has another kind of credential: one side uses certificates, the other a secret")]
    OtherKind,
    /// The peer does not trust us.
    #[error("it refused our credential: {why}")]
    RefusedUs {
        /// What its alert means.
        why: &'static str,
    },
    /// Something else that a right peer does not do.
    #[error("TLS failed: {what}")]
    Broken {
        /// In the library's words.
        what: String,
    },
}

outboard_wire::debug_with_causes!(Distrust);

impl Distrust {
    /// What happened, in few words that are the same for all of a kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PlainText => "peer does not speak TLS",
            Self::WantsTls => "peer wants TLS",
            Self::Expired { .. } => "peer's certificate has expired",
            Self::NotYetValid { .. } => "peer's certificate is not valid yet",
            Self::UnknownIssuer => "peer's certificate is from another authority",
            Self::OtherSecret => "peer has another secret",
            Self::NoCredential => "peer shows no certificate",
            Self::OtherKind => "peer has another kind of credential",
            Self::RefusedUs { .. } => "refused by peer",
            Self::Broken { .. } => "peer broke off the encryption",
        }
    }
}

fn days(span: &Duration, direction: &str) -> String {
    match span.as_secs() / (24 * 3600) {
        0 => format!("less than a day {direction}"),
        1 => format!("a day {direction}"),
        days => format!("{days} days {direction}"),
    }
}
