//! TLS in front of a server of the tests.

use std::future::poll_fn;
use std::task::{Context, Poll};

use ringway_net::{Client, ClientAuth, ClientTls, Connection, Server, ServerHandle, ServerTls};

use super::certificates::{Authority, NAME};

/// What passes on to a server all that comes over TLS. It ends when it is dropped.
pub(crate) struct TlsFront {
    /// For a client that uses the server as it is.
    pub(crate) address: String,
    handle: ServerHandle,
    servers: Authority,
    clients: Authority,
}

impl TlsFront {
    /// Starts it in front of the server at `place`; clients have to show a certificate if `asks_for_certificate`.
    pub(crate) fn start(place: &str, asks_for_certificate: bool) -> Self {
        let (servers, clients) = (Authority::new(), Authority::new());
        let identity = servers.sign(NAME);
        let tls = ServerTls::from_pem(&identity.chain, &identity.key).expect("a certificate");
        let tls = match asks_for_certificate {
            true => tls.client_auth(clients.pem(), ClientAuth::Required).expect("an authority"),
            false => tls,
        };
        let server = Server::bind("tls://127.0.0.1:0").expect("an address").tls(tls);
        let place = format!("tcp://{place}");
        let relay = move |outer: Connection| relay(outer, place.clone());
        let handle = server.start(relay).expect("the front starts");
        let port = handle.addresses()[0].to_string();
        let port = port.rsplit(':').next().expect("a port").to_owned();
        let address = format!("mongodb://127.0.0.1:{port}/?directConnection=true&tls=true");
        Self { address, handle, servers, clients }
    }

    /// What a client needs to trust it.
    pub(crate) fn trust(&self) -> ClientTls {
        let tls = ClientTls::new().roots_pem(self.servers.pem()).expect("an authority");
        tls.server_name(NAME).expect("a name")
    }

    /// The same with a certificate of the client.
    pub(crate) fn trust_with_certificate(&self) -> ClientTls {
        let client = self.clients.sign("ada.test");
        self.trust().client_cert_pem(&client.chain, &client.key).expect("a certificate")
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

async fn relay(mut outer: Connection, place: String) -> ringway_net::Result {
    let mut inner = Client::connect(&*place).await?;
    poll_fn(|cx| {
        let over = pass(cx, &mut outer, &inner) || pass(cx, &mut inner, &outer);
        if over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    Ok(())
}

/// Passes on what has come. True at the end.
fn pass(cx: &mut Context<'_>, from: &mut Connection, to: &Connection) -> bool {
    loop {
        match from.poll_recv(cx) {
            Poll::Pending => return false,
            Poll::Ready(Ok(Some(view))) => drop(to.send(view)),
            Poll::Ready(_) => return true,
        }
    }
}
