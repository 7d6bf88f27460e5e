//! Both roles against the `h2` crate, in memory.

use std::time::Duration;

use bytes::Bytes;
use ringway_wire::http2::{
    Body, Connection, ErrorCode, Event, Http2Client, Http2Server, NewRequest, NoStream, Outgoing,
    Role,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::support::http2;
use crate::support::http2::*;

/// Bytes of the pipe between the ends: less than most of what is sent.
const PIPE: usize = 3_000;

/// Drives a machine over a pipe. `handle` answers each event, and ends the run with `false`.
async fn drive<R: Role>(
    machine: &mut Connection<R>,
    pipe: &mut DuplexStream,
    mut handle: impl FnMut(&mut Connection<R>, Event<'_>) -> bool,
) {
    let mut buffer = [0; 1_500];
    loop {
        let mut wire = Vec::new();
        machine.transmit(20_000, &mut |out| match out {
            Outgoing::Copy(part) => wire.extend_from_slice(part),
            Outgoing::Shared(part) => wire.extend_from_slice(&part),
        });
        let (mut reader, mut writer) = tokio::io::split(&mut *pipe);
        // Both directions at a time, since either may be full.
        let write = async { writer.write_all(&wire).await.is_ok() };
        let read = async {
            match wire.is_empty() || !machine.has_output() {
                true => reader.read(&mut buffer).await.unwrap_or(0),
                false => 0,
            }
        };
        let (is_written, len) = both(write, read).await;
        if !is_written || len == 0 && wire.is_empty() {
            return;
        }
        let mut input = &buffer[..len];
        loop {
            let event = machine.receive(&mut input, NOW).expect("a good peer");
            let Some(event) = event else { break };
            if !handle(machine, event) {
                let rest = output(machine, usize::MAX);
                let _ = pipe.write_all(&rest).await;
                return;
            }
        }
    }
}

/// Waits for both.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(move |context| {
        if first.is_none()
            && let std::task::Poll::Ready(value) = a.as_mut().poll(context)
        {
            first = Some(value);
        }
        if second.is_none()
            && let std::task::Poll::Ready(value) = b.as_mut().poll(context)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => std::task::Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                std::task::Poll::Pending
            }
        }
    })
    .await
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(tokio::task::LocalSet::new().run_until(work));
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Answers each request with its content and trailers, until the pipe closes.
async fn serve(mut server: Http2Server, mut pipe: DuplexStream) {
    let mut contents = std::collections::BTreeMap::<u32, Vec<u8>>::new();
    let mut count = 0;
    drive(&mut server, &mut pipe, |server, event| {
        // Its windows fall and rise meanwhile.
        count += 1;
        server.set_memory_pressure(count / 20 % 2 == 1);
        let (stream, data, end) = match &event {
            Event::Head { stream, data, end } | Event::Data { stream, data, end } => {
                (*stream, &**data, *end)
            }
            Event::Trailers { stream } => (*stream, &[][..], true),
            Event::Reset { stream, .. } | Event::Failed { stream, .. } => {
                server.let_go(*stream);
                return true;
            }
            _ => return true,
        };
        let content = contents.entry(stream.id()).or_default();
        content.extend_from_slice(data);
        server.taken(stream, data.len());
        if end {
            let body = Body::Shared(std::mem::take(content).into());
            server.respond(stream, RESPONSE, &[], body, TRAILERS).expect("open");
        }
        true
    })
    .await;
}

/// Makes one request with the `h2` crate's client. Returns the content and the trailers.
async fn ask(
    send: h2::client::SendRequest<Bytes>,
    content: Vec<u8>,
    part: usize,
) -> (Vec<u8>, Option<http::HeaderMap>) {
    let mut send = send.ready().await.expect("ready");
    let request = http::Request::post("http://localhost/a.B/C")
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .header("x-bin", "AAAA")
        .body(())
        .expect("a request");
    let (response, mut stream) = send.send_request(request, false).expect("sent");
    for part in content.chunks(part.max(1)) {
        stream.send_data(Bytes::copy_from_slice(part), false).expect("sent");
    }
    stream.send_data(Bytes::new(), true).expect("sent");
    let response = response.await.expect("a response");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/grpc");
    let mut body = response.into_body();
    let mut came = Vec::new();
    while let Some(part) = body.data().await {
        let part = part.expect("data");
        came.extend_from_slice(&part);
        body.flow_control().release_capacity(part.len()).expect("taken");
    }
    (came, body.trailers().await.expect("trailers"))
}

#[test]
fn our_server_answers_its_client() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let serving = tokio::task::spawn_local(serve(server(), ours));
        let (send, connection) = h2::client::handshake(theirs).await.expect("greeted");
        let driving = tokio::task::spawn_local(connection);
        let mut calls = Vec::new();
        for (len, part) in [(0, 1), (5, 5), (40_000, 7_000), (300_000, 100_000), (70_000, 1_000)] {
            let send = send.clone();
            calls.push(tokio::task::spawn_local(async move {
                let (came, trailers) = ask(send, pattern(len), part).await;
                assert!(came == pattern(len), "{} of {len}", came.len());
                assert_eq!(trailers.expect("trailers")["grpc-status"], "0");
            }));
        }
        for call in calls {
            call.await.expect("answered");
        }
        for _ in 0..50 {
            let (came, _) = ask(send.clone(), pattern(100), 100).await;
            assert_eq!(came, pattern(100));
        }
        drop(send);
        driving.await.expect("no panic").expect("a good server");
        serving.await.expect("no panic");
    });
}

/// A server of the `h2` crate that echoes content, with trailers.
async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) {
    assert_eq!(request.uri().path(), "/a.B/C");
    assert_eq!(request.headers()["content-type"], "application/grpc");
    let mut body = request.into_body();
    let response = http::Response::builder().header("content-type", "application/grpc");
    let response = response.body(()).expect("a response");
    let mut send = respond.send_response(response, false).expect("sent");
    while let Some(part) = body.data().await {
        let part = part.expect("data");
        body.flow_control().release_capacity(part.len()).expect("taken");
        send.send_data(part, false).expect("sent");
    }
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    send.send_trailers(trailers).expect("sent");
}

/// Opens streams and receives their answers until all have ended.
async fn call(mut client: Http2Client, mut pipe: DuplexStream, lens: &[usize]) {
    let mut came = std::collections::BTreeMap::<u32, (usize, Vec<u8>)>::new();
    for &len in lens {
        let body = Some(Body::Shared(pattern(len).into()));
        let request = NewRequest { head: REQUEST, prefix: &[], body, end: true };
        let stream = client.open(request).expect("room");
        came.insert(stream.id(), (len, Vec::new()));
    }
    let mut left = lens.len();
    drive(&mut client, &mut pipe, |client, event| {
        match &event {
            Event::Head { stream, data, end: false } | Event::Data { stream, data, end: false } => {
                came.get_mut(&stream.id()).expect("opened").1.extend_from_slice(data);
                client.taken(*stream, data.len());
            }
            Event::Trailers { .. } => left -= 1,
            Event::Writable { .. } => {}
            _ => panic!("{event:?}"),
        }
        left > 0
    })
    .await;
    assert_eq!(left, 0);
    for (len, data) in came.into_values() {
        assert!(data == pattern(len), "{} of {len}", data.len());
    }
    client.go_away(ErrorCode::NO_ERROR, "done");
    let last = output(&mut client, usize::MAX);
    pipe.write_all(&last).await.expect("open");
}

#[test]
fn our_client_asks_its_server() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let serving = tokio::task::spawn_local(async move {
            let mut connection = h2::server::handshake(theirs).await.expect("greeted");
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::task::spawn_local(answer(request, respond));
            }
        });
        call(client(), ours, &[0, 5, 40_000, 300_000, 70_000, 1, 2, 3]).await;
        serving.await.expect("no panic");
    });
}

#[test]
fn its_refusals_reach_our_client() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let serving = tokio::task::spawn_local(async move {
            let mut connection = h2::server::handshake(theirs).await.expect("greeted");
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
            }
        });
        let (mut client, mut pipe) = (client(), ours);
        client.open(NewRequest { head: REQUEST, ..NewRequest::default() }).expect("room");
        let mut told = None;
        drive(&mut client, &mut pipe, |_, event| {
            told = Some(http2::told(&event));
            false
        })
        .await;
        assert_eq!(told.as_deref(), Some("reset 1 REFUSED_STREAM"));
        drop(pipe);
        serving.await.expect("no panic");
    });
}

#[test]
fn its_client_leaves_when_our_server_drains() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let serving = tokio::task::spawn_local(async move {
            let (mut server, mut pipe) = (server(), ours);
            drive(&mut server, &mut pipe, |server, event| {
                match event {
                    Event::Head { stream, data, .. } => {
                        server.drain(Duration::from_secs(5));
                        server.taken(stream, data.len());
                    }
                    Event::Data { stream, data, end } => {
                        server.taken(stream, data.len());
                        if end {
                            let body = Body::Shared(pattern(50_000).into());
                            server.respond(stream, RESPONSE, &[], body, TRAILERS).expect("open");
                        }
                    }
                    _ => {}
                }
                true
            })
            .await;
            assert!(server.is_drained(), "nothing is left, and the pipe is closed");
        });
        let (send, connection) = h2::client::handshake(theirs).await.expect("greeted");
        let driving = tokio::task::spawn_local(connection);
        let (came, trailers) = ask(send.clone(), pattern(20_000), 7_000).await;
        assert!(came == pattern(50_000) && trailers.is_some(), "what runs comes to its end");
        driving.await.expect("no panic").expect("a good server");
        assert!(send.ready().await.is_err(), "and nothing begins any more");
        serving.await.expect("no panic");
    });
}

#[test]
fn our_client_leaves_when_its_server_drains() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let serving = tokio::task::spawn_local(async move {
            let mut connection = h2::server::handshake(theirs).await.expect("greeted");
            let (request, respond) = connection.accept().await.expect("one").expect("well-formed");
            connection.graceful_shutdown();
            tokio::task::spawn_local(answer(request, respond));
            assert!(connection.accept().await.is_none(), "nothing more");
        });
        let (mut client, mut pipe) = (client(), ours);
        let body = Some(Body::Shared(pattern(40_000).into()));
        let request = NewRequest { head: REQUEST, prefix: &[], body, end: true };
        client.open(request).expect("room");
        let (mut lasts, mut has_ended) = (Vec::new(), false);
        drive(&mut client, &mut pipe, |client, event| {
            match event {
                Event::Leaving { code: ErrorCode::NO_ERROR, last, .. } => lasts.push(last),
                Event::Head { stream, data, .. } | Event::Data { stream, data, .. } => {
                    client.taken(stream, data.len());
                }
                Event::Trailers { .. } => has_ended = true,
                other => panic!("{other:?}"),
            }
            !has_ended || lasts.len() < 2
        })
        .await;
        assert_eq!((&lasts[..], has_ended), (&[i32::MAX as u32, 1][..], true));
        assert_eq!(client.open(NewRequest::default()), Err(NoStream::Leaving));
        drop(pipe);
        serving.await.expect("no panic");
    });
}
