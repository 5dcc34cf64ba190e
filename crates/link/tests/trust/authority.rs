//! Certificates, right and wrong ones.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outboard_link::tcp::{AUTHORITY_FILE, CERTIFICATE_FILE, Credential, KEY_FILE, NODE_NAME};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// An authority that issues certificates.
pub(crate) struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// For how long a certificate is valid.
#[derive(Clone, Copy)]
pub(crate) enum Validity {
    Now,
    Past,
    Future,
}

/// A certificate and its key.
pub(crate) struct Issued {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn issue(&self, validity: Validity) -> Issued {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([NODE_NAME.to_owned()]).unwrap();
        match validity {
            Validity::Now => {}
            Validity::Past => {
                (params.not_before, params.not_after) =
                    (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 2, 1));
            }
            Validity::Future => {
                (params.not_before, params.not_after) =
                    (date_time_ymd(4000, 1, 1), date_time_ymd(4000, 2, 1));
            }
        }
        Issued { certificate: params.signed_by(&key, &self.issuer).unwrap(), key }
    }

    /// A folder of keys as a node has it.
    pub(crate) fn folder(&self, issued: &Issued) -> PathBuf {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trust-{}-{number}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(AUTHORITY_FILE), self.certificate.pem()).unwrap();
        std::fs::write(folder.join(CERTIFICATE_FILE), issued.certificate.pem()).unwrap();
        std::fs::write(folder.join(KEY_FILE), issued.key.serialize_pem()).unwrap();
        std::fs::set_permissions(folder.join(KEY_FILE), PermissionsExt::from_mode(0o600)).unwrap();
        folder
    }

    /// What a node with a new, right certificate shows.
    pub(crate) fn credential(&self) -> Credential {
        Credential::Keys(self.folder(&self.issue(Validity::Now)))
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        roots
    }

    /// All that the library needs to show `issued` to a peer that trusts this authority, without a look at it before.
    pub(crate) fn show(&self, issued: &Issued) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain: Vec<CertificateDer<'static>> = vec![issued.certificate.der().clone()];
        let key = || PrivateKeyDer::try_from(issued.key.serialize_der()).unwrap();
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(self.roots())
            .with_client_auth_cert(chain.clone(), key())
            .unwrap();
        client.alpn_protocols = vec![b"outboard".to_vec()];
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key())
            .unwrap();
        server.alpn_protocols = vec![b"outboard".to_vec()];
        (Arc::new(client), Arc::new(server))
    }
}
