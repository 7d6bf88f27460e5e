//! Streams between our client and our server, over real sockets, from cores and from tokio's tasks.

use std::thread;

use bytes::Bytes;
use ringway_rpc::{Client, Code, Codec, Kind, Method, ServerHandle, Status, TrySendError};

use crate::support::echo::{Echo, serve};
use crate::support::{LIMIT, end, socket_addr};

static SAY: Method = Method::new("echo.Echo/Say", Kind::Unary);
static COLLECT: Method = Method::new("echo.Echo/Collect", Kind::ClientStream);
static REPEAT: Method = Method::new("echo.Echo/Repeat", Kind::ServerStream);
static CHAT: Method = Method::new("echo.Echo/Chat", Kind::Bidi);

const RAW: Codec<Bytes> = Codec::raw();

/// Runs a test on a core against its own server, with a time limit.
fn check(test: impl AsyncFnOnce(Client) -> Result<(), Status> + 'static) {
    let server = serve(&Echo::default(), |server| server);
    let url = url(&server);
    let ran = ringway_runtime::block_on(async move {
        let client = Client::connect(&*url).expect("an address");
        ringway_runtime::timeout(LIMIT, test(client)).await.expect("no hang")
    });
    ran.expect("a core").unwrap_or_else(|status| panic!("{status:?}"));
    end(server);
}

fn url(server: &ServerHandle) -> String {
    format!("tcp://{}", socket_addr(server))
}

/// Makes one call of each kind.
async fn four_kinds(client: &Client) -> Result<(), Status> {
    let said = client.unary(&SAY, RAW, RAW, Bytes::from_static(b"hello")).await?;
    assert_eq!(said, "hello");

    let (mut sink, collected) = client.client_stream(&COLLECT, RAW, RAW);
    for part in ["one ", "two ", "", "three"] {
        sink.send(Bytes::from_static(part.as_bytes())).await?;
    }
    sink.finish();
    assert_eq!(collected.await?, "one two three");

    let mut replies = client.server_stream(&REPEAT, RAW, RAW, Bytes::from_static(&[200, 1]));
    for _ in 0..200 {
        assert_eq!(replies.next().await?.as_deref(), Some(&[200, 1][..]));
    }
    assert_eq!(replies.next().await?, None);

    let (mut sink, mut replies) = client.bidi(&CHAT, RAW, RAW);
    for size in [0, 1, 128, 5_000, 70_000] {
        let message = Bytes::from(vec![size as u8; size]);
        sink.send(message.clone()).await?;
        assert_eq!(replies.next().await?, Some(message));
    }
    sink.finish(); // the server sends until its handler returns
    assert_eq!(replies.next().await?, None);
    Ok(())
}

#[test]
fn all_kinds_from_a_core() {
    check(async |client| four_kinds(&client).await);
}

#[test]
fn all_kinds_from_tokio_tasks() {
    let server = serve(&Echo::default(), |server| server);
    let client = Client::connect(&*url(&server)).expect("an address");
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || {
                let tokio = tokio::runtime::Builder::new_current_thread().build();
                tokio.expect("a runtime").block_on(async move {
                    let tasks: Vec<_> = (0..10)
                        .map(|_| {
                            let client = client.clone();
                            tokio::spawn(async move { four_kinds(&client).await })
                        })
                        .collect();
                    for task in tasks {
                        task.await.expect("no panic").expect("all kinds work");
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    drop(client);
    end(server);
}

#[test]
fn early_end_reaches_reader_and_writer() {
    check(async |client| {
        let (mut sink, mut replies) = client.bidi(&CHAT, RAW, RAW);
        sink.send(Bytes::from_static(b"a")).await?;
        sink.send(Bytes::from_static(b"fail")).await?;
        assert_eq!(replies.next().await?, Some(Bytes::from_static(b"a")));
        for _ in 0..2 {
            let status = replies.next().await.expect_err("the handler has failed");
            assert_eq!((status.code(), status.message()), (Code::Aborted, "as the message wants"));
        }
        let status = sink.send(Bytes::from_static(b"b")).await.expect_err("it is over");
        assert_eq!(status.code(), Code::Aborted);
        Ok(())
    });
}

#[test]
fn either_side_cancels_with_a_reason() {
    check(async |client| {
        let (mut sink, mut replies) = client.bidi(&CHAT, RAW, RAW);
        sink.send(Bytes::from_static(b"cancel")).await?;
        let status = replies.next().await.expect_err("the handler has cancelled");
        assert_eq!((status.code(), status.message()), (Code::Cancelled, "enough of this"));

        let (mut sink, mut replies) = client.bidi(&CHAT, RAW, RAW);
        sink.send(Bytes::from_static(b"a")).await?;
        assert!(replies.next().await?.is_some());
        sink.cancel("changed my mind");
        let status = replies.next().await.expect_err("cancelled here");
        assert_eq!((status.code(), status.message()), (Code::Cancelled, "changed my mind"));
        four_kinds(&client).await // the connection still works
    });
}

#[test]
fn slow_reader_stalls_only_its_own_stream() {
    check(async |client| {
        let (mut stalled, mut unread) = client.bidi(&CHAT, RAW, RAW);
        let message = Bytes::from(vec![7; 16_000]);
        stalled.send(message.clone()).await?;
        let mut sent = 1;
        // Both windows are full: neither direction has room.
        while ringway_runtime::timeout(LIMIT / 100, stalled.send(message.clone())).await.is_ok() {
            sent += 1;
            assert!(sent < 10_000, "nothing bounds a stream that is not read");
        }
        assert!(matches!(stalled.try_send(message.clone()), Err(TrySendError::Full(_))));
        four_kinds(&client).await?;
        let reading = ringway_runtime::spawn(async move {
            let mut received = 0;
            while let Some(echo) = unread.next().await? {
                assert_eq!(echo.len(), 16_000);
                received += 1;
            }
            Ok::<_, Status>(received)
        });
        stalled.send(message).await?;
        stalled.finish();
        assert_eq!(reading.await.expect("no panic")?, sent + 1, "what stalled goes on");
        Ok(())
    });
}

#[test]
fn messages_larger_than_the_window_pass() {
    check(async |client| {
        let (mut sink, mut replies) = client.bidi(&CHAT, RAW, RAW);
        for size in [1 << 20, 3 << 20, 100] {
            let message = Bytes::from(vec![9; size]);
            sink.send(message.clone()).await?;
            let echo = replies.next().await?;
            assert!(echo.as_ref() == Some(&message), "{size}: {:?}", echo.map(|echo| echo.len()));
        }
        Ok(())
    });
}

#[test]
fn many_streams_share_a_connection() {
    check(async |client| {
        let streams: Vec<_> = (0..100_u8)
            .map(|number| {
                let (mut sink, mut replies) = client.bidi(&CHAT, RAW, RAW);
                ringway_runtime::spawn(async move {
                    for round in 0..50 {
                        let message = Bytes::from(vec![number, round]);
                        sink.send(message.clone()).await?;
                        assert_eq!(replies.next().await?, Some(message));
                    }
                    sink.finish();
                    replies.next().await
                })
            })
            .collect();
        for stream in streams {
            assert_eq!(stream.await.expect("no panic")?, None);
        }
        Ok(())
    });
}
