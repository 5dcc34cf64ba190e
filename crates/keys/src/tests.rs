//! Folders of keys, from their making to a link.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use outboard_link::tcp::{Credential, Encryption, TcpConfig, TcpListener};
use outboard_link::{Exports, Identity};
use outboard_wire::Role;
use time::OffsetDateTime;

use crate::{AUTHORITY_DAYS, KeysError, NODE_DAYS, init, issue, look};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("outboard-keys-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a link can use what is in a folder.
fn is_fit(folder: &Folder) -> bool {
    let credential = Some(Credential::Keys(folder.0.clone()));
    let config = TcpConfig { encryption: Encryption::All, credential, ..TcpConfig::default() };
    let identity = Identity::new(Role::Tool, "test");
    TcpListener::bind(([127, 0, 0, 1], 0).into(), identity, Exports::new(), config).is_ok()
}

#[test]
fn what_is_made_can_be_used_and_only_its_owner_can_read_it() {
    let (here, there) = (Folder::new(), Folder::new());
    init(&here.0, "head", NODE_DAYS).unwrap();
    issue(&here.0, "node-7", &there.0, 30).unwrap();
    assert!(is_fit(&here) && is_fit(&there));
    for folder in [&here, &there] {
        for entry in fs::read_dir(&folder.0).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert_eq!(fs::read(here.0.join("ca.pem")).unwrap(), fs::read(there.0.join("ca.pem")).unwrap());
    assert!(!there.0.join("ca.key").exists(), "nodes cannot issue");
}

#[test]
fn the_facts_are_those_that_were_asked_for() {
    let (here, there) = (Folder::new(), Folder::new());
    init(&here.0, "head", NODE_DAYS).unwrap();
    issue(&here.0, "node-7.cluster", &there.0, 30).unwrap();
    let (here, there) = (look(&here.0).unwrap(), look(&there.0).unwrap());
    let now = OffsetDateTime::now_utc();
    assert_eq!((here.node.name.as_str(), there.node.name.as_str()), ("head", "node-7.cluster"));
    assert_eq!(here.authority.name, there.authority.name);
    assert!(here.authority.name.starts_with("Outboard authority "));
    assert_eq!((here.can_issue, there.can_issue), (true, false));
    assert!((29..=30).contains(&there.node.days_left(now)), "{}", there.node.days_left(now));
    let years = here.authority.days_left(now);
    assert!((i64::from(AUTHORITY_DAYS) - 1..=i64::from(AUTHORITY_DAYS)).contains(&years), "{years}");
    assert!(there.node.from < now);
    assert_eq!(there.node.days_left(there.node.until + time::Duration::days(2)), -2);
}

#[test]
fn keys_are_never_replaced() {
    let folder = Folder::new();
    init(&folder.0, "head", NODE_DAYS).unwrap();
    let before = fs::read(folder.0.join("ca.key")).unwrap();
    assert!(matches!(init(&folder.0, "head", NODE_DAYS), Err(KeysError::Exists { .. })));
    assert!(matches!(issue(&folder.0, "head", &folder.0, 1), Err(KeysError::Exists { .. })));
    assert_eq!(fs::read(folder.0.join("ca.key")).unwrap(), before);
}

#[test]
fn a_folder_of_another_authority_is_refused_by_links() {
    let (one, other) = (Folder::new(), Folder::new());
    init(&one.0, "one", NODE_DAYS).unwrap();
    init(&other.0, "other", NODE_DAYS).unwrap();
    fs::copy(other.0.join("ca.pem"), one.0.join("ca.pem")).unwrap();
    assert!(!is_fit(&one));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (folder, other) = (Folder::new(), Folder::new());
    for name in ["", "a b", "ü", &"x".repeat(64)] {
        assert!(matches!(init(&folder.0, name, 1), Err(KeysError::BadName { .. })), "{name}");
    }
    for days in [0, 36_501] {
        assert!(matches!(init(&folder.0, "a", days), Err(KeysError::BadDays { .. })), "{days}");
    }
    assert!(!folder.0.exists(), "nothing is left of a refusal");
    assert!(matches!(issue(&folder.0, "a", &other.0, 1), Err(KeysError::NoAuthority { .. })));
    init(&folder.0, "a", 1).unwrap();
    fs::write(folder.0.join("node.pem"), "no certificate").unwrap();
    assert!(matches!(look(&folder.0), Err(KeysError::Unfit { .. })));
    fs::write(folder.0.join("ca.key"), "no key").unwrap();
    assert!(matches!(issue(&folder.0, "a", &other.0, 1), Err(KeysError::Unfit { .. })));
}

#[test]
fn no_bytes_make_the_reader_stumble() {
    let folder = Folder::new();
    init(&folder.0, "head", NODE_DAYS).unwrap();
    let text = fs::read_to_string(folder.0.join("node.pem")).unwrap();
    let der = <rustls::pki_types::CertificateDer as rustls::pki_types::pem::PemObject>::from_pem_slice(
        text.as_bytes(),
    )
    .unwrap();
    for len in 0..der.len() {
        crate::der::read(&der[..len]);
        for bit in 0..8 {
            let mut wrong = der.to_vec();
            wrong[len] ^= 1 << bit;
            crate::der::read(&wrong);
        }
    }
}
