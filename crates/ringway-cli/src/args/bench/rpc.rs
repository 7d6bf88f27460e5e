//! The suites of calls: rpc, grpc and jsonrpc.

use super::flags::{BenchFlags, RpcFlags};
use super::list::list;
use super::suite::{Pace, RpcLoad, Suite};
use crate::args::choices::{Protocol, RpcMode};
use crate::args::values::ValueError;
use crate::limits;

/// The native protocol by default.
pub(super) fn protocols(named: Vec<Protocol>) -> Vec<Protocol> {
    if named.is_empty() { vec![Protocol::Native] } else { named }
}

pub(super) fn resolve(
    common: &BenchFlags,
    flags: &RpcFlags,
    protocols: Vec<Protocol>,
) -> Result<Suite, ValueError> {
    if !flags.rate.is_empty() && !flags.depth.is_empty() {
        return Err(ValueError::new(
            "--rate begins calls when they are due, so -l has no meaning beside it; drop one",
        ));
    }
    let paces = match flags.rate.is_empty() {
        true => closed(&list("-l", &flags.depth, &[1])?),
        false => ladder(&flags.rate, flags.slow.unwrap_or(0))?,
    };
    let modes = if flags.mode.is_empty() { &[RpcMode::Unary][..] } else { &flags.mode };
    if flags.slow.is_some() && modes != [RpcMode::Unary] {
        return Err(ValueError::new("--slow is for unary calls; drop -m"));
    }
    let is_stream_of_requests =
        |mode: &RpcMode| matches!(mode, RpcMode::ClientStream | RpcMode::Bidi);
    if protocols.contains(&Protocol::Jsonrpc) && modes.iter().any(is_stream_of_requests) {
        return Err(ValueError::new(
            "JSON-RPC carries no stream of requests; use -m unary,server_stream",
        ));
    }
    let pairs = modes.iter().flat_map(|&mode| paces.iter().map(move |&pace| (mode, pace)));
    Ok(Suite::Rpc {
        connections: list("-c", &common.connections, &[100])?,
        sizes: list("-s", &common.size, &[256])?,
        loads: pairs.map(|(mode, pace)| RpcLoad { mode, pace }).collect(),
        protocols,
    })
}

/// Makes one open loop for each rate.
pub(super) fn ladder(rates: &[u64], slow_percent: u32) -> Result<Vec<Pace>, ValueError> {
    if rates.len() > limits::LIST_VALUES_MAX {
        let most = limits::LIST_VALUES_MAX;
        let text = format!("--rate lists {} values; {most} is the most", rates.len());
        return Err(ValueError::new(text));
    }
    if !rates.is_sorted_by(|low, high| low < high) {
        return Err(ValueError::new("--rate lists its rates in rising order, each once"));
    }
    Ok(rates.iter().map(|&rate| Pace::Open { rate, slow_percent }).collect())
}

pub(super) fn closed(depths: &[u32]) -> Vec<Pace> {
    depths.iter().map(|&depth| Pace::Closed { depth }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;

    #[test]
    fn calls_take_the_letters_of_the_original() {
        let config = config("bench rpc -c 200 -s 47 -l 1,4 -m unary,client_stream");
        let load = |mode, depth| RpcLoad { mode, pace: Pace::Closed { depth } };
        let expected = Suite::Rpc {
            connections: vec![200],
            sizes: vec![47],
            loads: vec![
                load(RpcMode::Unary, 1),
                load(RpcMode::Unary, 4),
                load(RpcMode::ClientStream, 1),
                load(RpcMode::ClientStream, 4),
            ],
            protocols: vec![Protocol::Native],
        };
        assert_eq!(config.suites, [expected]);
    }

    #[test]
    fn an_open_loop_has_a_rate_in_place_of_a_depth() {
        let Suite::Rpc { loads, .. } = &config("bench rpc --rate 5000 --slow 1").suites[0] else {
            panic!("the rpc suite");
        };
        assert_eq!(loads[0].pace, Pace::Open { rate: 5000, slow_percent: 1 });
    }

    #[test]
    fn calls_and_streams_have_protocols() {
        assert_eq!(config("bench grpc -c 2"), config("bench rpc --protocol grpc -c 2"));
        let protocols = |words: &str| config(words).suites[0].protocols().to_vec();
        let both = [Protocol::Native, Protocol::Grpc];
        assert_eq!(protocols("bench rpc --protocol native,grpc"), both);
        assert_eq!(protocols("bench stream --protocol native,grpc"), both);
        assert_eq!(protocols("bench stream"), [Protocol::Native]);
    }
}
