//! Keys that a password protects, in the form of PKCS#8.

use std::error::Error as StdError;
use std::ops::Deref;

use pkcs8::{EncryptedPrivateKeyInfoRef, LineEnding, SecretDocument};

/// The key as PEM text, from the section of a file. Its memory is overwritten afterwards.
pub(super) fn decrypt(
    pem: &str,
    password: &str,
) -> Result<impl Deref<Target = String> + use<>, Box<dyn StdError + Send + Sync>> {
    let (_, document) = SecretDocument::from_pem(pem)?;
    let protected = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())?;
    let key = protected.decrypt(password)?;
    Ok(key.to_pem("PRIVATE KEY", LineEnding::LF)?)
}

#[cfg(test)]
mod tests {
    use super::decrypt;

    #[test]
    fn keys_that_openssl_has_protected_are_read() {
        let plain = include_str!("../../tests/keys/plain.pem");
        for protected in
            [include_str!("../../tests/keys/aes.pem"), include_str!("../../tests/keys/scrypt.pem")]
        {
            let key = decrypt(protected, "pencil").map(|key| key.clone());
            assert_eq!(key.expect("the right password"), plain);
            assert!(decrypt(protected, "pen").is_err());
            assert!(decrypt(&protected[..100], "pencil").is_err());
        }
    }
}
