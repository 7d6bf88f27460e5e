//! Faults that programs can see, each alone.

use std::time::Duration;

use super::lab::Lab;
use crate::driver::sim::{Faults, SimConfig};
use crate::driver::{Driver, Event, RecvClass, RecvEnd, Wait};
use crate::limits;

fn lab(faults: Faults) -> Lab {
    Lab::new(SimConfig { faults, ..SimConfig::new(1) })
}

#[test]
fn a_reset_hits_both_ends_in_time() {
    let faults = Faults { resets: 1_000, ..Faults::none() };
    let mut lab = lab(faults);
    let (client, server) = lab.pair();
    for key in [client, server] {
        lab.recv_start(key, RecvClass::Message);
    }
    let events = lab.run(2);
    let reset = RecvEnd::Failed(libc::ECONNRESET);
    assert!(
        events.iter().all(|event| matches!(event, Event::RecvEnded { end, .. } if *end == reset))
    );
    assert!(lab.sim.elapsed() < faults.reset_within + Duration::from_millis(1));
}

#[test]
fn a_lossy_reset_discards_what_had_arrived() {
    for (lossy_resets, kept) in [(0, true), (1_000, false)] {
        let mut lab = lab(Faults { lossy_resets, ..Faults::none() });
        let (client, server) = lab.pair();
        lab.send(client, "arrived");
        lab.settle();
        lab.abort(client);
        lab.settle();
        lab.recv_start(server, RecvClass::Message);
        let events = lab.settle();
        assert_eq!(events.iter().any(|event| matches!(event, Event::Received { .. })), kept);
        let last = events.last();
        assert!(matches!(last, Some(Event::RecvEnded { end: RecvEnd::Failed(_), .. })), "{last:?}");
    }
}

#[test]
fn connects_are_refused_or_time_out() {
    let refused = Faults { connects_refused: 1_000, ..Faults::none() };
    let lost = Faults { connects_lost: 1_000, ..Faults::none() };
    for (faults, wanted) in [(refused, libc::ECONNREFUSED), (lost, libc::ETIMEDOUT)] {
        let mut lab = lab(faults);
        let (_, addr) = lab.listen();
        lab.connect(&addr);
        let events = lab.run(1);
        let [Event::Connected { errno, .. }] = events[..] else { panic!("{events:?}") };
        assert_eq!(errno, wanted);
        let timed_out = wanted == libc::ETIMEDOUT;
        assert_eq!(lab.sim.elapsed() == limits::SIM_CONNECT_TIMEOUT, timed_out);
    }
}

#[test]
fn a_failed_accept_leaves_the_connection_for_the_next() {
    let mut lab = lab(Faults { accept_errors: 500, ..Faults::none() });
    let (listener, addr) = lab.listen();
    let mut accepted = 0;
    let mut failed = 0;
    for _ in 0..10 {
        lab.connect(&addr);
    }
    while accepted < 10 {
        for event in lab.turn(Wait::Forever) {
            match event {
                Event::Accepted { .. } => accepted += 1,
                Event::AcceptEnded { errno, .. } => {
                    assert_eq!(errno, libc::EMFILE);
                    failed += 1;
                    lab.accept_start(listener);
                }
                _ => {}
            }
        }
    }
    assert!(failed > 0);
}

#[test]
fn a_late_stop_lets_more_arrive_first() {
    let faults = Faults { late_cancels: 1_000, ..Faults::none() };
    let late = (0..50).any(|seed| {
        let mut lab = Lab::new(SimConfig { faults, ..SimConfig::new(seed) });
        let (client, server) = lab.pair();
        lab.recv_start(server, RecvClass::Message);
        lab.recv_stop(server);
        lab.send(client, "still");
        let events = lab.settle();
        let stopped =
            |event: &Event| matches!(event, Event::RecvEnded { end: RecvEnd::Stopped, .. });
        assert_eq!(events.iter().filter(|event| stopped(event)).count(), 1);
        events.iter().any(|event| matches!(event, Event::Received { .. }))
    });
    assert!(late);
}

#[test]
fn a_short_turn_leaves_the_rest_to_the_next() {
    let instant = |faults| SimConfig {
        faults,
        latency_min: Duration::ZERO,
        latency_max: Duration::ZERO,
        ..SimConfig::new(3)
    };
    for (short_turns, turns_min, turns_max) in [(0, 1, 1), (1_000, 2, 32)] {
        let mut lab = Lab::new(instant(Faults { short_turns, ..Faults::none() }));
        let (_, addr) = lab.listen();
        for _ in 0..16 {
            lab.connect(&addr);
        }
        let mut events = 0;
        let mut turns = 0;
        while events < 32 {
            events += lab.turn(Wait::Poll).len();
            turns += 1;
        }
        assert!((turns_min..=turns_max).contains(&turns), "{turns} turns");
    }
}

#[test]
fn a_close_takes_back_what_was_left_to_the_next_turn() {
    let mut left = false;
    for seed in 0..10 {
        let faults = Faults { short_turns: 1_000, ..Faults::none() };
        let config = SimConfig { faults, ..SimConfig::new(seed) };
        let latency_max = Duration::ZERO;
        let mut lab = Lab::new(SimConfig { latency_min: latency_max, latency_max, ..config });
        let (listener, addr) = lab.listen();
        let clients: Vec<_> = (0..16).map(|_| lab.connect(&addr)).collect();
        let before = lab.sim.open_descriptors();
        for event in lab.turn(Wait::Poll) {
            if let Event::Accepted { fd, .. } = event {
                lab.sim.close_unregistered(fd);
            }
        }
        left |= lab.sim.open_descriptors() > before;
        for key in clients.into_iter().chain([listener]) {
            lab.close(key);
        }
        lab.settle();
        lab.finish();
    }
    assert!(left, "no accepted connection was left");
}

#[test]
fn neighbours_change_places_but_one_keys_events_do_not() {
    let mut lab = lab(Faults { reorders: 500, short_receives: 900, ..Faults::none() });
    let (client, server) = lab.pair();
    lab.recv_start(client, RecvClass::Message);
    lab.recv_start(server, RecvClass::Message);
    let bytes: Vec<u8> = (0..=255).collect();
    lab.send(client, bytes.clone());
    lab.send(server, bytes.clone());
    let mut got = [Vec::new(), Vec::new()];
    for event in lab.settle() {
        if let Event::Received { key, data } = event {
            got[usize::from(key == client)].extend_from_slice(&data);
        }
    }
    assert_eq!(got, [bytes.clone(), bytes]);
}
