//! Streams of replies over JSON-RPC, as a client sees them.

use std::sync::atomic::Ordering;

use ringway_rpc::{JsonRpcClient, Renewed, RenewedStream};

use super::{over, run};
use crate::support::json_client::{Hand, Served, Transport};
use crate::support::math::{MathClient, serve_math};
use crate::support::{end, eventually};

fn over_both_ways(test: impl Fn(Served)) {
    over(&Transport::BOTH_WAYS, test);
}

#[test]
fn messages_come_in_order_and_the_end_is_one() {
    over_both_ways(|served| {
        let client = served.client();
        run(|| async move {
            for times in [0, 1, 3, 1_000] {
                let mut replies = client.repeat("tick".into(), times);
                let mut count = 0;
                while let Some(text) = replies.next().await? {
                    assert_eq!(text, "tick");
                    count += 1;
                }
                assert_eq!(count, times);
            }
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn failure_is_the_end_of_a_subscription() {
    over_both_ways(|served| {
        let client = served.client();
        run(|| async move {
            let refused = client.repeat(String::new(), 1).next().await.expect_err("refused");
            assert!(refused.is_invalid_argument(), "{refused}");
            let mut replies = client.repeat("fail".into(), 1);
            assert_eq!(replies.next().await?.as_deref(), Some("fail"));
            let failed = replies.next().await.expect_err("a failure");
            assert!(failed.message().contains("lost") && failed.details() == &b"[1]"[..]);
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn reader_that_is_dropped_ends_the_handler() {
    over_both_ways(|served| {
        let client = served.client();
        let seen = served.plain.seen.clone();
        run(|| async move {
            let mut replies = client.repeat("stay".into(), 2);
            assert_eq!(replies.next().await?.as_deref(), Some("stay"));
            drop(replies);
            // One that the server has not answered yet is stopped as soon as it has.
            drop(client.repeat("stay".into(), 0));
            let mut other = client.repeat("stay".into(), 1);
            assert_eq!(other.next().await?.as_deref(), Some("stay"));
            while seen.dropped.load(Ordering::SeqCst) < 2 {
                ringway_runtime::yield_now().await;
            }
            assert_eq!(client.subtract(2, 1).await?, 1);
            Ok(())
        });
        eventually("the last one ends too", || {
            served.plain.seen.dropped.load(Ordering::SeqCst) == 3
        });
        end(served.handle);
    });
}

#[test]
fn subscription_ends_with_its_connection() {
    over_both_ways(|served| {
        let mut replies = served.client().repeat("stay".into(), 1);
        assert_eq!(replies.next().wait().expect("a message").as_deref(), Some("stay"));
        served.handle.abort();
        let lost = replies.next().wait().expect_err("the connection is gone");
        assert!(lost.is_unavailable(), "{lost}");
        crate::support::wait(served.handle);
    });
}

#[test]
fn reader_that_falls_behind_loses_its_subscription_only() {
    let hand = Hand::listen();
    let client = MathClient::connect(&*hand.url).expect("an address");
    let server = std::thread::spawn(move || {
        let mut connection = hand.accept(r#""result":true"#);
        let request = connection.request().expect("a subscription");
        connection.answer(&request, "\"s\"");
        let other = connection.request().expect("a call");
        let message =
            r#"{"jsonrpc":"2.0","method":"m","params":{"subscription":"s","result":"x"}}"#;
        connection.say(&[message; 20_000].join("\n"));
        connection.answer(&other, "1");
        let unsubscribed = connection.request().expect("it is told");
        assert_eq!(unsubscribed["method"], "rpc.unsubscribe");
        assert_eq!(unsubscribed["params"], serde_json::json!(["s"]));
        assert!(connection.request().is_none(), "nothing else is said");
    });
    run(|| async move {
        let mut replies = client.repeat("x".into(), 1);
        assert_eq!(client.subtract(2, 1).await?, 1);
        let mut count = 0;
        let behind = loop {
            match replies.next().await {
                Ok(Some(_)) => count += 1,
                Ok(None) => panic!("it has not ended"),
                Err(status) => break status,
            }
        };
        assert!(behind.is_resource_exhausted(), "{behind}");
        assert!(count <= 16 * 1024, "{count} messages were kept");
        Ok(())
    });
    server.join().expect("no panic");
}

#[test]
fn subscription_is_made_again_and_its_reader_told_of_the_gap() {
    over_both_ways(|served| {
        let untyped = JsonRpcClient::connect(&served.url).expect("an address");
        let typed = served.client();
        let address = served.handle.addresses().first().expect("an address").clone();
        let (handle, plain) = (served.handle, served.plain.clone());
        let again = ringway_runtime::block_on(async move {
            let mut streams = [
                untyped.subscribe_again::<_, String>("repeat", ("stay", 1)),
                RenewedStream::new(move || typed.repeat("stay".into(), 1)),
            ];
            for stream in &mut streams {
                let first = stream.next().await.expect("a message");
                assert!(matches!(first, Some(Renewed::Message(text)) if text == "stay"));
            }
            handle.abort();
            for stream in &mut streams {
                let lost = stream.next().await.expect("it is asked for again");
                assert!(matches!(lost, Some(Renewed::Gap(status)) if status.is_unavailable()));
            }
            let stopped = ringway_runtime::spawn_blocking(move || crate::support::wait(handle));
            stopped.expect("a thread").await.expect("no panic");
            let again = serve_math(address, &plain, |server| server);
            for stream in &mut streams {
                let next = stream.next().await.expect("the new server");
                assert!(matches!(next, Some(Renewed::Message(text)) if text == "stay"));
            }
            let mut refused = untyped.subscribe_again::<_, String>("no_such", ());
            assert!(refused.next().await.expect_err("no such method").is_unimplemented());
            again
        });
        end(again.expect("a core"));
    });
}
