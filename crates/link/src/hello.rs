//! The checks of a hello by every accepting side, and of the answer by every connecting side.

use outboard_wire::{
    Auth, DecodeError, HANDSHAKE_LEN, HandshakeAnswer, Hello, Refusal, RefusalReason, Time, Versions, Wait,
    Welcome,
};

use crate::patience::Patience;
use crate::{ConnectError, Identity};

/// How many connections may wait to be accepted, as far as the kernel allows (net.core.somaxconn): clients that come at
/// once wait there rather than to be turned away.
pub(crate) const BACKLOG: i32 = 4096;

/// The first bytes of a peer that speaks TLS.
const TLS_HANDSHAKE: [u8; 2] = [22, 3];

/// A refusal in the caller's hand, with words for people.
pub(crate) fn refuse<T>(reason: RefusalReason, detail: &str) -> Result<T, Box<Refusal>> {
    Err(Box::new(Refusal::new(reason, detail)))
}

/// The first version in which the accepting side may ask the other to wait.
const WAIT_SINCE: u16 = 2;

/// The message to a client that has been heard and has to wait, if it understands that.
pub(crate) fn wait(version: u16) -> Option<[u8; HANDSHAKE_LEN]> {
    (version >= WAIT_SINCE).then(|| Wait.encode())
}

/// The hello and the version to speak, or why not. Versions come first: the rest of what a build says that speaks none of
/// `ours` need not mean anything here.
pub(crate) fn check_hello(bytes: &[u8], ours: Versions) -> Result<(Hello, u16), Box<Refusal>> {
    let version = match Hello::versions_in(bytes).map(|theirs| ours.common(theirs).ok_or(theirs)) {
        Ok(Err(theirs)) => return Err(Box::new(Refusal::of_versions(theirs, ours))),
        Ok(Ok(version)) => version,
        // Why it is no hello is said below.
        Err(_) => ours.min,
    };
    let hello = match Hello::decode(bytes) {
        Ok(hello) => hello,
        Err(_) if bytes.starts_with(&TLS_HANDSHAKE) => {
            let detail = "expected an Outboard hello, and this is TLS: this side has no credential for it";
            return refuse(RefusalReason::Credentials, detail);
        }
        Err(error) => {
            let detail = format!("expected an Outboard hello of {HANDSHAKE_LEN} bytes: {error}");
            return refuse(RefusalReason::Malformed, &detail);
        }
    };
    if hello.intro.auth.method != Auth::NONE.method {
        let detail = format!("authentication method {} is not known", hello.intro.auth.method);
        return refuse(RefusalReason::Credentials, &detail);
    }
    Ok((hello, version))
}

/// The welcome that an answer is, `None` if another answer will follow, or why there is no link.
pub(crate) fn hear_answer(
    answer: Result<HandshakeAnswer, DecodeError>,
    (identity, address): (&Identity, &str),
    patience: &mut Patience,
    now: Time,
) -> Result<Option<Welcome>, ConnectError> {
    let address = || address.to_owned();
    match answer {
        Ok(HandshakeAnswer::Welcome(welcome)) if identity.versions.include(welcome.version) => {
            Ok(Some(welcome))
        }
        Ok(HandshakeAnswer::Welcome(Welcome { version, .. })) => {
            let source = DecodeError::BadValue { what: "agreed version", value: version.into() };
            Err(ConnectError::Garbage { address: address(), source })
        }
        Ok(HandshakeAnswer::Refusal(Refusal { reason: RefusalReason::Version, versions, .. })) => {
            // In words of this build: those of another one may be any.
            let refusal = Box::new(Refusal::of_versions(identity.versions, versions));
            Err(ConnectError::Refused { address: address(), refusal })
        }
        Ok(HandshakeAnswer::Refusal(refusal)) => {
            Err(ConnectError::Refused { address: address(), refusal: Box::new(refusal) })
        }
        Ok(HandshakeAnswer::Wait(_)) if patience.is_over(now) => Err(patience.timed_out(address())),
        Ok(HandshakeAnswer::Wait(_)) => {
            patience.renew();
            Ok(None)
        }
        Err(source) => Err(ConnectError::Garbage { address: address(), source }),
    }
}
