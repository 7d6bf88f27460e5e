//! Registries over TLS: what a member shows, and what it demands.

use std::time::Duration;

use ringway_discovery::{
    Discovery, Endpoint, Error, EtcdConfig, EtcdRegistry, Registry, ServiceSnapshot,
};
use ringway_net::{ClientAuth, ClientTls, ServerTls};
use ringway_rpc::Server;

use crate::support::end;
use crate::support::etcd::{Etcd, TlsFiles};

const TTL: Duration = Duration::from_secs(10);

/// A certificate that is its own authority, and its key, both as PEM.
struct Certified {
    certificate: String,
    key: String,
}

impl Certified {
    fn new(name: &str) -> Self {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = rcgen::CertificateParams::new(names).expect("names");
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("the system has randomness");
        let certificate = params.self_signed(&key).expect("signed by itself");
        Self { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn trusting(server: &Certified) -> ClientTls {
    ClientTls::new().roots_pem(&server.certificate).expect("a certificate")
}

fn with_certificate(tls: ClientTls, client: &Certified) -> ClientTls {
    tls.client_cert_pem(&client.certificate, &client.key).expect("they belong together")
}

/// Registers an endpoint and reads the list.
fn used(member: &str, tls: ClientTls) -> Result<ServiceSnapshot, Error> {
    let registry = EtcdRegistry::new(EtcdConfig::new([member])?.tls(tls));
    ringway_runtime::block_on(async move {
        // It says what is wrong; a registration tries for ever.
        registry.snapshot("who").await?;
        let mut held = registry.register("who", Endpoint::new("tcp://10.0.0.1:9000"), TTL)?;
        held.registered().await?;
        registry.snapshot("who").await
    })
    .expect("a core")
}

/// A registry that demands a certificate of `client`.
fn check(authority: &str, server: &Certified, client: &Certified) {
    let stranger = Certified::new("stranger");
    let member = format!("https://{authority}");
    let listed = used(&member, with_certificate(trusting(server), client)).expect("all is right");
    assert_eq!(listed.endpoints.len(), 1);
    assert_eq!(listed.endpoints[0].address(), "tcp://10.0.0.1:9000");
    for (what, member, tls) in [
        ("a server that is not trusted", &member, with_certificate(trusting(&stranger), client)),
        ("no certificate", &member, trusting(server)),
        ("a foreign certificate", &member, with_certificate(trusting(server), &stranger)),
        ("no TLS", &format!("http://{authority}"), trusting(server)),
    ] {
        let error = used(member, tls).expect_err(what).to_string();
        assert!(error.contains(authority), "{what}: {error}");
    }
}

#[test]
fn etcd_over_tls_with_client_certificates() {
    let (server, client) = (Certified::new("server"), Certified::new("client"));
    let files = TlsFiles {
        certificate: &server.certificate,
        key: &server.key,
        client_authority: &client.certificate,
    };
    let Some(etcd) = Etcd::start_with(Some(&files)) else {
        eprintln!("skipped: this test needs the Debian package etcd-server");
        return;
    };
    check(&etcd.authority, &server, &client);
}

#[test]
fn registry_server_over_tls_with_client_certificates() {
    let (server, client) = (Certified::new("server"), Certified::new("client"));
    let tls = ServerTls::from_pem(&server.certificate, &server.key).expect("they belong together");
    let tls = tls.client_auth(&client.certificate, ClientAuth::Required).expect("an authority");
    let serving = Server::bind("tls://127.0.0.1:0").expect("a free port").tls(tls).threads(1);
    let handle = Registry::new().serve_on(serving).start().expect("the server starts");
    check(&crate::support::authority(&handle), &server, &client);
    end(handle);
}
