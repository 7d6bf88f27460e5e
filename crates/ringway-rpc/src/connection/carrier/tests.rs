use std::rc::Rc;
use std::thread;

use ringway_wire::native::StreamId;

use crate::connection::carrier::fake_connection::{Action, FakeConnection};
use crate::connection::carrier::{is_here, register, unregister, with};
use crate::connection::table::Handles;
use crate::stream::remote::{HandleEnd, HandleSide};

const STREAM: StreamId = StreamId::new(0, 1);

#[test]
fn carrier_is_found_until_it_is_unregistered() {
    ringway_runtime::block_on(async {
        let first = FakeConnection::new();
        let second = FakeConnection::new();
        let [a, b] = [&first, &second].map(|fake| fake.id.get().expect("registered"));
        assert_ne!(a, b);
        assert!(with(a, |_| ()).is_some() && with(b, |_| ()).is_some());
        first.forget();
        assert!(with(a, |_| ()).is_none() && with(b, |_| ()).is_some());
        let third = FakeConnection::new();
        assert!(with(a, |_| ()).is_none(), "its slot belongs to another");
        assert!(with(third.id.get().expect("registered"), |_| ()).is_some());
        unregister(a); // twice is no harm
        assert!(with(third.id.get().expect("registered"), |_| ()).is_some());
        assert_eq!(Rc::strong_count(&first), 1);
    })
    .expect("a core");
}

#[test]
fn carriers_may_be_registered_and_unregistered_while_in_use() {
    ringway_runtime::block_on(async {
        let fake = FakeConnection::new();
        let id = fake.id.get().expect("registered");
        let other = with(id, |_| {
            unregister(id);
            register(fake.clone())
        });
        assert!(with(id, |_| ()).is_none());
        assert!(with(other.expect("it was there"), |_| ()).is_some());
    })
    .expect("a core");
}

#[test]
fn carrier_is_not_found_by_a_later_core_of_the_same_thread() {
    let id =
        ringway_runtime::block_on(async { FakeConnection::new().id.get().expect("registered") });
    let id = id.expect("a core");
    ringway_runtime::block_on(async move {
        let later = FakeConnection::new();
        assert!(with(id, |_| ()).is_none() && !is_here(id));
        assert!(is_here(later.id.get().expect("registered")));
    })
    .expect("a core");
}

#[test]
fn handle_leaves_its_stream_on_any_thread() {
    ringway_runtime::block_on(async {
        let fake = FakeConnection::new();
        let at = fake.open(STREAM, Handles::Both);
        let elsewhere = thread::spawn(move || {
            assert!(with(at.carrier, |_| ()).is_none() && !is_here(at.carrier));
            at.leave(HandleSide::Writer, HandleEnd::Cancelled("enough".to_owned()));
            at.leave(HandleSide::Reader, HandleEnd::Dropped);
        });
        elsewhere.join().expect("no panic");
        assert_eq!(fake.did(STREAM), [], "it is done by the core's own task");
        fake.happened(STREAM, Action::DroppedReader).await;
        let cancelled = Action::Cancelled("enough".to_owned());
        assert_eq!(
            fake.did(STREAM),
            [cancelled, Action::DroppedWriter(true), Action::DroppedReader]
        );
    })
    .expect("a core");
}

#[test]
fn leaving_a_stream_of_an_ended_core_has_no_effect() {
    let at = ringway_runtime::block_on(async { FakeConnection::new().open(STREAM, Handles::Both) });
    let at = at.expect("a core");
    at.leave(HandleSide::Reader, HandleEnd::Dropped);
    thread::spawn(move || at.leave(HandleSide::Writer, HandleEnd::Dropped))
        .join()
        .expect("no panic");
}
