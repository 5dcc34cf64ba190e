//! What is encrypted, and which credentials are fit for use.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;

use outboard_link::tcp::{
    AUTHORITY_FILE, Credential, Distrust, Encryption, KEY_FILE, TcpConfig, TcpDialing, TcpListener,
    TrustError,
};
use outboard_link::{ConnectError, Exports};
use outboard_wire::Time;

use crate::authority::{Authority, Validity};
use crate::port::{config, exchange, identity, meet, secret};

const EVERYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
/// Reserved for documentation: no machine is there.
const ELSEWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 7);

fn bind(address: SocketAddr, config: TcpConfig) -> Result<TcpListener, ConnectError> {
    TcpListener::bind(address, identity("listener"), Exports::new(), config)
}

fn dial(address: SocketAddr, config: TcpConfig) -> Result<TcpDialing, ConnectError> {
    TcpDialing::new(address, identity("dialler"), Exports::new(), config, Time::ZERO)
}

#[test]
fn beyond_the_machine_a_credential_or_leave_is_needed() {
    let with = |encryption, credential, allow_remote| TcpConfig {
        encryption,
        credential,
        allow_remote,
        ..TcpConfig::default()
    };
    let some = || Some(secret("what only the two know"));
    for (config, is_allowed) in [
        (with(Encryption::Remote, None, false), false),
        (with(Encryption::Remote, None, true), true),
        (with(Encryption::Remote, some(), false), true),
        (with(Encryption::All, None, true), false),
        (with(Encryption::All, some(), false), true),
        (with(Encryption::None, some(), false), false),
        (with(Encryption::None, some(), true), true),
    ] {
        let shown = format!("{config:?}");
        let refused = |error: Option<ConnectError>| matches!(error, Some(ConnectError::NotLoopback { .. }));
        assert_eq!(!refused(bind(EVERYWHERE, config.clone()).err()), is_allowed, "{shown}");
        assert_eq!(!refused(dial(ELSEWHERE, config).err()), is_allowed, "{shown}");
        assert!(!shown.contains("what only"), "a secret is shown: {shown}");
    }
}

#[test]
fn loopback_is_plain_also_at_a_port_that_is_encrypted_for_others() {
    let config = TcpConfig { credential: Some(secret("what only the two know")), ..TcpConfig::default() };
    let everywhere = bind(EVERYWHERE, config).unwrap();
    let port = everywhere.address().port();
    drop(TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port)).unwrap());
    while everywhere.accept(Time::ZERO).unwrap().is_none() {}
    // It is dialled by the address that stands for all, which is this machine.
    let (dialled, accepted) = meet(&everywhere, &TcpConfig::default());
    exchange(&mut dialled.unwrap(), &mut accepted.unwrap());
}

#[test]
fn our_own_credential_is_looked_at_first() {
    let authority = Authority::new();
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let why = |credential: Credential| match bind(here, config(credential)).err() {
        Some(ConnectError::Credential { source, .. }) => source,
        other => panic!("expected an unusable credential, found {other:?}"),
    };
    let expired = why(Credential::Keys(authority.folder(&authority.issue(Validity::Past))));
    assert!(matches!(expired, TrustError::Worthless { source: Distrust::Expired { .. }, .. }), "{expired}");
    assert!(expired.to_string().contains("days ago"), "{expired}");

    let foreign = why(Credential::Keys(authority.folder(&Authority::new().issue(Validity::Now))));
    assert!(matches!(foreign, TrustError::Worthless { source: Distrust::UnknownIssuer, .. }), "{foreign}");

    let folder = authority.folder(&authority.issue(Validity::Now));
    std::fs::set_permissions(folder.join(KEY_FILE), PermissionsExt::from_mode(0o644)).unwrap();
    let exposed = why(Credential::Keys(folder.clone()));
    assert!(exposed.to_string().contains("chmod 600"), "{exposed}");

    let other = authority.folder(&authority.issue(Validity::Now));
    std::fs::copy(other.join(KEY_FILE), folder.join(KEY_FILE)).unwrap();
    std::fs::set_permissions(folder.join(KEY_FILE), PermissionsExt::from_mode(0o600)).unwrap();
    let mixed = why(Credential::Keys(folder.clone()));
    assert!(mixed.to_string().contains("private key"), "{mixed}");

    std::fs::write(folder.join(AUTHORITY_FILE), "no certificate").unwrap();
    assert!(matches!(why(Credential::Keys(folder.clone())), TrustError::Unfit { .. }));
    std::fs::remove_file(folder.join(AUTHORITY_FILE)).unwrap();
    let missing = why(Credential::Keys(folder));
    assert!(missing.to_string().contains("ca.pem") && missing.to_string().contains("keys init"), "{missing}");
}
