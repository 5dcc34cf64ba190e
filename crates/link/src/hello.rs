//! What every accepting side asks of a hello.

use outboard_wire::{Auth, HANDSHAKE_LEN, Hello, Refusal, RefusalReason, Versions};

/// How many connections may wait to be accepted, as far as the kernel allows (net.core.somaxconn): clients that come at
/// once wait there rather than to be turned away.
pub(crate) const BACKLOG: i32 = 4096;

/// How somebody begins who speaks TLS.
const TLS_HANDSHAKE: [u8; 2] = [22, 3];

/// A refusal in the caller's hand, with words for people.
pub(crate) fn refuse<T>(reason: RefusalReason, detail: &str) -> Result<T, Box<Refusal>> {
    Err(Box::new(Refusal::new(reason, detail)))
}

/// The hello and the version to speak, or why not.
pub(crate) fn check_hello(bytes: &[u8]) -> Result<(Hello, u16), Box<Refusal>> {
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
    let Some(version) = Versions::OURS.common(hello.versions) else {
        let detail = format!("no common version: you speak {}, we speak {}", hello.versions, Versions::OURS);
        return refuse(RefusalReason::Version, &detail);
    };
    if hello.intro.auth.method != Auth::NONE.method {
        let detail = format!("authentication method {} is not known", hello.intro.auth.method);
        return refuse(RefusalReason::Credentials, &detail);
    }
    Ok((hello, version))
}
