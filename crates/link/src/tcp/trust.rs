//! By what two processes on different machines know that they belong together.
//!
//! A [`Credential`] is one of two things. A folder of keys holds a certificate of this node and that of the authority
//! that issued it; a peer with a certificate of the same authority is let in. A secret is known to all processes that
//! belong to a job; a signing key is derived from it, and a peer that can sign with that key is let in. Either way both
//! sides have to show theirs before the first byte of a link travels, in TLS 1.3 and nothing older.
//!
//! Connections are never resumed and nothing is sent early, so a recorded handshake is worth nothing.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, ConfigBuilder, ConfigSide, RootCertStore, ServerConfig, WantsVerifier, version};
use thiserror::Error;

use super::Distrust;
use super::distrust::distrust_of;
use super::shared_key::SharedKey;

/// The name that every certificate of a node is made out to. Nodes are told apart by their addresses; who may belong
/// to the cluster is for the authority to say.
pub const NODE_NAME: &str = "node.outboard";
/// The authority's certificate, in a folder of keys.
pub const AUTHORITY_FILE: &str = "ca.pem";
/// The node's certificate, in a folder of keys.
pub const CERTIFICATE_FILE: &str = "node.pem";
/// The node's private key, in a folder of keys.
pub const KEY_FILE: &str = "node.key";

/// So that no server of another protocol can be brought to speak with us by the same keys.
const PROTOCOL: &[u8] = b"outboard";
/// The longest file of a certificate.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Which connections are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encryption {
    /// Those between machines.
    #[default]
    Remote,
    /// Those within this machine too.
    All,
    /// None at all.
    None,
}

/// The proof of belonging that this process shows to others, and asks of them.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A folder with `ca.pem`, `node.pem` and `node.key`.
    Keys(PathBuf),
    /// A text that only processes that belong together know. A stranger that reaches a listener can try texts against what it
    /// shows, without asking again: only a random one is safe.
    Secret(Arc<str>),
}

impl Credential {
    /// Whether it can be used, and others would accept it.
    pub fn check(&self) -> Result<(), TrustError> {
        Trust::load(self).map(drop)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(folder) => write!(f, "the certificate in {}", folder.display()),
            Self::Secret(_) => f.write_str("a shared secret"),
        }
    }
}

/// Why a credential cannot be used.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A file cannot be read.
    #[error("{path} cannot be read: {kind}; {}", remedy(*kind), path = .path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        kind: io::ErrorKind,
    },
    /// Others could have read or changed the private key.
    #[error("{path} is open to other users; run chmod 600 {path}", path = .path.display())]
    Exposed {
        /// Which file.
        path: PathBuf,
    },
    /// A file holds something else.
    #[error("{path} is not what it should be: {why}", path = .path.display())]
    Unfit {
        /// Which file.
        path: PathBuf,
        /// The fault in it.
        why: String,
    },
    /// No peer would accept our own certificate.
    #[error("{path} would be refused by everyone: {source}", path = .path.display())]
    Worthless {
        /// Which file.
        path: PathBuf,
        /// As others would put it.
        source: Distrust,
    },
    /// The library refuses.
    #[error("this credential cannot be used: {0}")]
    Library(String),
}

outboard_wire::debug_with_causes!(TrustError);

fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::PermissionDenied => {
            "ask its owner to let you read it, or set link.keys to a folder of your own, or to none"
        }
        _ => "`outboard keys init` makes a folder of keys",
    }
}

/// A credential that is loaded: what every encrypted connection starts from.
#[derive(Clone)]
pub(super) struct Trust {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
    pub(super) name: ServerName<'static>,
}

impl Trust {
    pub(super) fn load(credential: &Credential) -> Result<Self, TrustError> {
        let library = |error: rustls::Error| TrustError::Library(error.to_string());
        let name = ServerName::try_from(NODE_NAME).map_err(|error| TrustError::Library(error.to_string()))?;
        let provider = provider();
        let (mut client, mut server) = match credential {
            Credential::Keys(folder) => from_keys(folder, &provider, &name)?,
            Credential::Secret(secret) => from_secret(secret, &provider).map_err(library)?,
        };
        client.resumption = Resumption::disabled();
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self { client: Arc::new(client), server: Arc::new(server), name })
    }
}

/// Settings of the library for a peer that has this credential: for tests of the other side.
#[doc(hidden)]
pub fn configurations(credential: &Credential) -> Result<(Arc<ClientConfig>, Arc<ServerConfig>), TrustError> {
    Trust::load(credential).map(|trust| (trust.client, trust.server))
}

/// The algorithms, the fastest first.
fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(CryptoProvider { cipher_suites, ..default_provider() })
}

/// The beginning of every configuration.
fn begin<S: ConfigSide>(
    builder: ConfigBuilder<S, rustls::WantsVersions>,
) -> Result<ConfigBuilder<S, WantsVerifier>, rustls::Error> {
    builder.with_protocol_versions(&[&version::TLS13])
}

fn from_secret(
    secret: &str,
    provider: &Arc<CryptoProvider>,
) -> Result<(ClientConfig, ServerConfig), rustls::Error> {
    let key = Arc::new(SharedKey::derive(secret, provider)?);
    let client = begin(ClientConfig::builder_with_provider(Arc::clone(provider)))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&key) as _)
        .with_client_cert_resolver(key.shown_by_client());
    let server = begin(ServerConfig::builder_with_provider(Arc::clone(provider)))?
        .with_client_cert_verifier(Arc::clone(&key) as _)
        .with_cert_resolver(key.shown_by_server());
    Ok((client, server))
}

fn from_keys(
    folder: &Path,
    provider: &Arc<CryptoProvider>,
    name: &ServerName<'static>,
) -> Result<(ClientConfig, ServerConfig), TrustError> {
    let authority_path = folder.join(AUTHORITY_FILE);
    let certificate_path = folder.join(CERTIFICATE_FILE);
    let mut roots = RootCertStore::empty();
    for authority in certificates(&authority_path)? {
        let added = roots.add(authority);
        added.map_err(|error| TrustError::Unfit { path: authority_path.clone(), why: error.to_string() })?;
    }
    let (roots, chain) = (Arc::new(roots), certificates(&certificate_path)?);
    let key = private_key(&folder.join(KEY_FILE))?;
    let others = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider))
        .build()
        .map_err(|error| TrustError::Unfit { path: authority_path.clone(), why: error.to_string() })?;
    // An error that others would find in our own certificate is better told here and now.
    if let Err(error) = others.verify_server_cert(&chain[0], &chain[1..], name, &[], UnixTime::now()) {
        let source = distrust_of(&error, false);
        return Err(TrustError::Worthless { path: certificate_path, source });
    }
    let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider))
        .build()
        .map_err(|error| TrustError::Unfit { path: authority_path, why: error.to_string() })?;
    let unfit = |error: rustls::Error| {
        let why = format!("it does not go with the private key: {error}");
        TrustError::Unfit { path: certificate_path.clone(), why }
    };
    let library = |error: rustls::Error| TrustError::Library(error.to_string());
    let client = begin(ClientConfig::builder_with_provider(Arc::clone(provider)))
        .map_err(library)?
        .with_webpki_verifier(others)
        .with_client_auth_cert(chain.clone(), key.clone_key())
        .map_err(unfit)?;
    let server = begin(ServerConfig::builder_with_provider(Arc::clone(provider)))
        .map_err(library)?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(unfit)?;
    Ok((client, server))
}

/// A file's text. A device or a pipe lets no peer in.
fn read(path: &Path) -> Result<(Vec<u8>, std::fs::Metadata), TrustError> {
    let unreadable = |error: io::Error| TrustError::Unreadable { path: path.to_owned(), kind: error.kind() };
    let mut file = File::open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    if !facts.is_file() || facts.len() > FILE_LEN_MAX {
        let why = "it is no file, or far too long".to_owned();
        return Err(TrustError::Unfit { path: path.to_owned(), why });
    }
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(&mut file, FILE_LEN_MAX), &mut text).map_err(unreadable)?;
    Ok((text, facts))
}

/// At least one certificate.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let unfit = |why: String| TrustError::Unfit { path: path.to_owned(), why };
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?.0).collect();
    match all {
        Ok(all) if all.is_empty() => Err(unfit("it holds no certificate".to_owned())),
        Ok(all) => Ok(all),
        Err(error) => Err(unfit(error.to_string())),
    }
}

/// The key, which only its owner, and perhaps a group of services, may read.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TrustError> {
    let (text, facts) = read(path)?;
    if facts.mode() & 0o027 != 0 {
        return Err(TrustError::Exposed { path: path.to_owned() });
    }
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| TrustError::Unfit { path: path.to_owned(), why: error.to_string() })
}
