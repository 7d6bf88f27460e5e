//! Trust in TLS certificates of servers and of clients, and the advice in errors.

use ringway_net::{ClientAuth, ClientTls, Result, ServerTls, TlsStream, certificate_names};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::support::certificates::{Authority, Identity, NAME, self_signed, self_signed_until};
use crate::support::trust::{Trust, run, server_of};

#[test]
fn required_client_certificate_is_verified() {
    run(async {
        let mut trust = Trust::new();
        let clients = Authority::new();
        trust.server = trust.server.client_auth(clients.pem(), ClientAuth::Required)?;
        let known = clients.sign("client.test");
        let stranger = Authority::new().sign("client.test");

        let absent = trust.pair().await;
        assert!(absent.0.expect_err("no certificate").is_tls());
        // In TLS 1.3 a client completes the handshake before the server has checked its
        // certificate.
        let told = told_later(absent.1).await;
        assert!(told.contains("CertificateRequired"), "{told}");

        let anonymous = trust.client.clone();
        trust.client = anonymous.clone().client_cert_pem(&stranger.chain, &stranger.key)?;
        let (server, client) = trust.pair().await;
        assert!(server.expect_err("unknown authority").is_tls());
        let told = told_later(client).await;
        assert!(told.contains("alert"), "{told}");

        trust.client = anonymous.client_cert_pem(&known.chain, &known.key)?;
        let (server, client) = trust.pair().await;
        let shown = CertificateDer::from_pem_slice(known.chain.as_bytes()).expect("PEM");
        assert_eq!(server?.peer_certificates(), [shown]);
        assert_eq!(client?.peer_certificates().len(), 1);
        Ok(())
    });
}

#[test]
fn optional_client_certificate_may_be_missing_but_not_wrong() {
    run(async {
        let mut trust = Trust::new();
        let clients = Authority::new();
        trust.server = trust.server.client_auth(clients.pem(), ClientAuth::Optional)?;
        let (server, client) = trust.pair().await;
        assert!(server?.peer_certificates().is_empty());
        client?;
        let stranger = Authority::new().sign("client.test");
        trust.client = trust.client.client_cert_pem(&stranger.chain, &stranger.key)?;
        assert!(trust.pair().await.0.expect_err("unknown authority").is_tls());
        Ok(())
    });
}

#[test]
fn untrusted_server_is_rejected_with_advice() {
    run(async {
        let known = Authority::new();
        let unknown = Authority::new().sign(NAME);
        let other_name = known.sign("other.test");
        let expired = known.sign_expired(NAME);
        let common_name = known.sign_common_name(NAME);
        let cases = [
            (unknown, "UnknownIssuer", "roots_pem"),
            (other_name, "not valid for name", "server_name"),
            (expired, "expired", "renew it"),
            (common_name, "not valid for any names", "-addext subjectAltName=DNS:localhost"),
            (
                self_signed(NAME),
                "CaUsedAsEndEntity",
                "`openssl req -x509` makes them: trust exactly this one",
            ),
        ];
        for (identity, why, advice) in cases {
            let trust = Trust {
                server: server_of(&identity),
                client: ClientTls::new().roots_pem(known.pem())?,
                identity,
                authority_pem: known.pem(),
            };
            let (server, client) = trust.pair().await;
            let refused = client.expect_err(why);
            assert!(refused.is_tls(), "{refused:?}");
            let text = refused.to_string();
            assert!(text.contains(why) && text.contains(advice), "{text}");
            let told = server.expect_err("refused by the client");
            assert!(told.is_tls() && told.to_string().contains("alert"), "{told}");
        }
        Ok(())
    });
}

/// Connects as a client that trusts the certificate itself and calls the server [`NAME`].
async fn tried_with(identity: Identity) -> Result<TlsStream> {
    let trust = Trust {
        server: server_of(&identity),
        client: ClientTls::new().roots_pem(&identity.chain)?,
        authority_pem: identity.chain.clone(),
        identity,
    };
    trust.pair().await.1
}

#[test]
fn self_signed_ca_certificate_works_for_clients_that_trust_it() {
    run(async {
        tried_with(self_signed(NAME)).await?;
        for (identity, why) in [
            (self_signed_until(NAME, 2002), "expired"),
            (self_signed("other.test"), "not valid for name"),
        ] {
            let refused = tried_with(identity).await.expect_err(why).to_string();
            assert!(refused.contains(why), "{refused}");
        }
        Ok(())
    });
}

#[test]
fn clients_may_present_a_self_signed_ca_certificate() {
    run(async {
        let mut trust = Trust::new();
        let (known, stranger) = (self_signed("ann.test"), self_signed("ann.test"));
        let expired = self_signed_until("ann.test", 2002);
        let roots = format!("{}{}", known.chain, expired.chain);
        trust.server = trust.server.client_auth(roots, ClientAuth::Required)?;
        let anonymous = trust.client.clone();
        trust.client = anonymous.clone().client_cert_pem(&known.chain, &known.key)?;
        let (server, client) = trust.pair().await;
        client?;
        assert_eq!(certificate_names(&server?.peer_certificates()[0]), ["ann.test"]);
        for (refused, why) in [(stranger, "CaUsedAsEndEntity"), (expired, "expired")] {
            trust.client = anonymous.clone().client_cert_pem(&refused.chain, &refused.key)?;
            let text = trust.pair().await.0.expect_err(why).to_string();
            assert!(text.contains(why), "{text}");
        }
        Ok(())
    });
}

#[test]
fn replacing_a_certificate_keeps_connections() {
    run(async {
        let authority = Authority::new();
        let (first, second) = (authority.sign(NAME), authority.sign(NAME));
        let mut trust = Trust::new();
        trust.server = server_of(&first);
        trust.client = ClientTls::new().roots_pem(authority.pem())?;
        let shown = |chain: &str| CertificateDer::from_pem_slice(chain.as_bytes()).expect("PEM");
        let (server, client) = trust.pair().await;
        let (server, client) = (server?, client?);
        assert_eq!(client.peer_certificates(), [shown(&first.chain)]);

        let kept = trust.server.clone();
        kept.replace_pem(&second.chain, &first.key).expect_err("another's key");
        assert_eq!(trust.pair().await.1?.peer_certificates(), [shown(&first.chain)]);
        kept.replace_pem(&second.chain, &second.key)?;
        trust.client = ClientTls::new().roots_pem(authority.pem())?; // resumes nothing
        assert_eq!(trust.pair().await.1?.peer_certificates(), [shown(&second.chain)]);

        client.write(b"on");
        assert_eq!(&*server.recv().await?.expect("the connection goes on"), b"on");
        Ok(())
    });
}

#[test]
fn only_the_machines_roots_are_trusted_by_default() {
    run(async {
        let mut trust = Trust::new();
        trust.client = ClientTls::new();
        assert!(trust.pair().await.1.expect_err("our own authority").is_tls());
        trust.client = ClientTls::new().dangerous_accept_any_certificate();
        let (server, client) = trust.pair().await;
        server?;
        client?;
        Ok(())
    });
}

#[test]
fn any_name_is_accepted_of_a_certificate_that_is_right_otherwise() {
    run(async {
        let known = Authority::new();
        let itself = self_signed("other.test");
        let roots = format!("{}{}", known.pem(), itself.chain);
        let common_name = known.sign_common_name(NAME);
        for (identity, refusal) in [
            (known.sign("other.test"), None),
            (common_name, None),
            (itself, None),
            (known.sign_expired("other.test"), Some("expired")),
            (Authority::new().sign("other.test"), Some("UnknownIssuer")),
            (Authority::new().sign(NAME), Some("UnknownIssuer")),
            (self_signed("other.test"), Some("CaUsedAsEndEntity")),
        ] {
            let trust = Trust {
                server: server_of(&identity),
                client: ClientTls::new().roots_pem(&roots)?.dangerous_accept_any_name(),
                identity,
                authority_pem: known.pem(),
            };
            match (trust.pair().await.1, refusal) {
                (taken, None) => drop(taken?),
                (refused, Some(why)) => {
                    let refused = refused.expect_err(why).to_string();
                    assert!(refused.contains(why), "{refused}");
                }
            }
        }
        Ok(())
    });
}

#[test]
fn server_name_sets_the_expected_name() {
    run(async {
        let mut trust = Trust::new();
        trust.client = trust.client.server_name(NAME)?;
        let (server, client) = trust.pair_of("127.0.0.1").await;
        assert_eq!(server?.server_name(), Some(NAME));
        client?;
        Ok(())
    });
}

#[test]
fn keys_are_not_printed_and_must_match() {
    let authority = Authority::new();
    let (one, other) = (authority.sign(NAME), authority.sign(NAME));
    let shown = format!("{:?} {:?}", server_of(&one), {
        ClientTls::new().client_cert_pem(&one.chain, &one.key).expect("they belong together")
    });
    let secret = one.key.lines().nth(1).expect("base64");
    assert!(!shown.contains(secret) && !shown.to_lowercase().contains("key"), "{shown}");

    let mismatch = ServerTls::from_pem(&one.chain, &other.key).expect_err("another's key");
    assert!(mismatch.is_tls(), "{mismatch:?}");
    for (chain, key) in [("", &*one.key), (&*one.chain, ""), ("-----BEGIN", &one.key)] {
        assert!(ServerTls::from_pem(chain, key).expect_err("nothing there").is_tls());
    }
    assert!(ClientTls::new().roots_pem("no PEM").expect_err("no roots").is_tls());
    assert!(ClientTls::new().server_name("no name").expect_err("a space").is_tls());
}

/// Returns the error that a client gets, at the latest from its first receive.
async fn told_later(client: Result<TlsStream>) -> String {
    match client {
        Ok(client) => client.recv().await.expect_err("refused").to_string(),
        Err(error) => error.to_string(),
    }
}
