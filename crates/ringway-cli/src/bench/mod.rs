//! `ringway bench`: runs suites and collects their rows.

mod batches;
mod calls;
mod codec;
mod connect;
mod contender;
mod descriptors;
mod dial;
mod disk;
mod due_calls;
mod engine;
mod event;
mod idle;
mod ladder;
mod loads;
mod local;
mod mongo;
mod open_loop;
mod outcome;
mod phase;
mod pingpong;
mod plan;
mod programs;
mod publish;
mod receive;
mod registry;
mod rivals;
mod roundtrip;
mod rows;
mod score;
mod server;
mod streams;
mod timeline;
mod ttcp;
mod user_calls;
mod warnings;

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::args::{
    BenchConfig, Cores, MongoSend, Pace, RpcLoad, Scheme, Service, StreamLoad, Suite, Target,
};
use crate::environment::Environment;
use crate::payload::Pattern;
use crate::process::PeerJob;
use crate::progress::Progress;
use crate::report::{Printer, Report, Screen};
use contender::{Client, Contender, Program};
use ladder::Ladders;
use outcome::Outcome;
use plan::{Setting, Workload};
use programs::Programs;
use server::Server;
use user_calls::UserCall;

pub(crate) use descriptors::raise_limit;

/// Runs every suite of `config` on a process that may use the cores `allowed`, prints the report to `out`, and
/// tells whether it is without an error.
///
/// # Errors
/// A server that does not start or ends early, a core that is refused, too few descriptors. The rows measured
/// before are printed. Failed operations are no errors here: the rows count them.
pub(crate) fn run(
    config: &BenchConfig,
    allowed: &Cores,
    out: &mut dyn Write,
) -> Result<bool, Box<dyn Error>> {
    if config.suites == [Suite::Codec] {
        return codec::run(config, allowed, out);
    }
    if let [Suite::Event(loads)] = &config.suites[..] {
        return event::run(config, allowed, loads, out);
    }
    if let [Suite::Local { workers, cores }] = &config.suites[..] {
        return local::run(config, allowed, *workers, cores, out);
    }
    if matches!(&config.target, Target::Running(uri) if uri.scheme() == Scheme::Source) {
        ringway_discovery::install();
    }
    let mut settings = plan::settings(config);
    let programs = Programs::prepare(&mut settings)?;
    let user_call = match &config.suites[..] {
        [Suite::Call { job, .. }] => Some(UserCall::prepare(job)?),
        _ => None,
    };
    if let Some(call) = &user_call {
        settings.iter_mut().for_each(|setting| setting.size = call.request_len());
    }
    let mut bench = Bench::prepare(config, allowed, &settings, user_call, programs)?;
    let mut printer = Printer::new(config.format, Screen::of_stdout(config.is_wide), out);
    let mut rows = Vec::new();
    let mut failure = None;
    let mut ladders = Ladders::default();
    for setting in &settings {
        if ladders.is_above_the_bend(setting) {
            let runs = setting.contenders.len() * config.length.repeat as usize;
            bench.progress.skip(runs);
            continue;
        }
        match bench.run(setting) {
            Ok(runs) => {
                let measured = rows::rows(setting, &runs);
                ladders.note(setting, &measured);
                bench.progress.suspend(|| printer.add(&measured))?;
                rows.extend(measured);
            }
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    match failure {
        None => bench.progress.finish(),
        Some(_) => bench.progress.give_up(),
    }
    let why = failure.as_ref().map(ToString::to_string);
    let left_out = bench.programs.left_out().to_vec();
    let report = Report { environment: bench.environment, rows, left_out, failure: why };
    if !report.rows.is_empty() {
        printer.finish(&report)?;
    }
    publish::write_files(config, &report)?;
    failure.map_or(Ok(report.is_clean()), Err)
}

/// Settings of all runs.
struct Bench<'a> {
    config: &'a BenchConfig,
    programs: Programs,
    /// The method and requests of the call suite.
    user_call: Option<Arc<UserCall>>,
    pattern: Pattern,
    environment: Environment,
    progress: Progress,
}

impl<'a> Bench<'a> {
    fn prepare(
        config: &'a BenchConfig,
        allowed: &Cores,
        settings: &[Setting],
        user_call: Option<Arc<UserCall>>,
        programs: Programs,
    ) -> Result<Self, Box<dyn Error>> {
        let most = settings.iter().map(Setting::sockets).max().unwrap_or(0);
        descriptors::ensure(most)?;
        let message_bytes = settings.iter().map(|setting| setting.size as usize).max().unwrap_or(0);
        let runs: usize = settings.iter().map(|setting| setting.contenders.len()).sum();
        Ok(Self {
            config,
            programs,
            user_call,
            pattern: Pattern::new(message_bytes),
            environment: Environment::read(
                allowed,
                &config.placement.client,
                matches!(config.target, Target::Own(_)).then_some(&config.placement.server),
            ),
            progress: Progress::on_stderr(
                runs * config.length.repeat as usize,
                config.length.warmup + config.length.measured + RUN_OVERHEAD,
            ),
        })
    }

    /// All runs of a setting: every contender once, then every contender again.
    fn run(&mut self, setting: &Setting) -> Result<Vec<Vec<Outcome>>, Box<dyn Error>> {
        let mut runs = vec![Vec::new(); setting.contenders.len()];
        for repeat in 1..=self.config.length.repeat {
            for (contender, runs) in setting.contenders.iter().zip(&mut runs) {
                self.progress.begin(&setting.describe(contender, repeat));
                runs.push(self.run_once(setting, contender)?);
            }
        }
        Ok(runs)
    }

    fn run_once(
        &mut self,
        setting: &Setting,
        contender: &Contender,
    ) -> Result<Outcome, Box<dyn Error>> {
        if contender.client == Client::Fsync {
            return Ok(disk::run(&self.config.length, setting.size as usize)?);
        }
        let server = self.start_server(setting, &contender.server)?;
        match contender.client {
            Client::Fsync => unreachable!("it has no server"),
            Client::Ringway => self.run_own_client(setting, contender, server),
            Client::RingwayGrpc => self.run_own_client(setting, contender, server.over_grpc()),
            Client::RingwayJson => {
                self.run_own_client(setting, contender, server.over_json_rpc(setting.transport))
            }
            Client::Epoll => self.run_peer_client(setting, PeerJob::PingPong, server),
            Client::H2load => self.run_h2load(setting, server),
            Client::Peer(name) => {
                let job = match setting.workload {
                    Workload::Rpc(RpcLoad { mode, pace: Pace::Closed { depth } }) => {
                        PeerJob::Rpc { peer: name, mode, depth }
                    }
                    Workload::Stream(StreamLoad::Echo { frames, window }) => {
                        PeerJob::Stream { peer: name, frames, window }
                    }
                    Workload::Stream(StreamLoad::OneWay) => PeerJob::Flood { peer: name },
                    Workload::Mongo(load) => PeerJob::Mongo {
                        op: load.op,
                        is_sync: load.send == MongoSend::Threads,
                        fills: mongo::job(self.config).is_some_and(|job| job.uri.is_some()),
                    },
                    _ => return Err(format!("{name} has no client for this").into()),
                };
                let mut outcome = self.run_peer_client(setting, job, server)?;
                if matches!(setting.workload, Workload::Mongo(_)) {
                    let cores = self.config.placement.server.as_slice().len();
                    outcome.warnings.extend(mongo::check_busy(&outcome, cores));
                }
                Ok(outcome)
            }
        }
    }

    fn start_server(&self, setting: &Setting, program: &Program) -> Result<Server, Box<dyn Error>> {
        let service = match setting.workload {
            Workload::PingPong | Workload::Idle => Service::Echo,
            Workload::Receive(_) => Service::DiscardFramed { acknowledges: false },
            Workload::Ttcp => Service::DiscardFramed { acknowledges: true },
            Workload::Roundtrip { .. } => Service::Clock,
            Workload::Rpc(_) | Workload::Stream(_) | Workload::Call(_) => Service::Rpc,
            Workload::Registry(_) => Service::Registry,
            Workload::Mongo(_) => {
                let delay = mongo::job(self.config).map(|job| job.delay).unwrap_or_default();
                Service::MongoResponder { delay }
            }
        };
        match program {
            Program::Ringway => Server::own(self.config, service, setting.transport),
            Program::Running(uri) => Ok(Server::running(uri)),
            Program::Disk => Err("the disk has no server".into()),
            Program::Peer("etcd") => Server::etcd(&self.config.placement.server),
            Program::Peer(kind) => {
                let peers = self.programs.of_kind(kind)?;
                Server::peer(peers, kind, setting.transport, &self.config.placement)
            }
        }
    }

    fn run_own_client(
        &mut self,
        setting: &Setting,
        contender: &Contender,
        server: Server,
    ) -> Result<Outcome, Box<dyn Error>> {
        let engine::Ran { mut outcome, server, counters, .. } =
            self.put_load_on(server, setting)?;
        let warnings = warnings::of(setting, contender, &outcome);
        outcome.warnings.extend(warnings);
        if contender.server == Program::Ringway {
            self.environment.server.learn(&server.counters().clone().into());
        }
        self.environment.client.learn(&counters.into());
        server.stop()?;
        Ok(outcome)
    }
}

/// Starting and stopping a server and connecting, beside what a run is planned to take.
const RUN_OVERHEAD: Duration = Duration::from_millis(150);
