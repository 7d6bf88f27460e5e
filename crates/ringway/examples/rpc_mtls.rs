//! Mutual TLS: the server takes clients with a certificate of its authority only, and knows by it who calls. Its
//! own certificate is replaced while calls go on.
//!
//! Run it: `cargo run --release --example rpc_mtls`. It makes all certificates, calls itself and ends.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use ringway::Error;
use ringway::net::{ClientAuth, ClientTls, ServerTls};
use ringway::rpc::{Client, Context, Next, Reply, Server, Status};

#[ringway::service(package = "door.v1")]
trait Door {
    async fn open(&self, context: Context, door: String) -> Result<String, Status>;
}

struct House;

impl Door for House {
    async fn open(&self, context: Context, door: String) -> Result<String, Status> {
        let user = context.extension::<User>().ok_or_else(|| Status::internal("no interceptor"))?;
        Ok(format!("{} opens the {door}", user.0))
    }
}

struct User(String);

/// The authority vouches for the name in the certificate. What that name may do is decided here.
async fn check(context: Context, next: Next) -> Result<Reply, Status> {
    let names = context.peer().certificate_names();
    let user = names.iter().find_map(|name| name.strip_suffix(".house.example"));
    let user =
        user.ok_or_else(|| Status::permission_denied(format!("{names:?} live elsewhere")))?;
    context.insert(User(user.to_owned()));
    next.run(context).await
}

fn main() -> ringway::Result {
    let authority = Authority::new()?;
    let (chain, key) = authority.sign("localhost")?;
    let tls =
        ServerTls::from_pem(chain, key)?.client_auth(authority.pem(), ClientAuth::Required)?;
    let server = Server::bind("tls://127.0.0.1:0")?
        .tls(tls.clone())
        .intercept(check)
        .service(DoorServer::new(House))
        .start()?;
    println!("listening on {}", server.addresses()[0]);

    // The name that clients connect by is one that the certificate holds.
    let address = server.addresses()[0].to_string().replace("127.0.0.1", "localhost");
    let client = |tls: ClientTls| Client::builder().address(&*address).tls(tls).build();
    let trusting = ClientTls::new().roots_pem(authority.pem())?;
    let with = |name: &str| -> ringway::Result<DoorClient> {
        let (chain, key) = authority.sign(name)?;
        Ok(DoorClient::new(client(trusting.clone().client_cert_pem(chain, key)?)?))
    };
    let (ann, thief) = (with("ann.house.example")?, with("bob.street.example")?);
    let nobody = DoorClient::new(client(trusting.clone())?);
    say(ann.open("gate".into()).wait());
    say(thief.open("gate".into()).wait());
    say(nobody.open("gate".into()).wait());

    let (chain, key) = authority.sign("localhost")?;
    tls.replace_pem(chain, key)?; // for new connections: those that are open stay
    say(ann.open("old connection".into()).wait());
    say(with("eve.house.example")?.open("new connection".into()).wait());
    server.shutdown();
    server.wait()
}

fn say(outcome: Result<String, Status>) {
    println!("{}", outcome.unwrap_or_else(|status| status.to_string()));
}

/// An authority of this run. Elsewhere it is a file, or a service such as cert-manager.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> ringway::Result<Self> {
        let mut params = CertificateParams::new(Vec::new()).map_err(Error::other)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().map_err(Error::other)?;
        Ok(Self(CertifiedIssuer::self_signed(params, key).map_err(Error::other)?))
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key.
    fn sign(&self, name: &str) -> ringway::Result<(String, String)> {
        let params = CertificateParams::new([name.to_owned()]).map_err(Error::other)?;
        let key = KeyPair::generate().map_err(Error::other)?;
        let certificate = params.signed_by(&key, &self.0).map_err(Error::other)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}
