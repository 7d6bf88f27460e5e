//! Two ends that both send much and both read all the time: neither direction may wait for the
//! other.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use ringway_net::{Address, Client, Connection, Error, IoStream, Result, Server, ServerHandle};
use ringway_runtime::{block_on, spawn, timeout, yield_now};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::certificates::NAME;
use crate::support::trust::Trust;

/// What each end sends: far more than both send queues and the kernel's buffers hold together.
const BYTES: usize = 64 << 20;
const BLOCK: usize = 256 * 1024;

/// A guard against hanging, far above what any exchange takes.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn halves_of_a_byte_stream_are_independent() {
    over_each(async |connection| halves(connection.into_io()).await);
}

#[test]
fn connection_that_is_not_paced_reads_while_it_sends() {
    over_each(async |connection| {
        connection.set_paced(false);
        one_task(connection).await
    });
}

/// Runs `exchange` at both ends of a connection, over each transport.
fn over_each(exchange: impl AsyncFn(Connection) -> Result + Clone + Send + 'static) {
    let directory = tempfile::tempdir().expect("a directory");
    let unix: Address = Address::Unix(directory.path().join("socket"));
    for address in ["tcp://127.0.0.1:0".parse(), "tls://127.0.0.1:0".parse(), Ok(unix)] {
        let trust = Trust::new();
        let (tell, ended) = mpsc::channel();
        let there = exchange.clone();
        let server = Server::bind(address.expect("an address")).expect("a free port");
        let server = server.tls(trust.server.clone()).threads(1);
        let handle = server
            .start(async move |connection| {
                tell.send(there(connection).await).expect("the test waits");
                Ok(())
            })
            .expect("the server starts");
        let here = exchange.clone();
        let client = client(&handle, &trust);
        let outcome = block_on(timeout(LIMIT, async move { here(client.open().await?).await }));
        let at = &handle.addresses()[0];
        let outcome = outcome.expect("a core").unwrap_or_else(|_| panic!("{at}: each waits"));
        outcome.unwrap_or_else(|error| panic!("{at}: {error}"));
        let served = ended.recv_timeout(LIMIT).expect("both ends end");
        served.unwrap_or_else(|error| panic!("{at}: {error}"));
        handle.abort();
        handle.wait().expect("the server ends");
    }
}

fn client(handle: &ServerHandle, trust: &Trust) -> Client {
    let client = Client::new(&handle.addresses()[0]).expect("its address");
    client.tls(trust.client.clone().server_name(NAME).expect("a name"))
}

/// Uses one task that only reads, and one that only writes.
async fn halves(stream: IoStream) -> Result {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let reading = spawn(async move {
        let mut buffer = vec![0; BLOCK];
        let mut received = 0;
        loop {
            match reader.read(&mut buffer).await? {
                0 => return Ok::<_, std::io::Error>(received),
                count => received += count,
            }
        }
    });
    let block = vec![7; BLOCK];
    for _ in 0..BYTES / BLOCK {
        writer.write_all(&block).await?;
    }
    writer.shutdown().await?;
    assert_eq!(reading.await??, BYTES);
    Ok(())
}

/// Uses one task that reads and writes, whichever is possible.
async fn one_task(mut connection: Connection) -> Result {
    let block = bytes::Bytes::from(vec![7; BLOCK]);
    let (mut sent, mut received, mut has_ended) = (0, 0, false);
    poll_fn(|cx| {
        while sent < BYTES && connection.poll_drained(cx)?.is_ready() {
            connection.send(block.clone());
            sent += BLOCK;
            if sent == BYTES {
                connection.shutdown();
            }
        }
        while !has_ended && let Poll::Ready(view) = connection.poll_recv(cx)? {
            received += view.as_ref().map_or(0, |view| view.len());
            has_ended = view.is_none();
        }
        match has_ended && sent == BYTES {
            true => Poll::Ready(Ok::<_, Error>(())),
            false => Poll::Pending,
        }
    })
    .await?;
    assert_eq!((sent, received), (BYTES, BYTES));
    connection.flushed().await
}

#[test]
fn all_tasks_that_wait_for_room_are_woken() {
    for scheme in ["tcp", "tls"] {
        let trust = Trust::new();
        let (start_reading, may_read) = mpsc::channel();
        let may_read = Arc::new(Mutex::new(may_read));
        let address = format!("{scheme}://127.0.0.1:0");
        let server = Server::bind(address).expect("a free port").tls(trust.server.clone());
        let handle = server
            .threads(1)
            .start(async move |mut connection: Connection| {
                let wait = || may_read.lock().expect("one connection").recv_timeout(LIMIT);
                wait().expect("the test says when");
                while connection.recv().await?.is_some() {}
                Ok(())
            })
            .expect("the server starts");
        let client = client(&handle, &trust);
        let outcome = block_on(timeout(LIMIT, async move {
            let connection = Rc::new(client.open().await?);
            connection.write(&[0; 12 << 20]);
            let waiting = [(); 40].map(|()| {
                let connection = Rc::clone(&connection);
                spawn(async move { connection.send("x").await })
            });
            // Two more futures that wait in one task.
            let (flushed, drained) = (connection.flushed(), connection.send("y").into_future());
            let (mut flushed, mut drained) = (pin!(flushed), pin!(drained));
            yield_now().await;
            assert!(connection.queued_bytes() > connection.limits().send_high_water);
            start_reading.send(()).expect("the server waits");
            let (mut is_flushed, mut is_drained) = (false, false);
            poll_fn(|cx| {
                is_flushed = is_flushed || flushed.as_mut().poll(cx)?.is_ready();
                is_drained = is_drained || drained.as_mut().poll(cx)?.is_ready();
                if is_flushed && is_drained {
                    Poll::Ready(Ok::<_, Error>(()))
                } else {
                    Poll::Pending
                }
            })
            .await?;
            for task in waiting {
                task.await??;
            }
            Ok::<_, Error>(())
        }));
        let outcome = outcome.expect("a core").unwrap_or_else(|_| panic!("{scheme}: some hang"));
        outcome.unwrap_or_else(|error| panic!("{scheme}: {error}"));
        handle.abort();
        handle.wait().expect("the server ends");
    }
}
