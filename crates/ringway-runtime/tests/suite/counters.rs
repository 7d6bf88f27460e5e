//! The counters of a core, compared with what the core did.

use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::io::StreamLimits;
use ringway_runtime::{Builder, CoreCounters, CoreHandle, Runtime, sleep, spawn};

use crate::support;
use crate::support::{Driver, alone, connected_to, echo, exchange, listen, pattern};

on_every_driver!(
    messages_and_bytes_are_counted_on_both_sides,
    turns_and_polls_are_counted,
    sleeps_are_counted,
    small_pieces_of_a_turn_leave_in_one_send,
);

/// Lets a turn end, because one turn may poll a ready task several times.
async fn turn() {
    sleep(Duration::from_millis(1)).await;
}

/// The counters of this core, as published at the end of a turn.
async fn counters() -> CoreCounters {
    turn().await;
    CoreHandle::current().counters()
}

async fn messages_and_bytes_are_counted_on_both_sides(driver: Driver) {
    const ROUNDS: u64 = 100;
    const LEN: u64 = 1_000;
    let listener = listen();
    let before = counters().await;
    let (client, server) = connected_to(&listener, StreamLimits::default()).await;
    let server = spawn(echo(server));
    for round in 0..ROUNDS {
        exchange(&client, &pattern(LEN as usize, round as usize)).await;
    }
    drop(client);
    server.await.expect("no panic").expect("no error");
    let after = counters().await;
    assert_eq!(after.accepted - before.accepted, 1);
    // Both ends belong to this core.
    assert_eq!(after.bytes_received - before.bytes_received, 2 * ROUNDS * LEN);
    assert_eq!(after.bytes_sent - before.bytes_sent, 2 * ROUNDS * LEN);
    assert_eq!(after.sends - before.sends, 2 * ROUNDS);
    assert_eq!(after.receives - before.receives, 2 * ROUNDS);
    assert_eq!(after.starved, 0);
    // On a busy machine, a core that the kernel does not run for a while has stalled, and enters the kernel more
    // often.
    match driver {
        Driver::Sim => assert_eq!(after.stalls, 0),
        _ => assert!((1..=20 * ROUNDS).contains(&(after.syscalls - before.syscalls)), "{after:?}"),
    }
}

async fn turns_and_polls_are_counted(_: Driver) {
    let before = counters().await;
    for _ in 0..10 {
        turn().await;
    }
    let after = counters().await;
    assert!(after.turns - before.turns >= 10);
    assert!(after.polls - before.polls >= 10);
    assert_eq!(after.sends, before.sends);
    assert_eq!(after.bytes_received, before.bytes_received);
}

async fn sleeps_are_counted(_: Driver) {
    let before = counters().await;
    // On a busy machine a time may be over before its core can wait for it.
    while counters().await.sleeps - before.sleeps < 5 {
        sleep(Duration::from_millis(2)).await;
    }
}

async fn small_pieces_of_a_turn_leave_in_one_send(_: Driver) {
    let listener = listen();
    let (client, server) = connected_to(&listener, StreamLimits::default()).await;
    let server = Rc::new(server);
    let before = counters().await;
    for number in 0..1_000_u32 {
        client.write(&number.to_be_bytes());
    }
    let got = support::read(&server, 4_000).await;
    let after = counters().await;
    assert_eq!(got[3_996..], 999_u32.to_be_bytes());
    assert_eq!(after.sends - before.sends, 1);
    assert_eq!(after.bytes_sent - before.bytes_sent, 4_000);
}

/// Far more messages than a core needs before its sleeps are short and it spins.
const ROUNDS_MAX: u32 = 1_000_000;

#[test]
fn a_core_beside_another_one_spins_while_there_are_cpus_for_both() {
    alone(|| {
        let cpus = std::thread::available_parallelism().expect("Linux tells it").get();
        if cpus < 2 {
            return;
        }
        let start = |threads| Runtime::builder().threads(threads).start().expect("a runtime");
        // The budget is long, so that the sleeps of a busy machine are short in comparison.
        let spins = |other: &Runtime, rounds: u32| {
            let other = other.cores()[0].clone();
            let main = async move {
                let spun = || {
                    let counters = CoreHandle::current().counters();
                    counters.spin_hits + counters.spin_misses
                };
                let mut round = 0;
                while spun() == 0 && round < rounds {
                    round += 1;
                    other.spawn(async || ()).expect("room").await.expect("no panic");
                }
                spun()
            };
            // The runtime names all CPUs, and starts one core.
            let builder = Builder::default().spin(Duration::from_millis(10));
            builder.block_on(main).expect("a core")
        };
        let one = start(1);
        assert!(spins(&one, ROUNDS_MAX) > 0, "two cores on {cpus} CPUs");
        let others = start(cpus - 1);
        assert_eq!(spins(&one, 1_000), 0, "{} cores on {cpus} CPUs", cpus + 1);
        drop(others);
        assert!(spins(&one, ROUNDS_MAX) > 0, "two cores again");
    });
}
