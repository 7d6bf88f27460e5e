//! Virtual time.

use std::time::Duration;

use super::lab::Lab;
use crate::driver::sim::SimConfig;
use crate::driver::{Driver, Event, RecvClass, Wait};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_bounded_wait_ends_at_its_bound() {
    let mut lab = Lab::new(SimConfig::new(1));
    let start = lab.sim.now();
    assert!(lab.turn(Wait::AtMost(3_600 * SECOND)).is_empty());
    assert_eq!(lab.sim.now() - start, 3_600 * SECOND);
    assert!(lab.turn(Wait::AtMost(Duration::ZERO)).is_empty());
    assert_eq!(lab.sim.now() - start, 3_600 * SECOND);
}

#[test]
fn a_wait_ends_with_the_first_event() {
    let config = SimConfig { latency_min: SECOND, latency_max: SECOND, ..SimConfig::new(1) };
    let mut lab = Lab::new(config);
    let (_, addr) = lab.listen();
    lab.connect(&addr);
    assert!(lab.turn(Wait::AtMost(SECOND / 2)).is_empty());
    let events = lab.turn(Wait::AtMost(60 * SECOND));
    assert!(matches!(events[..], [Event::Accepted { .. }]), "{events:?}");
    assert_eq!(lab.sim.elapsed(), SECOND);
    let events = lab.turn(Wait::Forever);
    assert!(matches!(events[..], [Event::Connected { errno: 0, .. }]), "{events:?}");
    assert_eq!(lab.sim.elapsed(), 2 * SECOND);
}

#[test]
fn a_poll_delivers_what_is_due_and_leaves_the_clock() {
    let mut lab = Lab::new(SimConfig::new(1));
    let (client, server) = lab.pair();
    lab.send(client, "x");
    let before = lab.sim.elapsed();
    assert!(lab.sim.peek());
    let events = lab.turn(Wait::Poll);
    assert!(matches!(events[..], [Event::Sent { bytes: 1, errno: 0, .. }]), "{events:?}");
    lab.recv_start(server, RecvClass::Message);
    assert!(lab.turn(Wait::Poll).is_empty(), "the byte is still on its way");
    assert!(!lab.sim.peek());
    assert_eq!(lab.sim.elapsed(), before);
    lab.run(1);
    assert!(lab.sim.elapsed() > before);
}

#[test]
fn waiting_for_nothing_is_an_error_that_names_the_seed() {
    let mut lab = Lab::new(SimConfig::new(4_711));
    let (client, _server) = lab.pair();
    lab.recv_start(client, RecvClass::Message);
    let error = lab.sim.turn(Wait::Forever, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with("simulation is stuck"), "{error}");
    assert!(error.contains("1 receives") && error.ends_with("seed 4711"), "{error}");
}
