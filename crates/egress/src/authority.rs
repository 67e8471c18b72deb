//! The authority that exists for one neuron, and the certificates it makes.
//!
//! Its key stays in the memory of this process, unless whoever keeps the neuron keeps it, too.
//! With its certificate: one that is made anew is another text, and programs would find the file
//! of it half-written at some time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use stdx::Secret;

use crate::error::EgressError;
use crate::rules::credential::contains;
use crate::target::Place;

/// Hosts whose certificates are kept: those with a credential, and more only below a `*.`. A
/// certificate is made in less than a millisecond.
const LEAVES_MAX: usize = 64;

/// What the times below are counted in.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the authority is good for: longer than any process lives.
const AUTHORITY_TIME: Duration = DAY.saturating_mul(10 * 365);

/// How long a certificate is good for; clients refuse those of more than a year.
const LEAF_TIME: Duration = DAY.saturating_mul(30);

/// After which a certificate is made anew.
const LEAF_AGE_MAX: Duration = DAY;

/// How far the clock of a neuron may be behind.
const SKEW: Duration = DAY;

/// Longest common name of a certificate.
const COMMON_NAME_MAX: usize = 64;

/// What an authority, and a certificate for a long name, are called.
const COMMON_NAME: &str = "Narthex egress";

/// The authority of one neuron.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    leaves: Mutex<HashMap<Place, Leaf>>,
}

#[derive(Clone)]
struct Leaf {
    config: Arc<ServerConfig>,
    made_at: Timestamp,
}

impl Authority {
    /// Makes one: with the key and the certificate that it had before, or fresh ones.
    pub(crate) fn new(
        before: Option<(Secret<Vec<u8>>, CertificateDer<'static>)>,
        now: Timestamp,
    ) -> Result<Self, EgressError> {
        Self::make(before, now).map_err(|error| EgressError::Certificates(error.to_string()))
    }

    fn make(
        before: Option<(Secret<Vec<u8>>, CertificateDer<'static>)>,
        now: Timestamp,
    ) -> Result<Self, rcgen::Error> {
        let (key, certificate) = match before {
            Some((key, certificate)) => {
                let key = KeyPair::try_from(key.expose().as_slice())?;
                // One about another key vouches for nothing that is made here.
                let is_about = contains(&certificate, key.public_key_raw());
                (key, is_about.then_some(certificate))
            }
            None => (KeyPair::generate()?, None),
        };
        let mut wanted = CertificateParams::new(Vec::new())?;
        wanted.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        wanted.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        wanted.distinguished_name = rcgen::DistinguishedName::new();
        wanted.distinguished_name.push(DnType::CommonName, COMMON_NAME);
        wanted.not_before = date_time_ymd(1970, 1, 1) + since_epoch(now).saturating_sub(SKEW);
        wanted.not_after = date_time_ymd(1970, 1, 1) + (since_epoch(now) + AUTHORITY_TIME);
        let certificate = match certificate {
            Some(certificate) => certificate,
            None => wanted.self_signed(&key)?.der().clone(),
        };
        let issuer = Issuer::new(wanted, key);
        Ok(Self { issuer, certificate, leaves: Mutex::new(HashMap::new()) })
    }

    /// The certificate that the neuron has to trust.
    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The key, for a later authority of the same neuron.
    pub(crate) fn key(&self) -> Secret<Vec<u8>> {
        Secret::new(self.issuer.key().serialize_der())
    }

    /// How TLS to a host ends here.
    pub(crate) fn config(
        &self,
        place: &Place,
        now: Timestamp,
    ) -> Result<Arc<ServerConfig>, String> {
        let is_fresh = |leaf: &Leaf| {
            let age = since_epoch(now).checked_sub(since_epoch(leaf.made_at));
            age.is_some_and(|age| age < LEAF_AGE_MAX)
        };
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaf) = leaves.get(place).filter(|leaf| is_fresh(leaf)) {
            return Ok(Arc::clone(&leaf.config));
        }
        let config = self.leaf(place, now)?;
        if leaves.len() >= LEAVES_MAX && !leaves.contains_key(place) {
            let oldest = leaves.iter().min_by_key(|(_, leaf)| leaf.made_at);
            if let Some(oldest) = oldest.map(|(place, _)| place.clone()) {
                leaves.remove(&oldest);
            }
        }
        let leaf = Leaf { config: Arc::clone(&config), made_at: now };
        leaves.insert(place.clone(), leaf);
        Ok(config)
    }

    fn leaf(&self, place: &Place, now: Timestamp) -> Result<Arc<ServerConfig>, String> {
        let failed = |error: rcgen::Error| error.to_string();
        let (name, key) = (bare(place), KeyPair::generate().map_err(failed)?);
        let mut wanted = CertificateParams::new(vec![name.clone()]).map_err(failed)?;
        wanted.distinguished_name = rcgen::DistinguishedName::new();
        let common = if name.len() > COMMON_NAME_MAX { COMMON_NAME.to_owned() } else { name };
        wanted.distinguished_name.push(DnType::CommonName, common);
        wanted.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        wanted.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Strict clients look for the key of the authority by this.
        wanted.use_authority_key_identifier_extension = true;
        wanted.not_before = date_time_ymd(1970, 1, 1) + since_epoch(now).saturating_sub(SKEW);
        wanted.not_after = date_time_ymd(1970, 1, 1) + (since_epoch(now) + LEAF_TIME);
        let certificate = wanted.signed_by(&key, &self.issuer).map_err(failed)?.der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// An address stands without brackets in a certificate.
fn bare(place: &Place) -> String {
    match place {
        Place::Name(name) => name.clone(),
        Place::Address(address) => address.to_string(),
    }
}

fn since_epoch(at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(at.0).unwrap_or(0))
}

/// Writes certificates as text.
pub(crate) fn pem<'a>(
    certificates: impl IntoIterator<Item = &'a CertificateDer<'static>>,
) -> String {
    /// Characters of a line of a certificate, as every tool writes them.
    const LINE_CHARS: usize = 64;
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let body = STANDARD.encode(certificate);
        for (at, letter) in body.chars().enumerate() {
            if at > 0 && at % LINE_CHARS == 0 {
                text.push('\n');
            }
            text.push(letter);
        }
        text.push_str("\n-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn place(at: usize) -> Place {
        Place::Name(format!("h{at}.example"))
    }

    #[test]
    fn certificates_are_kept_for_a_day_and_not_without_limit() {
        let authority = Authority::new(None, NOW).unwrap();
        let config = |at: usize, now: Timestamp| authority.config(&place(at), now).unwrap();
        let first = config(0, NOW);
        assert!(Arc::ptr_eq(&first, &config(0, NOW.plus_ms(1_000))));
        assert!(!Arc::ptr_eq(&first, &config(0, NOW.plus_ms(25 * 3_600_000))));
        for at in 0..LEAVES_MAX + 10 {
            config(at, NOW.plus_ms(i64::try_from(at).unwrap()));
        }
        assert_eq!(authority.leaves.lock().unwrap().len(), LEAVES_MAX);
        let last = LEAVES_MAX + 9;
        assert!(Arc::ptr_eq(&config(last, NOW), &config(last, NOW)));
    }

    #[test]
    fn the_certificate_is_the_one_from_before_if_it_is_about_the_key() {
        let first = Authority::new(None, NOW).unwrap();
        let before = (first.key(), first.certificate().clone());
        let later = NOW.plus_ms(86_400_000);
        let second = Authority::new(Some(before), later).unwrap();
        assert_eq!(second.certificate(), first.certificate());
        let other = Authority::new(None, NOW).unwrap();
        let mixed = (first.key(), other.certificate().clone());
        let third = Authority::new(Some(mixed), later).unwrap();
        assert!(![first.certificate(), other.certificate()].contains(&third.certificate()));
        assert_eq!(third.key(), first.key());
    }

    #[test]
    fn a_long_name_and_an_address_have_certificates() {
        let authority = Authority::new(None, NOW).unwrap();
        let long = Place::Name(format!("{}.example", ["a"; 100].join(".")));
        let address = Place::Address("2001:db8::1".parse().unwrap());
        for place in [long, address] {
            authority.config(&place, NOW).unwrap();
        }
    }

    #[test]
    fn text_has_lines_of_a_known_length() {
        let certificate = CertificateDer::from(vec![0; 100]);
        let text = pem([&certificate, &certificate]);
        assert_eq!(text.matches("-----BEGIN CERTIFICATE-----\n").count(), 2);
        assert!(text.lines().all(|line| line.len() <= 64), "{text}");
        assert!(text.ends_with("\n-----END CERTIFICATE-----\n"));
    }
}
