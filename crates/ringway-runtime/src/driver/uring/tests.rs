//! What this driver does when the kernel ends what it had asked it to go on with.

use std::sync::Arc;
use std::thread;

use super::*;
use crate::buf::BufferCounts;
use crate::core::wake_descriptor;

/// The kernel ends a multishot poll when it has no room for a completion, among others.
#[test]
fn a_core_is_still_woken_after_the_poll_of_its_eventfd_has_ended() {
    let eventfd = wake_descriptor().expect("a descriptor is free");
    let counts = BufferCounts { message: 16, bulk: 16, datagram: 16 };
    let pools = Pools::new(counts, &Arc::downgrade(&eventfd)).expect("address space");
    let mut driver = Uring::new(&pools, Arc::clone(&eventfd)).expect("this kernel has io_uring");
    let mut events = Vec::new();
    for _ in 0..3 {
        driver.ring.cancel(tag(kind::EVENTFD, 0), tag(kind::CANCEL, 0));
        for _ in 0..3 {
            driver.turn(Wait::Poll, &mut events).expect("the ring works");
        }
        let signal = Arc::clone(&eventfd);
        let other = thread::spawn(move || {
            rustix::io::write(&signal, &1u64.to_ne_bytes()).expect("the count has room");
        });
        // Without the poll this sleeps for ever.
        driver.turn(Wait::Forever, &mut events).expect("the ring works");
        other.join().expect("no panic");
        assert!(events.is_empty(), "{events:?}");
        let mut count = [0; 8];
        rustix::io::read(&*eventfd, &mut count).expect("it was written to");
    }
}
