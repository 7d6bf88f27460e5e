//! How often calls are executed while everything happens to their servers that can: whatever a caller
//! is told must be so when all is over.
//!
//! `RINGWAY_CALLS=1000000 cargo test --release -p ringway-rpc --lib simulated::executed` makes more, from
//! `RINGWAY_SEED` on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::sim::{Faults, SimConfig};
use ringway_runtime::{Builder, sleep, spawn, timeout, yield_now};

use super::relay::Relay;
use super::{SimServer, if_native, number};
use crate::call::codec::Codec;
use crate::call::context::Context;
use crate::call::method::{Kind, Method};
use crate::call::status::{Code, Status};
use crate::client::Client;
use crate::policy::balance::Policy;
use crate::server::settings::Settings;
use crate::service::{Methods, Service, ServiceDescriptor};

const MS: Duration = Duration::from_millis(1);
/// Virtual time in which whatever is waited for has happened.
const LIMIT: Duration = Duration::from_secs(36_000);
/// Calls in one simulation.
const CALLS_EACH: u64 = 1_000;
const CALLERS: u64 = 25;
/// One call may have so many attempts: three, one that is placed anew, and one beside them.
const EXECUTIONS_MAX: u32 = 5;

static METHODS: [Method; 2] = [
    Method::new("ledger.Ledger/Order", Kind::Unary),
    Method::new("ledger.Ledger/Quote", Kind::Unary).idempotent(),
];
static DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor { name: "ledger.Ledger", methods: &METHODS, file_descriptor_set: None };

thread_local! {
    /// How often each call was executed.
    static EXECUTED: RefCell<BTreeMap<u64, u32>> = const { RefCell::new(BTreeMap::new()) };
}

fn executed(call: u64) -> u32 {
    EXECUTED.with_borrow(|executed| executed.get(&call).copied().unwrap_or(0))
}

/// Writes down what it was asked for.
struct Ledger;

impl Service for Ledger {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        for method in &METHODS {
            methods.unary(
                method,
                Codec::raw(),
                Codec::raw(),
                async |_: Context, request: Bytes| {
                    let call = request.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                    let call = call.expect("every request has a number");
                    EXECUTED.with_borrow_mut(|executed| *executed.entry(call).or_default() += 1);
                    match fastrand::u8(..20) {
                        0..=4 => yield_now().await,
                        5..=9 => sleep(MS * fastrand::u32(..20)).await,
                        10 => return Err(Status::unavailable("after it was executed")),
                        11 => return Err(Status::not_found("after it was executed")),
                        _ => {}
                    }
                    Ok(request)
                },
            );
        }
    }
}

/// What a caller was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Done,
    NotExecuted,
    Failed(Code),
    /// It has given the call up.
    Nothing,
}

struct Entry {
    call: u64,
    is_idempotent: bool,
    told: Told,
}

/// What has happened in all simulations.
#[derive(Default, Debug)]
struct Sum {
    calls: u64,
    done: u64,
    not_executed: u64,
    failed: u64,
    given_up: u64,
    /// Executed more than once, all of them idempotent.
    repeated: u64,
    /// Executed, and the caller was told of a failure.
    lost: u64,
}

#[test]
fn callers_are_told_what_has_happened() {
    let (from, calls) = (number("RINGWAY_SEED", 1), number("RINGWAY_CALLS", 4_000));
    println!("RINGWAY_SEED={from} RINGWAY_CALLS={calls}");
    let mut sum = Sum::default();
    for seed in from..from + calls.div_ceil(CALLS_EACH) {
        for entry in simulate(seed) {
            check(seed, &entry);
            sum.count(&entry);
        }
        EXECUTED.with_borrow_mut(BTreeMap::clear);
    }
    println!("{sum:?}");
    let Sum { done, not_executed, failed, given_up, repeated, lost, .. } = sum;
    let seen = [done, not_executed, failed, given_up, repeated, lost];
    assert!(!seen.contains(&0), "each of these happens: {sum:?}");
}

fn check(seed: u64, entry: &Entry) {
    let Entry { call, is_idempotent, told } = *entry;
    let times = executed(call);
    let again = format!("RINGWAY_SEED={seed} RINGWAY_CALLS={CALLS_EACH}: call {call}, {told:?}");
    let most = if is_idempotent { EXECUTIONS_MAX } else { 1 };
    assert!(times <= most, "{again}, was executed {times} times");
    match told {
        Told::Done => assert!(times > 0, "{again}, was never executed"),
        Told::NotExecuted => assert_eq!(times, 0, "{again}"),
        Told::Failed(_) | Told::Nothing => {}
    }
}

impl Sum {
    fn count(&mut self, entry: &Entry) {
        let times = executed(entry.call);
        self.calls += 1;
        self.repeated += u64::from(times > 1);
        self.lost += u64::from(times > 0 && matches!(entry.told, Told::Failed(_)));
        *match entry.told {
            Told::Done => &mut self.done,
            Told::NotExecuted => &mut self.not_executed,
            Told::Failed(_) => &mut self.failed,
            Told::Nothing => &mut self.given_up,
        } += 1;
    }
}

fn simulate(seed: u64) -> Vec<Entry> {
    fastrand::seed(seed);
    let resets = [0, 0, 200][fastrand::usize(..3)];
    let lossy_resets = 500;
    let faults = [Faults::none(), Faults::harsh()][fastrand::usize(..2)];
    let faults = Faults { resets, lossy_resets, ..faults };
    let config = SimConfig { faults, ..SimConfig::new(seed) };
    let ended = Builder::simulate(config, async { timeout(LIMIT, run()).await });
    let ended = ended.unwrap_or_else(|error| panic!("RINGWAY_SEED={seed}: {error}"));
    ended.unwrap_or_else(|_| panic!("RINGWAY_SEED={seed}: it hangs"))
}

async fn run() -> Vec<Entry> {
    let hosts: Vec<_> = (0..fastrand::usize(1..4)).map(|_| Relay::start(None)).collect();
    let mut builder = Client::builder().connections_max(fastrand::usize(1..4));
    let scheme = ["tcp", "grpc"][fastrand::usize(..2)];
    for host in &hosts {
        builder = builder.address(&*format!("{scheme}://{}", host.address));
    }
    let policies = [Policy::RoundRobin, Policy::default()];
    let client = builder.balance(policies[fastrand::usize(..2)]).build().expect("addresses");
    let entries = Rc::<RefCell<Vec<Entry>>>::default();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| spawn(make_calls(caller, client.clone(), Rc::clone(&entries))))
        .collect();
    let over = Rc::new(Cell::new(false));
    let trouble = spawn(make_trouble(hosts, Rc::clone(&over)));
    for caller in callers {
        caller.await.expect("no panic");
    }
    over.set(true);
    trouble.await.expect("no panic");
    // What was still under way arrives, and is executed or not.
    sleep(Duration::from_secs(60)).await;
    entries.take()
}

fn server() -> Rc<SimServer> {
    let drain_timeout = MS * fastrand::u32(1..100);
    let adaptive = fastrand::bool();
    SimServer::new(Settings { drain_timeout, adaptive, ..Settings::default() }, Ledger)
}

async fn make_calls(caller: u64, client: Client, entries: Rc<RefCell<Vec<Entry>>>) {
    let raw = Codec::<Bytes>::raw();
    for turn in 0..CALLS_EACH / CALLERS {
        let call = turn * CALLERS + caller;
        let request = Bytes::copy_from_slice(&call.to_le_bytes());
        let is_idempotent = fastrand::bool();
        let made = client.unary(&METHODS[usize::from(is_idempotent)], raw, raw, request);
        let made = made.wait_for_ready(fastrand::bool());
        let made = if is_idempotent && fastrand::bool() { made.hedge() } else { made };
        let made = match fastrand::u8(..4) {
            0 => made.timeout(MS * fastrand::u32(1..40)),
            _ => made.timeout(Duration::from_secs(5)),
        };
        let patience = match fastrand::u8(..10) {
            0 => MS * fastrand::u32(..30),
            _ => Duration::from_secs(60),
        };
        let told = match timeout(patience, made).await {
            Err(_) => Told::Nothing,
            Ok(Ok(_)) => Told::Done,
            Ok(Err(status)) if status.is_not_executed() => Told::NotExecuted,
            Ok(Err(status)) => Told::Failed(status.code()),
        };
        entries.borrow_mut().push(Entry { call, is_idempotent, told });
        if fastrand::u8(..8) == 0 {
            sleep(MS * fastrand::u32(..10)).await;
        }
    }
}

/// Servers are killed, drained and replaced, connections cut, leases lowered.
async fn make_trouble(hosts: Vec<Rc<Relay>>, over: Rc<Cell<bool>>) {
    let mut servers: Vec<_> = hosts.iter().map(|_| server()).collect();
    for (host, server) in hosts.iter().zip(&servers) {
        host.serve_by(Some(Rc::clone(server)));
    }
    while !over.get() {
        sleep(MS * fastrand::u32(..30)).await;
        let at = fastrand::usize(..hosts.len());
        let host = &hosts[at];
        match fastrand::u8(..8) {
            0 => {
                host.kill();
                sleep(MS * fastrand::u32(..200)).await;
                servers[at] = server();
                host.serve_by(Some(Rc::clone(&servers[at])));
            }
            1 => {
                let drains = std::mem::replace(&mut servers[at], server());
                host.serve_by(Some(Rc::clone(&servers[at])));
                if let Some(core) = drains.core() {
                    core.drain();
                }
            }
            2..=4 => host.cut(fastrand::usize(..)),
            _ => {
                let core = servers[at].core();
                let all = core.iter().flat_map(|core| core.connections().all());
                for connection in all.filter_map(if_native) {
                    connection.machine().lease([0, 1, 3, 1_000][fastrand::usize(..4)]);
                    connection.wake();
                }
            }
        }
    }
}
