//! Listeners, connects, accepts.

use std::time::Duration;

use socket2::SockAddr;

use super::lab::{Lab, OPTIONS, inet};
use crate::driver::sim::SimConfig;
use crate::driver::{BindOptions, Driver, Event, Key, RecvClass, RecvEnd, Wait};
use crate::limits;

fn connected(events: &[Event], of: Key) -> Option<i32> {
    events.iter().find_map(|event| match event {
        Event::Connected { key, errno } if *key == of => Some(*errno),
        _ => None,
    })
}

#[test]
fn nobody_listening_refuses() {
    let mut lab = Lab::new(SimConfig::new(1));
    let client = lab.connect(&inet("127.0.0.1:9"));
    assert_eq!(connected(&lab.settle(), client), Some(libc::ECONNREFUSED));
}

#[test]
fn both_ends_know_each_others_address() {
    let mut lab = Lab::new(SimConfig::new(2));
    let (client, server) = lab.pair();
    let (client, server) = (lab.fd(client), lab.fd(server));
    assert_eq!(lab.sim.peer_addr(client).unwrap(), lab.sim.local_addr(server).unwrap());
    assert_eq!(lab.sim.local_addr(client).unwrap(), lab.sim.peer_addr(server).unwrap());
    assert!(client >= 1_000_000 && lab.sim.is_simulated());
    let unconnected = lab.sim.open_stream(&inet("127.0.0.1:9")).unwrap();
    assert!(lab.sim.peer_addr(unconnected).is_err());
}

#[test]
fn unix_sockets_connect_by_path() {
    let mut lab = Lab::new(SimConfig::new(3));
    let path = SockAddr::unix("/run/sim.socket").unwrap();
    let (fd, bound) = lab.sim.listen(&path, OPTIONS).unwrap();
    assert_eq!(bound, path);
    let listener = lab.register(fd);
    lab.accept_start(listener);
    let client = lab.connect(&path);
    let events = lab.run(2);
    let Event::Accepted { fd, .. } = events[0] else { panic!("{events:?}") };
    assert_eq!(connected(&events, client), Some(0));
    assert!(lab.sim.peer_addr(fd).unwrap().is_unnamed());
    assert_eq!(lab.sim.peer_addr(lab.fd(client)).unwrap(), path);
}

#[test]
fn a_full_backlog_makes_clients_wait_and_then_time_out() {
    let mut lab = Lab::new(SimConfig::new(4));
    let options = BindOptions { backlog: 1, ..OPTIONS };
    let (fd, addr) = lab.sim.listen(&inet("127.0.0.1:0"), options).unwrap();
    let listener = lab.register(fd);
    let first = lab.connect(&addr);
    assert_eq!(connected(&lab.settle(), first), Some(0), "the backlog has room for one");
    let second = lab.connect(&addr);
    assert_eq!(connected(&lab.settle(), second), Some(libc::ETIMEDOUT));
    assert!(lab.sim.elapsed() > limits::SIM_CONNECT_RETRY_FIRST * 63);
    let third = lab.connect(&addr);
    lab.turn(Wait::AtMost(Duration::from_millis(10)));
    lab.accept_start(listener);
    let events = lab.settle();
    assert_eq!(connected(&events, third), Some(0));
    let accepted = events.iter().filter(|event| matches!(event, Event::Accepted { .. }));
    assert_eq!(accepted.count(), 2);
}

#[test]
fn accepting_stops_and_starts_again() {
    let mut lab = Lab::new(SimConfig::new(5));
    let (listener, addr) = lab.listen();
    lab.turn(Wait::Poll);
    lab.sim.accept_stop(listener);
    let events = lab.settle();
    let [Event::AcceptEnded { errno: libc::ECANCELED, .. }] = events[..] else {
        panic!("{events:?}");
    };
    let client = lab.connect(&addr);
    assert_eq!(connected(&lab.settle(), client), Some(0));
    lab.accept_start(listener);
    let events = lab.settle();
    assert!(matches!(events[..], [Event::Accepted { .. }]), "{events:?}");
}

#[test]
fn too_many_descriptors_end_the_accept_but_keep_the_connection() {
    let mut lab = Lab::new(SimConfig { descriptors_max: 2, ..SimConfig::new(6) });
    let (listener, addr) = lab.listen();
    let client = lab.connect(&addr);
    let events = lab.settle();
    let ended = |event: &Event| matches!(event, Event::AcceptEnded { errno: libc::EMFILE, .. });
    assert!(events.iter().any(ended), "{events:?}");
    assert!(lab.sim.open_stream(&addr).is_err());
    lab.close(client);
    lab.settle();
    lab.accept_start(listener);
    let events = lab.settle();
    let [Event::Accepted { fd, .. }] = events[..] else { panic!("{events:?}") };
    lab.sim.close_unregistered(fd);
    lab.close(listener);
    lab.settle();
    lab.finish();
}

#[test]
fn closing_a_listener_resets_those_who_wait() {
    let mut lab = Lab::new(SimConfig::new(7));
    let (fd, addr) = lab.sim.listen(&inet("127.0.0.1:0"), OPTIONS).unwrap();
    let listener = lab.register(fd);
    let client = lab.connect(&addr);
    assert_eq!(connected(&lab.settle(), client), Some(0));
    lab.recv_start(client, RecvClass::Message);
    lab.close(listener);
    let events = lab.settle();
    let reset = RecvEnd::Failed(libc::ECONNRESET);
    assert!(
        events.iter().any(|event| matches!(event, Event::RecvEnded { end, .. } if *end == reset))
    );
    lab.close(client);
    lab.settle();
    lab.finish();
    lab.sim.listen(&addr, OPTIONS).expect("the address is free again");
}

#[test]
fn a_connection_accepted_during_the_close_is_closed() {
    let mut lab = Lab::new(SimConfig::new(8));
    let (listener, addr) = lab.listen();
    let client = lab.connect(&addr);
    lab.turn(Wait::AtMost(Duration::from_nanos(1)));
    lab.close(client);
    lab.close(listener);
    lab.settle();
    lab.finish();
}

#[test]
fn shared_ports_share_connections() {
    let mut lab = Lab::new(SimConfig::new(9));
    let shared = BindOptions { reuse_port: true, backlog: 64, ..OPTIONS };
    let (first, addr) = lab.sim.listen(&inet("127.0.0.1:0"), shared).unwrap();
    let (second, _) = lab.sim.listen(&addr, shared).unwrap();
    let keys = [first, second].map(|fd| lab.register(fd));
    for key in keys {
        lab.accept_start(key);
    }
    for _ in 0..32 {
        lab.connect(&addr);
    }
    let events = lab.settle();
    for wanted in keys {
        let accepted =
            |event: &Event| matches!(event, Event::Accepted { key, .. } if *key == wanted);
        assert!(events.iter().any(accepted), "one listener got nothing");
    }
}
