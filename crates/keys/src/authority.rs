//! Who issues certificates.

use std::path::Path;

use outboard_link::tcp::{AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, NODE_NAME};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ED25519,
};
use ring::digest::{SHA256, digest};
use time::{Duration, OffsetDateTime};

use crate::files::{read, write_new};
use crate::{AUTHORITY_KEY_FILE, KeysError};

/// How long an authority lives by default: ten years.
pub const AUTHORITY_DAYS: u32 = 3650;
/// How long a node's certificate is valid by default: a year.
pub const NODE_DAYS: u32 = 365;

const DAYS_MAX: u32 = 36_500;
const NAME_MAX: usize = 63;
/// Clocks of a cluster differ a little.
const BEFORE: Duration = Duration::hours(1);

/// An authority that signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// Makes a new authority and the keys of this node in `folder`.
pub fn init(folder: &Path, node: &str, days: u32) -> Result<(), KeysError> {
    let (authority, key) = Authority::new()?;
    let mut files = authority.issue(node, days)?;
    files.push((AUTHORITY_KEY_FILE, key));
    write_new(folder, &files)
}

/// Makes the keys of another node in the folder `into`, by the authority in the folder `from`.
pub fn issue(from: &Path, node: &str, into: &Path, days: u32) -> Result<(), KeysError> {
    write_new(into, &Authority::load(from)?.issue(node, days)?)
}

impl Authority {
    fn new() -> Result<(Self, String), KeysError> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let text = key.serialize_pem();
        let mut params = params_of(&key);
        (params.not_before, params.not_after) = from_now(AUTHORITY_DAYS);
        let certificate = params.self_signed(&key)?.pem();
        Ok((Self { issuer: Issuer::new(params, key), certificate }, text))
    }

    fn load(folder: &Path) -> Result<Self, KeysError> {
        let path = folder.join(AUTHORITY_KEY_FILE);
        if !path.exists() {
            return Err(KeysError::NoAuthority { path });
        }
        let unfit = |error: rcgen::Error| KeysError::Unfit { path: path.clone(), why: error.to_string() };
        let key = KeyPair::from_pem(&read(&path)?).map_err(unfit)?;
        let certificate = read(&folder.join(AUTHORITY_FILE))?;
        Ok(Self { issuer: Issuer::new(params_of(&key), key), certificate })
    }

    /// The files of a node.
    fn issue(&self, node: &str, days: u32) -> Result<Vec<(&'static str, String)>, KeysError> {
        let is_right = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '-';
        if node.is_empty() || node.len() > NAME_MAX || !node.chars().all(is_right) {
            return Err(KeysError::BadName { name: node.to_owned() });
        }
        if !(1..=DAYS_MAX).contains(&days) {
            return Err(KeysError::BadDays { days });
        }
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let mut params = CertificateParams::new([NODE_NAME.to_owned()])?;
        params.distinguished_name = named(node);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = from_now(days);
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(vec![
            (AUTHORITY_FILE, self.certificate.clone()),
            (CERTIFICATE_FILE, certificate),
            (KEY_FILE, key.serialize_pem()),
        ])
    }
}

/// What an authority with this key is. Its name is made from the key, so that the key is all one needs to issue, and
/// no two authorities have the same name.
fn params_of(key: &KeyPair) -> CertificateParams {
    let print = digest(&SHA256, key.public_key_raw());
    let print: String = print.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("Outboard authority {print}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn from_now(days: u32) -> (OffsetDateTime, OffsetDateTime) {
    let now = OffsetDateTime::now_utc();
    (now - BEFORE, now + Duration::days(days.into()))
}
