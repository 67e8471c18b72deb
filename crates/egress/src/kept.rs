//! What a neuron goes on with when the next door becomes its way out: the authority that its
//! programs have read, and the placeholders that its commands know.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use stdx::Secret;

use crate::rules::credential::{Placeholder, is_variable};

/// The first line, which says how to read the others.
const FORM: &str = "narthex-egress-1";

/// Placeholders that are kept: those of the credentials that a neuron may have, several times over,
/// for owners may know different ones.
pub(crate) const PLACEHOLDERS_MAX: usize = 256;

/// What is kept of a door.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The key of the authority (PKCS#8) and its certificate, which belong together.
    pub(crate) authority: Option<(Secret<Vec<u8>>, CertificateDer<'static>)>,
    pub(crate) placeholders: Vec<Placeholder>,
}

impl Kept {
    /// Reads what [`Self::write`] wrote; nothing where it is something else.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        if lines.next() != Some(FORM) {
            return None;
        }
        let (mut key, mut certificate, mut placeholders) = (None, None, Vec::new());
        for line in lines {
            let (word, rest) = line.split_once(' ')?;
            match word {
                "key" => key = Some(Secret::new(STANDARD.decode(rest).ok()?)),
                "certificate" => {
                    certificate = Some(CertificateDer::from(STANDARD.decode(rest).ok()?));
                }
                "placeholder" => {
                    let (variable, text) = rest.split_once(' ')?;
                    if !is_variable(variable) || placeholders.len() >= PLACEHOLDERS_MAX {
                        return None;
                    }
                    let (variable, text) = (variable.to_owned(), text.to_owned());
                    placeholders.push(Placeholder { variable, text });
                }
                _ => return None,
            }
        }
        Some(Self { authority: Some((key?, certificate?)), placeholders })
    }

    /// Writes an authority and placeholders down.
    pub(crate) fn write<'a>(
        key: &Secret<Vec<u8>>,
        certificate: &CertificateDer<'static>,
        placeholders: impl Iterator<Item = &'a Placeholder>,
    ) -> Secret<Vec<u8>> {
        let (key, certificate) = (STANDARD.encode(key.expose()), STANDARD.encode(certificate));
        let mut text = format!("{FORM}\nkey {key}\ncertificate {certificate}\n");
        for Placeholder { variable, text: own } in placeholders.take(PLACEHOLDERS_MAX) {
            text.extend(["placeholder ", variable, " ", own, "\n"]);
        }
        Secret::new(text.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_anything_else_is_not() {
        let key = Secret::new(vec![0, 255, 7]);
        let certificate = CertificateDer::from(vec![1, 2, 3]);
        let one = Placeholder { variable: "API_KEY".to_owned(), text: "placeholder-1".to_owned() };
        let written = Kept::write(&key, &certificate, [&one].into_iter());
        let read = Kept::read(written.expose()).unwrap();
        assert_eq!(read.authority, Some((key, certificate)));
        assert_eq!(read.placeholders, [one]);
        let text = String::from_utf8(written.expose().clone()).unwrap();
        for wrong in [
            String::new(),
            "0\u{82}".to_owned(),
            text.replace("egress-1", "egress-2"),
            text.replace("key ", "kex "),
            text.replace("certificate AQID\n", ""),
            text.replace("AQID", "?"),
            text.replace("API_KEY", "A-B"),
            text.clone() + &"placeholder A b\n".repeat(PLACEHOLDERS_MAX),
        ] {
            assert!(Kept::read(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
