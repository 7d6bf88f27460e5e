//! The typed client of JSON-RPC: the same behaviours over each transport.

mod bad_servers;
mod bad_sockets;
mod posts;
mod secure;
mod subscriptions;
mod untyped;

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Client, Host, IncomingReply, NextCall, OutgoingCall, Pushback, Status};
use ringway_runtime::{block_on, spawn};
use serde_json::value::RawValue;

use crate::support::json_client::{Served, Transport};
use crate::support::math::{MathClient, Person};
use crate::support::{end, eventually, wait};

/// Runs a test over each transport.
fn over_each(test: impl Fn(Served)) {
    over(&Transport::ALL, test);
}

fn over(transports: &[Transport], test: impl Fn(Served)) {
    for transport in transports {
        println!("over {transport:?}");
        test(Served::start(*transport, |server| server));
    }
}

/// Runs the client's part of a test on a core.
fn run<F>(part: impl FnOnce() -> F + Send + 'static)
where
    F: Future<Output = Result<(), Status>> + 'static,
{
    block_on(async move { part().await }).expect("a core").expect("success");
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("JSON")
}

#[test]
fn every_kind_of_message_comes_back() {
    over_each(|served| {
        let client = served.client();
        run(|| async move {
            assert_eq!(client.subtract(42, 23).await?, 19);
            assert_eq!(client.sum(vec![1, 2, 4]).await?, 7);
            assert_eq!(client.sum(vec![]).await?, 0);
            assert_eq!(client.get_data().await?, ("hello".to_owned(), 5));
            assert_eq!(client.shout("a\n\"ü\u{1F600}".into()).await?, "A\n\"Ü\u{1F600}");
            assert_eq!(client.bytes(Bytes::from_static(b"\0\xff")).await?, &b"\0\xff"[..]);
            let person: Person = serde_json::from_str(r#"{"name":"Ada"}"#).expect("a person");
            let back = serde_json::to_string(&client.person(person).await?).expect("JSON");
            assert_eq!(back, r#"{"name":"Ada","age":0}"#);
            for json in ["7", "null", "[1]", "[[1]]", "[]", r#"{"a":[1.50]}"#, "\"x\"", "[1,\n2]"] {
                let back = client.raw(raw(json)).await?;
                assert_eq!(back.get(), json.replace('\n', " "));
            }
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn many_calls_at_once_get_their_own_replies() {
    over_each(|served| {
        let client = served.client();
        run(|| async move {
            let call = |n: i64| {
                let call = client.sum(vec![n, 1]);
                spawn(async move { (n, call.await) })
            };
            let calls: Vec<_> = (0..500).map(call).collect();
            for call in calls {
                let (n, sum) = call.await.expect("no panic");
                assert_eq!(sum?, n + 1);
            }
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn large_messages_are_cut_anywhere() {
    over_each(|served| {
        let client = served.client();
        run(|| async move {
            for len in [10_000, 100_000, 1_000_000] {
                let text = "ab".repeat(len / 2);
                assert_eq!(client.shout(text.clone()).await?, text.to_uppercase());
            }
            let text = "a".repeat(5_000_000);
            let status = client.shout(text).await.expect_err("a request above the server's limit");
            assert!(!status.is_deadline_exceeded(), "{status}");
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn plain_thread_makes_calls_as_well() {
    over_each(|served| {
        assert_eq!(served.client().subtract(2, 1).wait().expect("a reply"), 1);
        end(served.handle);
    });
}

#[test]
fn failure_is_the_status_of_the_handler() {
    over_each(|served| {
        let client = served.client();
        run(|| async move {
            let json = client.fail("json".into()).await.expect_err("a failure");
            assert!(json.is_not_found() && json.message().contains("no such user"), "{json}");
            assert_eq!(json.details(), &br#"{"user": 7}"#[..]);
            let bytes = client.fail("bytes".into()).await.expect_err("a failure");
            assert_eq!(bytes.details(), &b"\xff\x00"[..]);
            let wait = client.fail("wait".into()).await.expect_err("a failure");
            assert_eq!(wait.pushback(), Some(Pushback::After(Duration::from_millis(250))));
            let code = client.fail("code".into()).await.expect_err("a failure");
            assert_eq!((code.json_rpc_code(), code.message()), (Some(-38_012), "no such block"));
            let another = client.fail("another code".into()).await.expect_err("a failure");
            assert!(another.is_aborted() && another.json_rpc_code() == Some(-32_005), "{another}");
            let panic = client.panic("it did".into()).await.expect_err("a failure");
            assert!(panic.is_internal(), "{panic}");
            assert_eq!(client.subtract(2, 1).await?, 1);
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn deadline_ends_a_call_and_is_told_to_the_server() {
    over_each(|served| {
        let client = served.client();
        run(|| async move {
            let (left, _) = client.asked(()).timeout(Duration::from_secs(100)).await?;
            assert!((50_000..=100_000).contains(&left), "{left} ms");
            let late = client.never(()).timeout(Duration::from_millis(50)).await;
            assert!(late.expect_err("it never ends").is_deadline_exceeded());
            assert_eq!(client.subtract(2, 1).await?, 1);
            Ok(())
        });
        eventually("the server ends it too", || {
            served.plain.seen.dropped.load(Ordering::SeqCst) == 1
        });
        end(served.handle);
    });
}

#[test]
fn call_that_is_dropped_leaves_the_others() {
    over_each(|served| {
        let client = served.client();
        let seen = served.plain.seen.clone();
        run(|| async move {
            let dropped = spawn(client.never(()));
            let stays = spawn(client.later(30));
            ringway_runtime::sleep(Duration::from_millis(1)).await;
            while seen.begun.load(Ordering::SeqCst) < 2 {
                ringway_runtime::yield_now().await;
            }
            drop(dropped);
            assert_eq!(stays.await.expect("no panic")?, 30);
            assert_eq!(client.subtract(2, 1).await?, 1);
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn stream_of_requests_is_refused() {
    over_each(|served| {
        let client = served.client();
        run(|| async move {
            let (texts, reply) = client.collect();
            let status = reply.await.expect_err("JSON-RPC has no streams of requests");
            assert!(status.is_unimplemented() && status.message().contains("stream of requests"));
            drop(texts);
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn server_that_drains_finishes_what_runs() {
    over_each(|served| {
        let client = served.client();
        let seen = served.plain.seen.clone();
        let running = std::thread::spawn(move || client.later(100).wait());
        eventually("it runs", || seen.begun.load(Ordering::SeqCst) == 1);
        served.handle.shutdown();
        assert_eq!(running.join().expect("no panic").expect("it finishes"), 100);
        wait(served.handle);
    });
}

#[test]
fn another_server_takes_over_from_one_that_drains() {
    for transport in Transport::ALL {
        let first = Served::start(transport, |server| server);
        let second = Served::start(transport, |server| server);
        let client = Client::connect([&*first.url, &*second.url]).expect("addresses");
        let math = MathClient::new(client.clone());
        for n in 0..20 {
            assert_eq!(math.subtract(n, 1).wait().expect("a reply"), n - 1);
        }
        first.handle.shutdown();
        for n in 0..200 {
            assert_eq!(math.subtract(n, 1).idempotent().wait().expect("a reply"), n - 1);
        }
        wait(first.handle);
        for n in 0..20 {
            assert_eq!(math.subtract(n, 1).idempotent().wait().expect("a reply"), n - 1);
        }
        end(second.handle);
    }
}

#[test]
fn connection_is_made_again_after_it_was_lost() {
    over_each(|served| {
        let client = served.client();
        let address = served.handle.addresses().first().expect("an address").clone();
        assert_eq!(client.subtract(2, 1).wait().expect("a reply"), 1);
        let seen = served.plain.seen.clone();
        let lost = std::thread::spawn({
            let client = client.clone();
            move || client.never(()).no_timeout().wait()
        });
        eventually("it runs", || seen.begun.load(Ordering::SeqCst) == 1);
        served.handle.abort();
        let status = lost.join().expect("no panic").expect_err("its server is gone");
        assert!(status.is_unavailable() && !status.is_not_executed(), "{status}");
        wait(served.handle);
        let again = crate::support::math::serve_math(address, &served.plain, |server| server);
        let reply = client.subtract(2, 1).wait_for_ready(true).wait();
        assert_eq!(reply.expect("a reply of the new server"), 1);
        end(again);
    });
}

#[test]
fn calls_above_the_servers_limit_wait_or_are_refused() {
    for transport in Transport::ALL {
        let served = Served::start(transport, |server| server.in_flight_per_connection_max(2));
        let client = served.client();
        run(|| async move {
            let calls: Vec<_> = (0..4).map(|_| spawn(client.later(10))).collect();
            for call in calls {
                assert_eq!(call.await.expect("no panic")?, 10);
            }
            Ok(())
        });
        end(served.handle);
    }
}

#[test]
fn interceptors_and_metrics_see_the_calls() {
    async fn count(call: OutgoingCall, next: NextCall) -> Result<IncomingReply, Status> {
        assert_eq!(call.method().name(), "spec.v1.Math/Subtract");
        next.run(call).await
    }
    over_each(|served| {
        let client = Client::builder().address(&*served.url).intercept(count).build();
        let client = client.expect("an address");
        let math = MathClient::new(client.clone());
        assert_eq!(math.subtract(2, 1).wait().expect("a reply"), 1);
        let metrics = client.metrics();
        let calls: Vec<_> = metrics.methods.iter().map(|method| &*method.method).collect();
        assert_eq!(calls, ["spec.v1.Math/Subtract"]);
        end(served.handle);
    });
}

#[test]
fn servers_of_json_rpc_are_not_mixed_with_others() {
    let json = "jsonrpc+tcp://127.0.0.1:1";
    let mixed = Client::connect([json, "tcp://127.0.0.1:1"]).expect_err("two kinds");
    assert!(mixed.is_invalid_argument() && mixed.message().contains("JSON-RPC"), "{mixed}");
    let client = Client::connect(json).expect("an address");
    let host = Host::new("grpc://127.0.0.1:1").expect("an address");
    assert!(client.set_hosts([host]).expect_err("another kind").is_invalid_argument());
    let host = Host::new("jsonrpc+unix:///tmp/a").expect("an address");
    client.set_hosts([host]).expect("the same kind");
}

#[test]
fn wrong_protocol_is_named() {
    for (url, said) in [("jsonrpc+tcp", "sent nothing"), ("tcp", "another protocol")] {
        // A server that greets in another protocol than the client.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it is bound");
        let greeting: &[u8] = if url == "tcp" { b"{}\n" } else { b"" };
        let held = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            std::io::Write::write_all(&mut socket, greeting).expect("it listens");
            let _until_it_leaves = std::io::Read::read_to_end(&mut socket, &mut Vec::new());
        });
        let client = Client::builder()
            .address(format!("{url}://{at}"))
            .connect_timeout(Duration::from_millis(300))
            .build()
            .expect("an address");
        let status = MathClient::new(client).subtract(2, 1).wait().expect_err("no such server");
        assert!(status.is_unavailable() && status.message().contains(said), "{status}");
        held.join().expect("no panic");
    }
}
