//! The suites of plain connections: pingpong, idle, receive, ttcp and roundtrip.

use std::time::Duration;

use super::flags::BenchFlags;
use super::list::list;
use super::suite::{SendMode, Suite};
use crate::args::values::ValueError;
use crate::limits;
use crate::payload::PACKET_BYTES_MIN;

pub(super) fn ping_pong(common: &BenchFlags) -> Result<Suite, ValueError> {
    let connections = list("-c", &common.connections, &[1, 10, 100, 1000])?;
    let sizes = list("-s", &common.size, &[16384])?;
    Ok(Suite::PingPong { connections, sizes })
}

pub(super) fn idle(common: &BenchFlags) -> Result<Suite, ValueError> {
    let connections = list("-c", &common.connections, &[1000, 10_000])?;
    let sizes = list("-s", &common.size, &[64])?;
    Ok(Suite::Idle { connections, sizes })
}

pub(super) fn receive(
    common: &BenchFlags,
    batch: Option<u32>,
    per_packet: bool,
) -> Result<Suite, ValueError> {
    let connections = list("-c", &common.connections, &[1, 100, 1000, 10_000])?;
    let sizes = list("-s", &common.size, &[32])?;
    check_packets(&sizes)?;
    let modes = match (batch, per_packet) {
        (None, false) => vec![SendMode::Batch(BATCH_PACKETS), SendMode::PerPacket],
        (Some(packets), true) => vec![SendMode::Batch(packets), SendMode::PerPacket],
        (Some(packets), false) => vec![SendMode::Batch(packets)],
        (None, true) => vec![SendMode::PerPacket],
    };
    check_batches(&sizes, &modes)?;
    Ok(Suite::Receive { connections, sizes, modes })
}

pub(super) fn ttcp(common: &BenchFlags) -> Result<Suite, ValueError> {
    let connections = list("-c", &common.connections, &[1])?;
    let sizes = list("-s", &common.size, &[65_536])?;
    check_packets(&sizes)?;
    Ok(Suite::Ttcp { connections, sizes })
}

pub(super) fn roundtrip(common: &BenchFlags, pause: Duration) -> Result<Suite, ValueError> {
    if !common.size.is_empty() {
        return Err(ValueError::new(
            "-s has no meaning for roundtrip, whose messages are two times",
        ));
    }
    if common.peers {
        return Err(ValueError::new("--peers: no peer tells its time; drop it"));
    }
    Ok(Suite::Roundtrip { connections: list("-c", &common.connections, &[1])?, pause })
}

fn check_packets(sizes: &[u32]) -> Result<(), ValueError> {
    match sizes.iter().find(|&&size| (size as usize) < PACKET_BYTES_MIN) {
        Some(size) => Err(ValueError::new(format!(
            "-s {size} is too small for a packet: length, sequence and connection take {PACKET_BYTES_MIN} bytes"
        ))),
        None => Ok(()),
    }
}

fn check_batches(sizes: &[u32], modes: &[SendMode]) -> Result<(), ValueError> {
    for mode in modes {
        let SendMode::Batch(packets) = *mode else {
            continue;
        };
        let too_large =
            |&&size: &&u32| u64::from(size) * u64::from(packets) > limits::BATCH_BYTES_MAX;
        if let Some(size) = sizes.iter().find(too_large) {
            return Err(ValueError::new(format!(
                "--batch {packets} of -s {size} bytes is more than {} MiB in one write; lower one of them",
                limits::BATCH_BYTES_MAX >> 20
            )));
        }
    }
    Ok(())
}

/// 64 KiB of 32-byte packets: larger writes no longer save calls that can be noticed.
const BATCH_PACKETS: u32 = 2048;

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;

    #[test]
    fn positions_mean_threads_size_sessions_and_time() {
        let by_position = config("bench pingpong 2 16384 100 10");
        let by_flag = config("bench pingpong -i 2 -s 16384 -c 100 -d 10");
        assert_eq!(by_position, by_flag);
        assert_eq!(by_flag.placement.client.as_slice(), [2, 3]);
    }

    #[test]
    fn modes_of_receive() {
        let modes = |words: &str| match config(words).suites.remove(0) {
            Suite::Receive { modes, .. } => modes,
            other => panic!("{other:?}"),
        };
        assert_eq!(modes("bench receive"), [SendMode::Batch(2048), SendMode::PerPacket]);
        assert_eq!(modes("bench receive --batch"), [SendMode::Batch(2048)]);
        assert_eq!(modes("bench receive --batch 64 -c 4"), [SendMode::Batch(64)]);
        assert_eq!(modes("bench receive --per-packet"), [SendMode::PerPacket]);
    }

    #[test]
    fn ttcp_takes_the_letter_of_the_original() {
        let suite = Suite::Ttcp { connections: vec![1], sizes: vec![65_536] };
        assert_eq!(config("bench ttcp").suites, [suite]);
        assert_eq!(config("bench ttcp -l 1024"), config("bench ttcp -s 1024"));
        for words in ["bench ttcp -s 15", "bench ttcp -l 32 -s 32"] {
            crate::args::tests::parse_words(words).expect_err(words);
        }
    }

    #[test]
    fn round_trips_may_pause() {
        let suite =
            |ms| Suite::Roundtrip { connections: vec![1], pause: Duration::from_millis(ms) };
        assert_eq!(config("bench roundtrip").suites, [suite(0)]);
        assert_eq!(config("bench roundtrip --pause 200ms").suites, [suite(200)]);
        for words in ["--pause 3s", "-s 16", "--peers"] {
            crate::args::tests::parse_words(&format!("bench roundtrip {words}")).expect_err(words);
        }
    }

    #[test]
    fn originals_names_of_flags_are_understood() {
        let config = config("bench receive --concurrency 4 --packet-size 64");
        let modes = vec![SendMode::Batch(2048), SendMode::PerPacket];
        let suite = Suite::Receive { connections: vec![4], sizes: vec![64], modes };
        assert_eq!(config.suites, [suite]);
    }
}
