//! A signing key that everyone who knows a secret has.

use std::fmt;
use std::sync::Arc;

use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, ResolvesClientCert};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme,
};

/// Keeps this use of a secret apart from every other.
const SALT: &[u8] = b"outboard link credential";
const PURPOSE: &[u8] = b"ed25519 signing key, 1";
/// The bytes before the 32 of an Ed25519 key in PKCS #8 (RFC 8410).
const PKCS8_HEAD: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const SEED_LEN: usize = 32;

/// The key, which both sides show and ask for.
pub(super) struct SharedKey {
    key: Arc<CertifiedKey>,
    public: SubjectPublicKeyInfoDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// How long a seed is, for the library that derives it.
struct Seed;

impl KeyType for Seed {
    fn len(&self) -> usize {
        SEED_LEN
    }
}

impl SharedKey {
    pub(super) fn derive(secret: &str, provider: &CryptoProvider) -> Result<Self, Error> {
        let mut pkcs8 = [0; PKCS8_HEAD.len() + SEED_LEN];
        let (head, seed) = pkcs8.split_at_mut(PKCS8_HEAD.len());
        head.copy_from_slice(&PKCS8_HEAD);
        let derived = Salt::new(HKDF_SHA256, SALT).extract(secret.as_bytes());
        let filled = derived.expand(&[PURPOSE], Seed).and_then(|seed_of| seed_of.fill(seed));
        filled.map_err(|_| Error::General("no key could be derived".to_owned()))?;
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(&pkcs8[..]))?;
        let public = key.public_key().ok_or(Error::General("the key has no public part".to_owned()))?;
        let public = public.into_owned();
        let shown = CertificateDer::from(public.to_vec());
        let key = Arc::new(CertifiedKey::new(vec![shown], key));
        Ok(Self { key, public, algorithms: provider.signature_verification_algorithms })
    }

    pub(super) fn shown_by_client(&self) -> Arc<dyn ResolvesClientCert> {
        Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&self.key)))
    }

    pub(super) fn shown_by_server(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.key)))
    }

    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        match shown.as_ref() == self.public.as_ref() {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature_with_raw_key(message, &self.public, signature, &self.algorithms)
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey")
    }
}

fn only_tls13<T>() -> Result<T, Error> {
    Err(PeerIncompatible::Tls12NotOffered.into())
}

impl ServerCertVerifier for SharedKey {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        only_tls13()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        _: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for SharedKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(shown).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        only_tls13()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        _: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
