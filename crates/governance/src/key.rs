//! Keys of signed bundles: Ed25519 (RFC 8032), public ones as SubjectPublicKeyInfo and private
//! ones as PKCS#8 (RFC 8410), as other programs read and write them.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};
use stdx::Secret;

/// What stands before the 32 bytes of a public key.
const PUBLIC_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// What stands before the 32 bytes of a private key.
const PRIVATE_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// How many bytes of the hash name a key: enough to tell a person's keys apart.
const ID_BYTES: usize = 8;

/// What is wrong with the text of a key. Never holds any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No public key.
    #[error(
        "not a public key: expected the base64 text of an Ed25519 SubjectPublicKeyInfo, \
         which begins with MCowBQYDK2VwAyEA"
    )]
    Public,
    /// A public key with which anybody's signature is right.
    #[error("a weak public key, for which signatures prove nothing")]
    Weak,
    /// No private key.
    #[error(
        "not a private key: expected Ed25519 in PKCS#8, as PEM or base64, as narthex policy \
         keygen or openssl genpkey -algorithm ed25519 write it"
    )]
    Private,
}

/// A key that signatures are checked against.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Returns a short name of the key, made from it alone: a bundle may name it as its `keyId`.
    #[must_use]
    pub fn id(&self) -> String {
        let hash = Sha256::digest(self.der());
        hash.iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Tells whether a signature over a text is this key's. Signatures that only some programs
    /// take are not taken.
    pub(crate) fn has_signed(&self, text: &str, signature: &[u8]) -> bool {
        let signature = Signature::from_slice(signature);
        signature.is_ok_and(|it| self.0.verify_strict(text.as_bytes(), &it).is_ok())
    }

    fn der(&self) -> Vec<u8> {
        [&PUBLIC_PREFIX[..], self.0.as_bytes()].concat()
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let der = STANDARD.decode(text.trim()).map_err(|_| KeyError::Public)?;
        let bytes = der.strip_prefix(&PUBLIC_PREFIX).ok_or(KeyError::Public)?;
        let bytes = bytes.try_into().map_err(|_| KeyError::Public)?;
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::Public)?;
        if key.is_weak() { Err(KeyError::Weak) } else { Ok(Self(key)) }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.der()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A key that signs. It shows nothing of itself, and its bytes are wiped when it goes.
pub struct PrivateKey(SigningKey);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").finish_non_exhaustive()
    }
}

impl PrivateKey {
    /// Makes a key of 32 bytes, which have to come from the system's source of randomness.
    #[must_use]
    pub fn from_random(bytes: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(bytes))
    }

    /// Returns the public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Returns the text of the key's file.
    #[must_use]
    pub fn to_pem(&self) -> Secret<String> {
        let der = [&PRIVATE_PREFIX[..], self.0.as_bytes()].concat();
        Secret::new(format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", STANDARD.encode(der)))
    }

    /// Signs a text.
    pub(crate) fn sign(&self, text: &str) -> String {
        STANDARD.encode(self.0.sign(text.as_bytes()).to_bytes())
    }
}

impl FromStr for PrivateKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let inner = match text.strip_prefix(PEM_BEGIN) {
            Some(rest) => rest.trim_end().strip_suffix(PEM_END).ok_or(KeyError::Private)?,
            None => text,
        };
        let inner: String = inner.split_ascii_whitespace().collect();
        let der = STANDARD.decode(inner).map_err(|_| KeyError::Private)?;
        let bytes = der.strip_prefix(&PRIVATE_PREFIX).ok_or(KeyError::Private)?;
        let bytes: &[u8; 32] = bytes.try_into().map_err(|_| KeyError::Private)?;
        Ok(Self::from_random(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 8410, section 10, in the forms of sections 10.1 and 10.3.
    const PUBLIC: &str = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
    const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";

    #[test]
    fn the_keys_of_the_rfc_are_read_and_written() {
        let private: PrivateKey = PRIVATE.parse().unwrap();
        assert_eq!(private.public().to_string(), PUBLIC);
        assert_eq!(private.to_pem().expose(), PRIVATE);
        assert_eq!(PUBLIC.parse(), Ok(private.public()));
        let bare = PRIVATE.lines().nth(1).unwrap();
        assert_eq!(bare.parse::<PrivateKey>().unwrap().public(), private.public());
        assert_eq!(private.public().id().len(), 16);
    }

    #[test]
    fn what_is_no_key_is_refused_and_nothing_of_it_is_shown() {
        for text in ["", "x", "MCowBQYDK2VwAyEA", PRIVATE, &PUBLIC[4..], &format!("{PUBLIC}AA==")] {
            assert_eq!(text.parse::<PublicKey>(), Err(KeyError::Public), "{text}");
        }
        for text in ["", PUBLIC, &PRIVATE[..60], &PRIVATE.replace("MC4C", "MC4D")] {
            let error = text.parse::<PrivateKey>().unwrap_err();
            assert_eq!(error, KeyError::Private, "{text}");
        }
        let shown = format!("{:?}", PRIVATE.parse::<PrivateKey>().unwrap());
        assert!(!shown.contains("MC4C") && !shown.contains("Signing"), "{shown}");
    }

    #[test]
    fn a_key_that_proves_nothing_is_refused() {
        // The neutral point: with it a signature can be made without a private key.
        let mut der = PUBLIC_PREFIX.to_vec();
        der.push(1);
        der.extend([0; 31]);
        assert_eq!(STANDARD.encode(der).parse::<PublicKey>(), Err(KeyError::Weak));
    }

    #[test]
    fn the_signature_of_rfc_8032_is_right_and_no_other() {
        // Test 2 of section 7.1.
        let seed = hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
        let private = PrivateKey::from_random(&seed.try_into().unwrap());
        let signature = STANDARD.decode(private.sign("r")).unwrap();
        let expected = hex("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
             085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00");
        assert_eq!(signature, expected);
        assert!(private.public().has_signed("r", &signature));
        assert!(!private.public().has_signed("s", &signature));
        assert!(!private.public().has_signed("r", &signature[..63]));
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .chars()
            .filter_map(|c| c.to_digit(16))
            .map(|it| u8::try_from(it).unwrap())
            .collect();
        digits.chunks(2).map(|two| two[0] * 16 + two[1]).collect()
    }
}
