//! What is in a folder of keys.

use std::path::{Path, PathBuf};

use outboard_link::tcp::{AUTHORITY_FILE, CERTIFICATE_FILE};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use crate::{AUTHORITY_KEY_FILE, KeysError, der, files};

/// A certificate, as people speak of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Where it is.
    pub path: PathBuf,
    /// Whom it is for.
    pub name: String,
    /// The first moment at which it is valid.
    pub from: OffsetDateTime,
    /// The last.
    pub until: OffsetDateTime,
}

/// What is in a folder of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whose certificates are accepted.
    pub authority: Certificate,
    /// What this node shows.
    pub node: Certificate,
    /// Whether certificates can be issued with this folder.
    pub can_issue: bool,
}

impl Certificate {
    /// How many whole days are left; negative once it has expired.
    pub fn days_left(&self, now: OffsetDateTime) -> i64 {
        (self.until - now).whole_seconds().div_euclid(24 * 3600)
    }
}

/// Looks at the certificates in `folder`. Whether a peer would accept them is for a link to say.
pub fn look(folder: &Path) -> Result<Facts, KeysError> {
    Ok(Facts {
        authority: read(folder.join(AUTHORITY_FILE))?,
        node: read(folder.join(CERTIFICATE_FILE))?,
        can_issue: folder.join(AUTHORITY_KEY_FILE).exists(),
    })
}

fn read(path: PathBuf) -> Result<Certificate, KeysError> {
    let text = files::read(&path)?;
    let unfit = |why: String| KeysError::Unfit { path: path.clone(), why };
    let certificate =
        CertificateDer::from_pem_slice(text.as_bytes()).map_err(|error| unfit(error.to_string()))?;
    match der::read(&certificate) {
        Some((name, from, until)) => Ok(Certificate { path, name, from, until }),
        None => Err(unfit("it is no certificate".to_owned())),
    }
}
