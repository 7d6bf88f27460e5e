//! The client of JSON-RPC for methods that no trait describes.

use std::sync::atomic::Ordering;

use ringway_rpc::testing::{TestServer, simulate};
use ringway_rpc::{Client, JsonRpcClient, Status};
use ringway_runtime::spawn;
use serde_json::{Value, json};

use super::{over, over_each, run};
use crate::support::json_client::{Hand, Served, Transport};
use crate::support::math::{MathServer, Plain};
use crate::support::{end, eventually};

fn untyped(served: &Served) -> JsonRpcClient {
    JsonRpcClient::connect(&served.url).expect("an address")
}

/// The calls of section 7 of the specification.
#[test]
fn examples_of_the_specification() {
    over_each(|served| {
        let client = untyped(&served);
        run(|| async move {
            for (params, difference) in [
                (json!([42, 23]), 19),
                (json!([23, 42]), -19),
                (json!({"subtrahend": 23, "minuend": 42}), 19),
                (json!({"minuend": 42, "subtrahend": 23}), 19),
            ] {
                assert_eq!(client.call::<_, i64>("subtract", params).await?, difference);
            }
            client.notify("update", [1, 2, 3, 4, 5]).await?;
            client.notify("foobar", ()).await?;
            let unknown: Result<Value, Status> = client.call("foobar", ()).await;
            assert!(unknown.expect_err("no such method").is_unimplemented());
            let mut batch = client.batch();
            batch.call("sum", [1, 2, 4]);
            batch.notify("notify_hello", [7]);
            batch.call("subtract", (42, 23));
            batch.call("foo.get", json!({"name": "myself"}));
            batch.call("get_data", ());
            let replies = batch.send().await?;
            let found: Vec<Option<&str>> =
                replies.iter().map(|reply| reply.as_ref().ok().map(|reply| reply.json())).collect();
            assert_eq!(found, [Some("7"), Some("19"), None, Some(r#"["hello",5]"#)]);
            assert!(replies[2].as_ref().expect_err("no such method").is_unimplemented());
            assert_eq!(replies[3].clone()?.parse::<(String, i64)>()?, ("hello".into(), 5));
            let mut batch = client.batch();
            batch.notify("notify_hello", [1]);
            batch.notify("notify_hello", [2]);
            assert!(batch.send().await?.is_empty());
            client.ping().await
        });
        eventually("notifications are carried out", || {
            served.plain.seen.notified.load(Ordering::SeqCst) == 4
        });
        end(served.handle);
    });
}

#[test]
fn values_are_not_touched() {
    over_each(|served| {
        let client = untyped(&served);
        run(|| async move {
            for value in [json!(null), json!([1, [2]]), json!({"a": {"b": 1.5}}), json!("ü\n")] {
                let back: Value = client.call("raw", [value.clone()]).await?;
                assert_eq!(back, value);
            }
            let wrong: Result<i64, Status> = client.call("shout", ("a",)).await;
            assert!(wrong.expect_err("a string").is_internal());
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn notifications_and_calls_at_once_all_end() {
    over_each(|served| {
        let client = untyped(&served);
        run(|| async move {
            client.ping().await?;
            let each = |n: i64| {
                let client = client.clone();
                spawn(async move {
                    client.notify("foobar", ()).await?;
                    client.call::<_, i64>("sum", [n, 1]).await
                })
            };
            let all: Vec<_> = (0..50).map(each).collect();
            for (n, sum) in (0..).zip(all) {
                assert_eq!(sum.await.expect("no panic")?, n + 1);
            }
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn subscriptions_that_post_refuses_at_once_all_end() {
    over(&[Transport::Post], |served| {
        let client = untyped(&served);
        run(|| async move {
            client.ping().await?;
            let refused = [(); 3].map(|()| client.subscribe::<_, Value>("ticks", ()));
            for mut stream in refused {
                let status = stream.next().await.expect_err("a POST has one answer");
                assert!(status.is_unimplemented(), "{status}");
            }
            client.ping().await
        });
        end(served.handle);
    });
}

#[test]
fn batches_at_once_get_their_own_replies() {
    over_each(|served| {
        let client = untyped(&served);
        run(|| async move {
            let batches: Vec<_> = (0..20_i64)
                .map(|n| {
                    let client = client.clone();
                    ringway_runtime::spawn(async move {
                        let mut batch = client.batch();
                        for m in 0..n {
                            batch.call("sum", [n, m]);
                        }
                        (n, batch.send().await)
                    })
                })
                .collect();
            for batch in batches {
                let (n, replies) = batch.await.expect("no panic");
                for (m, reply) in replies?.into_iter().enumerate() {
                    assert_eq!(reply?.parse::<i64>()?, n + m as i64);
                }
            }
            let mut long = client.batch();
            (0..1_001).for_each(|_| long.notify("update", [1]));
            assert!(long.send().await.expect_err("too long").is_invalid_argument());
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn subscription_by_name() {
    over(&Transport::BOTH_WAYS, |served| {
        let client = untyped(&served);
        run(|| async move {
            let mut ticks = client.subscribe::<_, String>("repeat", ("tick", 2));
            for _ in 0..2 {
                assert_eq!(ticks.next().await?.as_deref(), Some("tick"));
            }
            assert_eq!(ticks.next().await?, None);
            Ok(())
        });
        end(served.handle);
    });
}

#[test]
fn reply_that_a_batch_lacks_is_a_failure_of_its_call() {
    let hand = Hand::listen();
    let client = JsonRpcClient::connect(&*hand.url).expect("an address");
    let server = std::thread::spawn(move || {
        let mut connection = hand.accept(r#""result":true"#);
        let batch = connection.request().expect("a batch");
        let id = &batch[1]["id"];
        connection.say(&format!(
            r#"[{{"jsonrpc":"2.0","result":0,"id":"b0.0"}},{{"jsonrpc":"2.0","result":1,"id":{id}}},7]"#
        ));
    });
    run(|| async move {
        let mut batch = client.batch();
        batch.call("a", ());
        batch.call("b", ());
        let replies = batch.send().await?;
        assert!(replies[0].as_ref().expect_err("it has none").is_internal());
        assert_eq!(replies[1].clone()?.json(), "1");
        Ok(())
    });
    server.join().expect("no panic");
}

#[test]
fn client_of_another_protocol_is_refused() {
    let client = Client::connect("tcp://127.0.0.1:1").expect("an address");
    assert!(JsonRpcClient::new(client).expect_err("not JSON-RPC").is_invalid_argument());
}

#[test]
fn much_that_is_said_at_once_waits_for_the_server_to_read_it() {
    simulate(9, async {
        let server = TestServer::start(MathServer::new(Plain::default()))?;
        let address = format!("jsonrpc+{}", server.address());
        let client = JsonRpcClient::connect(address.as_str())?;
        let text = "x".repeat(300_000);
        let mut said = Vec::new();
        for _ in 0..20 {
            let (notified, called) =
                (client.notify("shout", [&text]), client.call::<_, String>("shout", [&text]));
            said.push(spawn(async move {
                notified.await?;
                called.await.map(|text| text.len())
            }));
        }
        for called in said {
            assert_eq!(called.await.expect("no panic")?, text.len());
        }
        Ok(())
    })
    .expect("all of it is answered");
}
