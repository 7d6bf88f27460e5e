//! The server tells protocols apart although their bytes come one at a time.

use std::io::{Read, Write, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::spawn;

use ringway_net::{ClientTls, ServerTls};
use ringway_rpc::{Client, Status};
use ringway_runtime::block_on;

use crate::support::math::{MathClient, Plain, serve_math};
use crate::support::{end, eventually};

/// Client bytes for which the relay waits until the server has read each: more than detection ever needs.
const READ_ALONE: usize = 64;

/// Listens for one connection and relays it to `server`, the client's bytes one at a time. Returns the port.
fn trickle(server: SocketAddr) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut server = TcpStream::connect(server).expect("the server listens");
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
                if server.write_all(byte).is_err() {
                    return;
                }
                sent += 1;
                if sent <= READ_ALONE {
                    wait_until_read(&server);
                }
            }
        }
        let _closed = server.shutdown(Shutdown::Write);
    });
    port
}

/// Waits until the other end of a socket has read everything that was sent, as the kernel's list of sockets tells.
fn wait_until_read(socket: &TcpStream) {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let ours = port(socket.local_addr().expect("it is connected"));
    let theirs = port(socket.peer_addr().expect("it is connected"));
    eventually("the server reads a byte", || {
        let sockets = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
        !sockets.lines().any(|line| {
            let fields: Vec<_> = line.split_whitespace().take(5).collect();
            let [_, local, remote, _, queues] = fields[..] else { return false };
            let is_unread = !queues.ends_with(":00000000");
            local.ends_with(&theirs) && remote.ends_with(&ours) && is_unread
        })
    });
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
    let at = handle.addresses()[0].to_string();
    let port = at.rsplit_once(':').expect("a port").1.parse().expect("a number");
    for scheme in schemes {
        let port = trickle(SocketAddr::from(([127, 0, 0, 1], port)));
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
    check("tcp://127.0.0.1:0", &["tcp", "grpc", "jsonrpc+tcp", "http"], None);
}

#[test]
fn protocols_over_tls_are_detected_byte_by_byte() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let server = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let client = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
    let schemes = ["tls", "grpcs", "jsonrpc+tls", "https"];
    check("tls://127.0.0.1:0", &schemes, Some((&server.expect("they belong together"), &client)));
}
