//! The call suite: a method of the user's.

use super::flags::{BenchCallFlags, BenchFlags};
use super::list::list;
use super::rpc::{closed, ladder};
use super::suite::{CallJob, Suite};
use crate::args::call::{resolve_access, with_service};
use crate::args::values::ValueError;

/// The address stands where `call` has it, so the target is known here.
pub(super) fn resolve(common: &mut BenchFlags, flags: BenchCallFlags) -> Result<Suite, ValueError> {
    let BenchCallFlags { uri, method, message, expect, depth, rate, binary, access } = flags;
    if common.addr.is_some() {
        return Err(ValueError::new("--addr is what call has as its URI; drop --addr"));
    }
    if !common.size.is_empty() {
        return Err(ValueError::new("-s has no meaning for call, whose message has its size"));
    }
    if common.server_cores.is_some() {
        return Err(ValueError::new("--server-cores: call does not start the server; drop it"));
    }
    if uri.scheme().is_json_rpc() {
        let why = "its methods are not described; `bench jsonrpc` measures ringway.bench.Echo";
        return Err(ValueError::new(format!("{uri}: {why}")));
    }
    common.addr = Some(uri.clone());
    let method = with_service(method, &uri)?;
    let paces = match rate.is_empty() {
        true => closed(&list("-p", &depth, &[1])?),
        false => ladder(&rate, 0)?,
    };
    Ok(Suite::Call {
        connections: list("-c", &common.connections, &[100])?,
        paces,
        job: CallJob {
            access: resolve_access(uri, access)?,
            method,
            message,
            expect,
            is_binary: binary,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;
    use crate::args::{BenchConfig, Config, Pace, Target};

    #[test]
    fn a_call_has_its_own_address() {
        let config = config("bench call tls://a:1 m.M/Go {} -c 2 -p 1,8 -H x=1 --expect {} -d 1");
        let Suite::Call { connections, paces, job } = &config.suites[0] else {
            panic!("{config:?}");
        };
        assert_eq!(connections, &[2]);
        assert_eq!(paces, &closed(&[1, 8]));
        assert_eq!(
            (&*job.method, &*job.message, job.expect.as_deref()),
            ("m.M/Go", "{}", Some("{}"))
        );
        assert_eq!(job.access.metadata, [("x".to_owned(), "1".to_owned())]);
        assert_eq!(config.target, Target::Running("tls://a:1".parse().expect("an address")));
        let open = crate::args::tests::parse_words("bench call tcp://a:1 m.M/Go --rate 5");
        let Ok(Config::Bench(BenchConfig { suites, .. })) = open else { panic!("{open:?}") };
        let Suite::Call { paces, .. } = &suites[0] else { panic!("{suites:?}") };
        assert_eq!(paces, &[Pace::Open { rate: 5, slow_percent: 0 }]);
    }
}
