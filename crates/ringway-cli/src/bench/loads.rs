//! Which client of ours does the work of a setting.

use std::error::Error;
use std::sync::Arc;

use super::due_calls::OpenLoad;
use super::engine::{self, Ran};
use super::plan::{Setting, Workload};
use super::server::Server;
use super::{
    Bench, calls, due_calls, idle, mongo, pingpong, receive, registry, roundtrip, streams, ttcp,
    user_calls,
};
use crate::args::{Pace, RpcLoad, StreamLoad};
use crate::payload::Run;

impl Bench<'_> {
    /// Runs our client of a workload against `server`.
    pub(super) fn put_load_on(
        &mut self,
        server: Server,
        setting: &Setting,
    ) -> Result<Ran, Box<dyn Error>> {
        let (config, size) = (self.config, setting.size as usize);
        let series = self.pattern.of_run(Run::fresh());
        let (progress, connections) = (&mut self.progress, setting.connections);
        match setting.workload {
            Workload::PingPong => engine::run(config, connections, server, progress, move |part| {
                pingpong::play(part, series, size)
            }),
            Workload::Idle => {
                let ran = engine::run(config, connections, server, progress, move |part| {
                    idle::run(part, series, size)
                })?;
                Ok(ran.with_memory_of(connections))
            }
            Workload::Receive(mode) => {
                engine::run(config, connections, server, progress, move |part| {
                    receive::send(part, size, mode)
                })
            }
            Workload::Ttcp => engine::run(config, connections, server, progress, move |part| {
                ttcp::run(part, size)
            }),
            Workload::Roundtrip { pause } => {
                engine::run(config, connections, server, progress, move |part| {
                    roundtrip::run(part, pause)
                })
            }
            Workload::Rpc(RpcLoad { mode, pace: Pace::Closed { depth } }) => {
                engine::run(config, connections, server, progress, move |part| {
                    calls::run(part, series, size, mode, depth)
                })
            }
            Workload::Rpc(RpcLoad { mode, pace: Pace::Open { rate, slow_percent } }) => {
                engine::run(config, connections, server, progress, move |part| {
                    due_calls::run(part, series, size, mode, OpenLoad { rate, slow_percent })
                })
            }
            Workload::Stream(StreamLoad::Echo { frames, window }) => {
                engine::run(config, connections, server, progress, move |part| {
                    streams::echo(part, series, size, frames, window)
                })
            }
            Workload::Stream(StreamLoad::OneWay) => {
                engine::run(config, connections, server, progress, move |part| {
                    streams::one_way(part, series, size)
                })
            }
            Workload::Registry(load) => {
                engine::run(config, connections, server, progress, move |part| {
                    registry::run(part, load, size)
                })
            }
            Workload::Mongo(load) => {
                let job =
                    mongo::job(self.config).cloned().ok_or("a MongoDB row without its suite")?;
                let shared = Arc::<mongo::Shared>::default();
                let of_run = Arc::clone(&shared);
                let mut ran = engine::run(config, connections, server, progress, move |part| {
                    mongo::run(part, load, job.clone(), Arc::clone(&of_run))
                })?;
                let cores = config.placement.server.as_slice().len();
                mongo::judge(&mut ran.outcome, &shared, &ran.server, cores);
                Ok(ran)
            }
            Workload::Call(pace) => {
                let call = self.user_call.clone().ok_or("a call without a method")?;
                engine::run(config, connections, server, progress, move |part| {
                    user_calls::run(part, Arc::clone(&call), pace)
                })
            }
        }
    }
}
