//! Files that a connection string names, such as that with the client's certificate and its key, which a password may protect.

use std::path::Path;

use ringway_net::ClientTls;

use super::encrypted_key::decrypt;
use crate::error::{Error, Fate, Kind, Result};

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// How files were protected before PKCS#8; it derives the key by one round of MD5.
const OLD: &str = "Proc-Type: 4,ENCRYPTED";

/// Has a client present the certificate of a file (`tlsCertificateKeyFile`). A password is for nothing if the key is not
/// protected.
pub(super) fn present(tls: ClientTls, file: &str, password: Option<&str>) -> Result<ClientTls> {
    let pem = read(file)?;
    let text = String::from_utf8_lossy(&pem);
    let wrong = |what: &str| {
        Error::new(Kind::Options, Fate::NotSent, format!("the key in the file {file} {what}"))
    };
    if text.contains(OLD) {
        let what = "is encrypted in the form of before PKCS#8, which is not secure: convert it by `openssl pkcs8 -topk8`";
        return Err(wrong(what));
    }
    let Some(protected) = section(&text) else {
        return tls.client_cert_pem(&pem, &pem).map_err(unusable);
    };
    let password = password.ok_or_else(|| {
        wrong("is encrypted: name its password by tlsCertificateKeyFilePassword, or store it decrypted")
    })?;
    let key = decrypt(protected, password).map_err(|why| {
        wrong("cannot be decrypted by the password of tlsCertificateKeyFilePassword")
            .with_source(why)
    })?;
    tls.client_cert_pem(&pem, &*key).map_err(unusable)
}

/// The encrypted key of a text.
fn section(text: &str) -> Option<&str> {
    let begin = text.find(BEGIN)?;
    let len = text[begin..].find(END)? + END.len();
    Some(&text[begin..begin + len])
}

pub(super) fn read(file: &str) -> Result<Vec<u8>> {
    std::fs::read(Path::new(file)).map_err(|error| {
        let what = format!("the file {file} of the connection string cannot be read");
        Error::new(Kind::Options, Fate::NotSent, what).with_source(error)
    })
}

pub(super) fn unusable(error: ringway_net::Error) -> Error {
    let what = "an option of the connection string cannot be used";
    Error::new(Kind::Options, Fate::NotSent, what).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::section;

    #[test]
    fn the_key_is_found_among_others() {
        let key =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----";
        assert_eq!(section(&format!("a certificate\n{key}\nmore")), Some(key));
        assert_eq!(section("-----BEGIN PRIVATE KEY-----"), None);
        assert_eq!(section("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA=="), None);
    }
}
