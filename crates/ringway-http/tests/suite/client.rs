//! The client, against our server and against sockets.

use std::collections::HashSet;
use std::future::pending;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use http::StatusCode;
use ringway_http::{
    Body, Client, Error, HttpLimits, Request, Response, Result, Router, json, serve_connection,
    text,
};
use ringway_net::{ClientTls, Connection, Server, ServerTls};
use ringway_runtime::block_on;
use serde::{Deserialize, Serialize};

use crate::support::Running;

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Person {
    name: String,
}

#[test]
fn requests_and_replies_of_json_pass_through() {
    let server = Running::start(Router::new().post("/greet", async |request| {
        let Person { name } = request.into_body().json().await?;
        json(&Person { name: format!("Hello, {name}!") })
    }));
    let url = server.url("/greet");
    let reply = block_on(async move {
        let client = Client::new();
        let bad = client.post(&url, "application/json", "{").await?;
        assert_eq!(bad.status(), StatusCode::BAD_REQUEST);
        let response = client.post(&url, "application/json", r#"{"name":"Ada"}"#).await?;
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().json::<Person>(1024).await
    });
    assert_eq!(reply.expect("a runtime"), Ok(Person { name: "Hello, Ada!".into() }));
}

#[test]
fn a_port_that_is_none_is_not_replaced_by_another() {
    block_on(async {
        for url in ["http://127.0.0.1:65536/", "http://127.0.0.1:x/", "http://[::1]:99999/"] {
            let error = Client::new().get(url).await.expect_err("a wrong port");
            assert_eq!(error.status(), StatusCode::BAD_REQUEST, "{error}");
        }
    })
    .expect("a runtime");
}

/// Whoever passes on the fields of another request may promise a length that its body has not.
#[test]
fn a_request_promises_no_more_than_its_body_has() {
    let server = Running::start(
        Router::new()
            .post("/", async |request: Request| Ok(text(request.into_body().bytes().await?)))
            .post("/unread", async |_| Ok(text("not read"))),
    );
    let (read, unread) = (server.url("/"), server.url("/unread"));
    block_on(async move {
        let client = Client::new();
        let ask = async |url: &str, promised: u64, body: &'static str| {
            let request = http::Request::post(url).header("content-length", promised);
            let request = request.body(Body::from(body)).expect("well-formed");
            client.request(request).await?.into_body().bytes(100).await
        };
        for promised in [0, 1, 50] {
            assert_eq!(ask(&unread, promised, "").await, Ok("not read".into()), "{promised}");
            assert_eq!(ask(&read, promised, "abc").await, Ok("abc".into()), "{promised}");
        }
    })
    .expect("a runtime");
}

#[test]
fn a_client_with_another_trust_uses_no_connection_of_its_clone() {
    let certificate = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a key");
    let (chain, key) = (certificate.cert.pem(), certificate.signing_key.serialize_pem());
    let server = Server::bind("tls://127.0.0.1:0").expect("an address");
    let server = server.tls(ServerTls::from_pem(&chain, &key).expect("a certificate"));
    let router = Router::new().get("/", async |_| Ok(text("root")));
    let server = Running::of(server, router, HttpLimits::default());
    let url = server.url("/").replace("http", "https").replace("127.0.0.1", "localhost");
    block_on(async move {
        let trusting =
            Client::new().tls(ClientTls::new().roots_pem(&chain).expect("a certificate"));
        let ask = async |client: &Client| client.get(&url).await?.into_body().bytes(100).await;
        assert_eq!(ask(&trusting).await, Ok("root".into()));
        let other = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a key");
        let other = ClientTls::new().roots_pem(other.cert.pem()).expect("a certificate");
        let stranger = trusting.clone().tls(other);
        let refused = ask(&stranger).await.expect_err("nobody it trusts has signed for the server");
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{refused}");
        assert_eq!(ask(&trusting).await, Ok("root".into()));
    })
    .expect("a runtime");
}

#[test]
fn a_connection_is_used_again_when_its_reply_has_been_read() {
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let ids = Arc::clone(&seen);
    let routes = Router::new().get("/", async |_| Ok(text("x".repeat(100_000))));
    let upload = async |request: Request| {
        let length = request.into_body().bytes().await?.len();
        Ok(text(length.to_string()))
    };
    let router = Arc::new(routes.post("/", upload));
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address").threads(1);
    let server = server
        .start(async move |connection: Connection| {
            ids.lock().expect("no panic").insert(connection.id());
            let router = async |request| router.respond(request).await;
            serve_connection(connection, None, Default::default(), router).await
        })
        .expect("the server starts");
    let url = server.addresses()[0].to_string().replace("tcp", "http");
    block_on(async move {
        let client = Client::new();
        for _ in 0..10 {
            let response = client.get(&url).await?;
            assert_eq!(response.into_body().bytes(100_000).await?.len(), 100_000);
        }
        for length in [1, 100_000, 2_000_000] {
            let reply = client.post(&url, "text/plain", vec![0; length]).await?;
            assert_eq!(reply.into_body().bytes(100).await?, length.to_string());
        }
        // Given up before its end, it is not used again.
        drop(client.get(&url).await?);
        client.get(&url).await?.into_body().bytes(100_000).await
    })
    .expect("a runtime")
    .expect("replies");
    assert_eq!(seen.lock().expect("no panic").len(), 2);
    server.shutdown();
    server.wait().expect("it ends well");
}

#[test]
fn a_connection_that_was_closed_meanwhile_costs_no_request() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let server = thread::spawn(move || {
        for _ in 0..3 {
            let (mut socket, _) = listener.accept().expect("a client");
            let mut request = [0; 1024];
            assert_ne!(socket.read(&mut request).expect("a request"), 0);
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").expect("a reply");
        }
    });
    block_on(async move {
        let client = Client::new();
        for _ in 0..3 {
            let body = client.get(&url).await.expect("a reply").into_body();
            assert_eq!(body.bytes(2).await.expect("a body"), "ok");
            // The end of the connection arrives meanwhile, or is found when it is used.
            ringway_runtime::sleep(Duration::from_millis(20)).await;
        }
    })
    .expect("a runtime");
    server.join().expect("three connections");
}

/// RFC 9112, section 9.3.1. A server may close an idle connection while a request is on its way.
#[test]
fn a_get_that_a_used_connection_has_lost_is_sent_again() {
    for (is_get, answered) in [(true, 2), (false, 1)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let server = thread::spawn(move || {
            let mut request = [0; 1024];
            let mut read = |socket: &mut TcpStream| {
                assert_ne!(socket.read(&mut request).expect("a request"), 0);
            };
            let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            let (mut socket, _) = listener.accept().expect("a client");
            read(&mut socket);
            socket.write_all(reply).expect("a reply");
            read(&mut socket);
            drop(socket);
            if is_get {
                let (mut socket, _) = listener.accept().expect("the client again");
                read(&mut socket);
                socket.write_all(reply).expect("a reply");
            }
        });
        let replies = block_on(async move {
            let client = Client::new();
            let mut replies = 0;
            for _ in 0..2 {
                let reply = match is_get {
                    true => client.get(&url).await,
                    false => client.post(&url, "text/plain", "x").await,
                };
                let Ok(reply) = reply else { continue };
                assert_eq!(reply.into_body().bytes(2).await.expect("a body"), "ok");
                replies += 1;
            }
            replies
        });
        assert_eq!(replies.expect("a runtime"), answered);
        server.join().expect("all its connections");
    }
}

/// A stream that never has anything.
struct Silence;

impl futures_core::Stream for Silence {
    type Item = Result<bytes::Bytes>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

/// Answers two requests, each on a connection of its own, when it has read their first bytes; more is not read.
fn early_answers() -> (String, thread::JoinHandle<Vec<TcpStream>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let server = thread::spawn(move || {
        let mut sockets = Vec::new();
        for _ in 0..2 {
            let (mut socket, _) = listener.accept().expect("a client");
            let mut request = [0; 1024];
            assert_ne!(socket.read(&mut request).expect("a request"), 0);
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").expect("a reply");
            sockets.push(socket);
        }
        sockets
    });
    (url, server)
}

#[test]
fn a_connection_whose_request_goes_on_is_not_used_for_another() {
    let far_too_much_for_the_kernel = vec![0; 64 << 20];
    for body in [Body::stream(Silence), far_too_much_for_the_kernel.into()] {
        let (url, server) = early_answers();
        let replies = block_on(async move {
            let client = Client::new();
            let early = client.post(&url, "text/plain", body).await?;
            let early = early.into_body().bytes(2).await?;
            Ok::<_, Error>([early, client.get(&url).await?.into_body().bytes(2).await?])
        });
        assert_eq!(replies.expect("a runtime").expect("two replies"), ["ok", "ok"]);
        server.join().expect("two connections");
    }
}

#[track_caller]
fn failure(outcome: Result<http::Response<ringway_http::ClientBody>>) -> Error {
    outcome.expect_err("no reply")
}

#[test]
fn what_cannot_be_asked_says_why() {
    let server =
        Running::start(Router::new().get("/never", async |_| pending::<Result<Response>>().await));
    let (slow, free) = (server.url("/never"), TcpListener::bind("127.77.0.3:0").expect("a port"));
    let refused = format!("http://{}/", free.local_addr().expect("an address"));
    drop(free);
    block_on(async move {
        let client = Client::new().timeout(Duration::from_millis(50));
        assert_eq!(failure(client.get(&slow).await).status(), StatusCode::GATEWAY_TIMEOUT);
        let refused = failure(client.get(&refused).await);
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        for url in ["nonsense", "ftp://host/", "/path", "http://user:pass@host/"] {
            assert_eq!(failure(client.get(url).await).status(), StatusCode::BAD_REQUEST, "{url}");
        }
    })
    .expect("a runtime");
    server.handle().abort(); // the handler would wait for ever
}

#[test]
fn a_server_that_answers_nonsense_is_an_error_and_no_more() {
    let answers = [
        "",
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    ];
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let server = thread::spawn(move || {
        for answer in answers {
            let (mut socket, _) = listener.accept().expect("a client");
            let mut request = [0; 1024];
            assert_ne!(socket.read(&mut request).expect("a request"), 0);
            socket.write_all(answer.as_bytes()).expect("a reply");
        }
    });
    block_on(async move {
        for answer in answers {
            let outcome = async { Client::new().get(&url).await?.into_body().bytes(1 << 20).await };
            assert!(outcome.await.is_err(), "{answer:?}");
        }
    })
    .expect("a runtime");
    server.join().expect("all are asked");
}
