//! The server tells protocols apart although their bytes come one at a time.

use std::io::{Read, Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::spawn;

use ringway_net::{ClientTls, ServerTls};
use ringway_rpc::{Client, ServerHandle, Status};
use ringway_runtime::block_on;

use crate::support::math::{MathClient, Plain, serve_math};
use crate::support::{end, eventually};

/// Client bytes for which the relay waits until the server has read each: more than detection ever needs.
const READ_ALONE: usize = 64;

/// Listens for one connection and relays it to a server, the client's bytes one at a time. Returns the port.
fn trickle(handle: ServerHandle) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let at = handle.addresses()[0].to_string();
        let (_, port) = at.rsplit_once(':').expect("a port");
        let mut server =
            TcpStream::connect(format!("127.0.0.1:{port}")).expect("the server listens");
        server.set_nodelay(true).expect("a TCP socket");
        let (mut replies, mut back) = (duplicate(&server), duplicate(&client));
        spawn(move || {
            // Both fail once either end has closed its socket.
            let _ended = copy(&mut replies, &mut back);
            let _closed = back.shutdown(Shutdown::Write);
        });
        let (mut received, mut sent) = ([0; 4096], 0);
        while let Ok(count @ 1..) = client.read(&mut received) {
            for byte in received[..count].chunks(1) {
                let read = bytes_read(&handle);
                if server.write_all(byte).is_err() {
                    return;
                }
                sent += 1;
                if sent <= READ_ALONE {
                    eventually("the server reads a byte", || bytes_read(&handle) > read);
                }
            }
        }
        let _closed = server.shutdown(Shutdown::Write);
    });
    port
}

/// Bytes that the server's cores have read since it began.
fn bytes_read(server: &ServerHandle) -> u64 {
    server.net().stats().cores.iter().map(|core| core.counters.bytes_received).sum()
}

fn duplicate(socket: &TcpStream) -> TcpStream {
    socket.try_clone().expect("a descriptor")
}

/// Makes calls over each scheme to a server at `address`.
fn check(address: &str, schemes: &[&str], tls: Option<(&ServerTls, &ClientTls)>) {
    let address = address.parse().expect("an address");
    let handle = serve_math(address, &Plain::default(), |server| match tls {
        Some((tls, _)) => server.tls(tls.clone()),
        None => server,
    });
    for scheme in schemes {
        let port = trickle(handle.clone());
        let builder = Client::builder().address(format!("{scheme}://localhost:{port}"));
        let builder = match tls {
            Some((_, tls)) => builder.tls(tls.clone()),
            None => builder,
        };
        let client = MathClient::new(builder.build().expect("an address"));
        let outcome = block_on(async move {
            let sum = client.sum(vec![1, 2, 4]).await?;
            Ok::<_, Status>((sum, client.subtract(42, 23).await?))
        });
        assert_eq!(outcome.expect("a core").expect(scheme), (7, 19), "{scheme}");
    }
    end(handle);
}

#[test]
fn plain_protocols_are_detected_byte_by_byte() {
    check("tcp://127.0.0.1:0", &["tcp", "grpc", "jsonrpc+tcp", "http", "ws"], None);
}

#[test]
fn protocols_over_tls_are_detected_byte_by_byte() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let server = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let client = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
    let schemes = ["tls", "grpcs", "jsonrpc+tls", "https", "wss"];
    check("tls://127.0.0.1:0", &schemes, Some((&server.expect("they belong together"), &client)));
}
