//! Routers of a sharded cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bson::{Document, doc};
use ringway_mongo::{Client, Collection};

use crate::support::fake::{Answer, Command, Fake, hello, last_batch};
use crate::support::{on_core, options};

fn router(answer: impl Fn(&Command) -> Answer + Send + Sync + 'static) -> Fake {
    Fake::serve_all(move |command| match command.name() {
        "hello" => {
            let mut hello = hello();
            hello.insert("msg", "isdbgrid");
            Answer::Reply(hello)
        }
        _ => answer(command),
    })
}

#[test]
fn a_second_try_goes_to_another_router_although_it_is_busier() {
    let (held, found) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (held_too, found_too) = (Arc::clone(&held), Arc::clone(&found));
    let good = router(move |command| match command.name() {
        "ping" => {
            held_too.fetch_add(1, Ordering::SeqCst);
            Answer::Silence
        }
        _ => {
            found_too.fetch_add(1, Ordering::SeqCst);
            Answer::Reply(last_batch(vec![]))
        }
    });
    // It cannot reach its shard.
    let bad = router(|command| match command.name() {
        "ping" => Answer::Reply(doc! { "ok": 1.0 }),
        _ => Answer::Reply(doc! { "ok": 0.0, "code": 6, "errmsg": "host unreachable" }),
    });
    on_core(async move {
        let address = format!("mongodb://{},{}/?localThresholdMS=60000", good.place, bad.place);
        let client = Client::new(options(&address));
        let database = client.database("d");
        let mut pings = Vec::new();
        let open = |pings: &[ringway_runtime::JoinHandle<_>]| {
            pings.iter().filter(|ping| !ping.is_finished()).count()
        };
        while held.load(Ordering::SeqCst) < 3 {
            let database = database.clone();
            // Few enough that none of them waits for a place in a pool.
            if open(&pings) < 20 {
                pings.push(ringway_runtime::spawn(async move { database.ping().await }));
            }
            ringway_runtime::yield_now().await;
        }
        while open(&pings) > held.load(Ordering::SeqCst) {
            ringway_runtime::yield_now().await;
        }
        let things: Collection<Document> = database.collection("things");
        for _ in 0..10 {
            things.find_one(doc! {}).await.expect("the other router answers");
        }
        assert_eq!(found.load(Ordering::SeqCst), 10);
        pings.iter().for_each(ringway_runtime::JoinHandle::abort);
    });
}
