//! The meaning of errors of the encryption.

use std::time::Duration;

use outboard_contract::Distrust;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// The meaning of `error`. Before the handshake is over, bytes that are no TLS are most likely plain text.
pub(super) fn distrust_of(error: &Error, is_open: bool) -> Distrust {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::NoCertificatesPresented => Distrust::NoCredential,
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge
            | InvalidMessage::InvalidEmptyPayload,
        ) if !is_open => Distrust::PlainText,
        Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension) => Distrust::OtherKind,
        Error::AlertReceived(alert) => match refusal(*alert) {
            Some(why) => Distrust::RefusedUs { why },
            None => Distrust::Broken { what: error.to_string() },
        },
        error => Distrust::Broken { what: error.to_string() },
    }
}

fn of_certificate(error: &CertificateError) -> Distrust {
    let apart = |one: u64, other: u64| Duration::from_secs(one.saturating_sub(other));
    match error {
        CertificateError::Expired => Distrust::Expired { ago: Duration::ZERO },
        CertificateError::ExpiredContext { time, not_after } => {
            Distrust::Expired { ago: apart(time.as_secs(), not_after.as_secs()) }
        }
        CertificateError::NotValidYet => Distrust::NotYetValid { ahead: Duration::ZERO },
        CertificateError::NotValidYetContext { time, not_before } => {
            Distrust::NotYetValid { ahead: apart(not_before.as_secs(), time.as_secs()) }
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => Distrust::UnknownIssuer,
        CertificateError::ApplicationVerificationFailure => Distrust::OtherSecret,
        error => Distrust::Broken { what: error.to_string() },
    }
}

/// The verdict of an alert on our credential, if it has one.
fn refusal(alert: AlertDescription) -> Option<&'static str> {
    match alert {
        AlertDescription::CertificateExpired => {
            Some("our certificate has expired; `outboard keys issue` makes a new one")
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            Some("our certificate was not issued by its authority")
        }
        AlertDescription::AccessDenied => {
            Some("it has another secret; `link.secret`, or else `job.secret`, must be the same on both sides")
        }
        AlertDescription::CertificateRequired => Some("it wants a certificate, and we showed none"),
        AlertDescription::HandshakeFailure => {
            Some("it has another kind of credential: one side uses certificates, the other a secret")
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRevoked => Some("it cannot use our certificate"),
        _ => None,
    }
}
