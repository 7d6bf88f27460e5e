//! Servers of another kind than the client expects: its calls fail with what to do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use bytes::Bytes;
use ringway_net::{ClientTls, ServerTls};
use ringway_rpc::{Client, ClientBuilder, Codec, Kind, Method};

use crate::support::alone::NoForks;
use crate::support::echo::{Echo, serve, serve_at};
use crate::support::{end, socket_addr};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);

/// Checks that a call fails soon, marked not executed, with a text that contains all `parts`.
#[track_caller]
fn fails_saying(client: ClientBuilder, parts: &[&str]) {
    let client = client.build().expect("a good address");
    let call = client.unary(&SAY, Codec::raw(), Codec::<Bytes>::raw(), Bytes::new());
    let status = call.wait().expect_err("no server of ours");
    assert!(status.is_unavailable() && status.is_not_executed(), "{status:?}");
    for part in parts {
        assert!(status.message().contains(part), "{status} says nothing of {part}");
    }
}

/// Starts a listener that calls `serve` with each connection; returns its address.
fn listen(serve: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            serve(socket);
        }
    });
    address
}

#[test]
fn server_expects_tls() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let tls = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let address = "tls://127.0.0.1:0".parse().expect("an address");
    let tls = tls.expect("they belong together");
    let server = serve_at(address, &Echo::default(), |server| server.tls(tls));
    let plain = format!("tcp://{}", socket_addr(&server));
    fails_saying(Client::builder().address(&*plain), &[&plain, "expects TLS", "tls://"]);
    end(server);
}

#[test]
fn server_does_not_speak_tls() {
    let server = serve(&Echo::default(), |server| server);
    let secured = format!("tls://{}", socket_addr(&server));
    let client = Client::builder().address(&*secured).tls(ClientTls::new());
    fails_saying(client, &[&secured, "without sending anything", "TLS", "tcp://"]);
    end(server);
}

#[test]
fn server_closes_at_once() {
    let address = format!("tcp://{}", listen(drop));
    let client = Client::builder().address(&*address);
    fails_saying(client, &[&address, "before it sent anything", "tls://"]);
    let address = format!("tls://{}", listen(drop));
    let client = Client::builder().address(&*address);
    fails_saying(client, &[&address, "without sending anything", "tcp://"]);
}

#[test]
fn server_speaks_another_protocol() {
    let address = listen(|mut socket| {
        let _asked = socket.read(&mut [0; 64]);
        let _gone = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    let address = format!("tcp://{address}");
    fails_saying(Client::builder().address(&*address), &[&address, "another protocol"]);
}

#[test]
fn server_is_absent() {
    let _no_forks = NoForks::begin();
    let address = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr();
    let address = format!("tcp://{}", address.expect("it was bound"));
    // The time of the next attempt helps someone who has just started the server.
    fails_saying(Client::builder().address(&*address), &[&address, "refused", "tried again in"]);
}
