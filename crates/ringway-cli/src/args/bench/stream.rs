//! The stream suite.

use super::flags::{BenchFlags, StreamFlags};
use super::list::list;
use super::rpc::protocols;
use super::suite::{StreamLoad, Suite};
use crate::args::choices::Protocol;
use crate::args::values::ValueError;

pub(super) fn resolve(common: &BenchFlags, flags: StreamFlags) -> Result<Suite, ValueError> {
    let frames = list("-f", &flags.frames, &[FRAMES])?;
    let windows = list("-w", &flags.window, &[1])?;
    if flags.spoken.protocol.contains(&Protocol::Jsonrpc) {
        return Err(ValueError::new("JSON-RPC carries no stream of requests; use `bench jsonrpc`"));
    }
    let mut loads = Vec::new();
    for &frames in &frames {
        for &window in &windows {
            if window > frames {
                return Err(ValueError::new(format!(
                    "-w {window} is more than the {frames} frames of a stream; raise -f"
                )));
            }
            loads.push(StreamLoad::Echo { frames, window });
        }
    }
    Ok(Suite::Stream {
        connections: list("-c", &common.connections, &[if flags.one_way { 1 } else { 100 }])?,
        sizes: list("-s", &common.size, &[128])?,
        loads: if flags.one_way { vec![StreamLoad::OneWay] } else { loads },
        protocols: protocols(flags.spoken.protocol),
    })
}

/// Frames of a stream, as in the report that the suite comes from.
pub(super) const FRAMES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;

    #[test]
    fn streams_have_frames_and_windows() {
        let loads = |words: &str| match config(words).suites.remove(0) {
            Suite::Stream { loads, .. } => loads,
            other => panic!("{other:?}"),
        };
        let echo = |frames, window| StreamLoad::Echo { frames, window };
        assert_eq!(loads("bench stream -w 1,8"), [echo(16, 1), echo(16, 8)]);
        assert_eq!(loads("bench stream -f 4 -w 2"), [echo(4, 2)]);
        assert_eq!(loads("bench stream --one-way"), [StreamLoad::OneWay]);
    }
}
