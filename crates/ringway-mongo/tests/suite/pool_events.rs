//! What a client tells of its pools.

use std::sync::{Arc, Mutex, OnceLock};

use bson::doc;
use ringway_mongo::{Client, CloseReason, PoolChange};

use crate::support::fake::{Answer, Fake};
use crate::support::{on_core, options};

fn ok() -> Fake {
    Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }))
}

fn name(change: &PoolChange<'_>) -> &'static str {
    match change {
        PoolChange::Created { .. } => "created",
        PoolChange::Ready => "ready",
        PoolChange::Cleared { .. } => "cleared",
        PoolChange::Closed => "closed",
        PoolChange::ConnectionCreated { connection: 1 } => "1 created",
        PoolChange::ConnectionReady { connection: 1, .. } => "1 ready",
        PoolChange::ConnectionClosed { connection: 1, reason: CloseReason::PoolClosed } => {
            "1 closed with its pool"
        }
        PoolChange::CheckOutStarted => "wanted",
        PoolChange::CheckedOut { connection: 1, .. } => "1 lent",
        PoolChange::CheckedIn { connection: 1 } => "1 back",
        _ => "another",
    }
}

#[test]
fn the_life_of_a_pool_is_told() {
    let server = ok();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let options = options(&server.address).on_pool(move |event| {
        heard.lock().expect("no panic").push(name(&event.change));
    });
    on_core(async move {
        let client = Client::new(options);
        client.database("d").ping().await.expect("it answers");
        client.shutdown().await.expect("there is a core");
    });
    let told = told.lock().expect("no panic");
    let expected = [
        "created",
        "ready",
        "wanted",
        "1 created",
        "1 ready",
        "1 lent",
        "1 back",
        // The session of the ping is ended.
        "wanted",
        "1 lent",
        "1 back",
        "1 closed with its pool",
        "closed",
    ];
    assert_eq!(*told, expected);
}

#[test]
fn a_client_that_is_used_while_its_core_ends_does_not_begin_anew_there() {
    let server = ok();
    let known: Arc<OnceLock<Client>> = Arc::default();
    let (user, told) = (Arc::clone(&known), Arc::new(Mutex::new(Vec::new())));
    let heard = Arc::clone(&told);
    let options = options(&server.address).on_pool(move |event| {
        heard.lock().expect("no panic").push(name(&event.change));
        if let (PoolChange::Closed, Some(client)) = (&event.change, user.get()) {
            assert!(client.servers().is_empty(), "no core has it any more");
        }
    });
    on_core(async move {
        let client = Client::new(options);
        assert!(known.set(client.clone()).is_ok());
        client.database("d").ping().await.expect("it answers");
    });
    let told = told.lock().expect("no panic");
    let count = |what| told.iter().filter(|it| **it == what).count();
    assert_eq!((count("created"), count("closed")), (1, 1), "{told:?}");
}

#[test]
fn who_is_told_may_use_the_client_and_may_panic() {
    let server = ok();
    let known: Arc<OnceLock<Client>> = Arc::default();
    let (user, count) = (Arc::clone(&known), Arc::new(Mutex::new(0)));
    let counted = Arc::clone(&count);
    let options = options(&server.address).on_pool(move |_| {
        *counted.lock().expect("no panic") += 1;
        if let Some(client) = user.get()
            && *counted.lock().expect("no panic") < 20
        {
            let database = client.database("d");
            drop(ringway_runtime::spawn(async move { database.ping().await }));
        }
        panic!("it is told of");
    });
    on_core(async move {
        let client = Client::new(options);
        assert!(known.set(client.clone()).is_ok());
        for _ in 0..50 {
            client.database("d").ping().await.expect("it answers");
        }
        assert!(*count.lock().expect("no panic") > 100);
    });
}
