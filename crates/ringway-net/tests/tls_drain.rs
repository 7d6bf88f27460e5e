//! A drain under TLS: what a handler still sends arrives, and the session ends in order.

use std::sync::mpsc;
use std::time::Duration;

use ringway_net::{Connection, Server, TlsStream};
use ringway_runtime::io::Stream;
use ringway_runtime::{block_on, timeout};

use certificates::NAME;
use trust::Trust;

#[path = "support/certificates.rs"]
mod certificates;
#[path = "support/trust.rs"]
mod trust;

/// Far above what any step takes.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn a_farewell_and_the_end_of_the_session_arrive() {
    let trust = Trust::new();
    let (tell, served) = mpsc::channel();
    let handle = Server::bind("tls://127.0.0.1:0")
        .expect("a free port")
        .tls(trust.server.clone())
        .threads(1)
        .start(async move |mut conn: Connection| {
            while let Some(view) = conn.recv().await? {
                conn.send(view);
                tell.send(()).expect("a listener");
            }
            conn.write(b"farewell");
            Ok(())
        })
        .expect("the server starts");
    let address = handle.addresses()[0].clone();
    let address: std::net::SocketAddr =
        address.to_string().trim_start_matches("tls://").parse().expect("an address");
    let ended = block_on(timeout(LIMIT, async move {
        let stream = Stream::connect(&address.into()).await?;
        let tls = TlsStream::connect(stream, &trust.client, NAME).await?;
        tls.write(b"hello");
        let mut heard = tls.recv().await?.expect("an echo").to_vec();
        served.recv().expect("the server has answered");
        handle.shutdown();
        while let Some(view) = tls.recv().await? {
            heard.extend_from_slice(&view);
        }
        Ok::<_, ringway_net::Error>(heard)
    }));
    let heard = ended.expect("a core").expect("in time").expect("a session that ends in order");
    assert_eq!(heard, b"hellofarewell");
}
