//! What a client tells while its core ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bson::doc;
use ringway_mongo::{Client, ClientOptions};

use crate::support::fake::{Answer, Fake};
use crate::support::on_core;

/// What is told looks at the client, which must not be made anew for that: nobody would end it.
#[test]
fn nothing_is_told_behind_the_end_of_the_core() {
    let fake = Fake::serve(|_| Answer::Reply(doc! { "ok": 1.0 }));
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let core = std::thread::spawn(move || {
        let looked_at = Arc::new(OnceLock::<Client>::new());
        let look = {
            let (told, looked_at) = (Arc::clone(&told), Arc::clone(&looked_at));
            move || {
                told.fetch_add(1, Ordering::SeqCst);
                looked_at.get().iter().for_each(|client| drop(client.servers()));
            }
        };
        let look_too = look.clone();
        let address = format!("mongodb://{}/", fake.place);
        let options = ClientOptions::parse(&address).expect("an address");
        let options = options.on_topology(move |_| look()).on_pool(move |_| look_too());
        let client = Client::new(options);
        looked_at.set(client.clone()).expect("it is empty");
        on_core(async move { client.database("d").ping().await.expect("answered") });
        let until_the_end = told.load(Ordering::SeqCst);
        // A second core of the thread has the client again.
        let client = looked_at.get().cloned().expect("it is there");
        on_core(async move { client.database("d").ping().await.expect("answered") });
        let until_the_second = told.load(Ordering::SeqCst);
        assert!(until_the_second > until_the_end);
        until_the_second
    });
    let until_the_end = core.join().expect("no panic");
    assert_eq!(count.load(Ordering::SeqCst), until_the_end);
}
