//! What the console shows and what changes: methods, connections, cores and slow calls.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::{CoreHandle, RemoteHandle, now, timeout};
use serde_json::{Value, json};

use super::table::ConsoleTable;
use crate::limits;
use crate::metrics::{MethodSnapshot, Side};
use crate::server::core::ServerCore;
use crate::server::shared::ServerShared;
use crate::server::shown_connection::millis;
use crate::server::slow_calls::SlowCall;

/// Gathers the data. Cores that do not answer at once are shown by their counters alone.
pub(super) async fn of(core: &Rc<ServerCore>) -> Value {
    let shared = core.shared();
    let cores = ask_cores(shared, of_core).await;
    let all: Vec<_> = cores.iter().map(|(handle, own)| with_counters(handle, own)).collect();
    let methods = shared.metrics.snapshot().methods;
    let served = methods.iter().filter(|method| method.side == Side::Server);
    let stats = shared.stats();
    json!({
        "uptime_ms": millis(shared.uptime()),
        "draining": core.draining().is_some(),
        "methods": served.map(method).collect::<Vec<_>>(),
        "cores": all,
        "tables": shared.side_doors().tables.iter().map(ConsoleTable::describe).collect::<Vec<_>>(),
        "stats": {
            "in_flight": stats.in_flight,
            "refused": stats.refused,
            "shed": stats.shed,
            "expired": stats.expired,
            "cancelled": stats.cancelled,
            "malformed": stats.malformed,
            "panicked": stats.panicked,
            "violations": stats.violations,
            "exhausted": stats.exhausted,
        },
    })
}

/// Asks each core. `None` stands for the answer of one that does not give it at once.
pub(super) async fn ask_cores(
    shared: &ServerShared,
    ask: fn(&Rc<ServerCore>) -> Value,
) -> Vec<(CoreHandle, Option<Value>)> {
    let id = shared.id;
    let asked: Vec<_> = shared
        .cores()
        .into_iter()
        .map(|handle| {
            let answer = handle.spawn(async move || ServerCore::here(id).map(|core| ask(&core)));
            (handle, answer.ok())
        })
        .collect();
    let until = now() + limits::CONSOLE_CORE_TIMEOUT;
    let mut all = Vec::new();
    for (handle, answer) in asked {
        let left = until.saturating_duration_since(now());
        all.push((handle, answered(answer, left).await));
    }
    all
}

async fn answered(answer: Option<RemoteHandle<Option<Value>>>, left: Duration) -> Option<Value> {
    timeout(left, answer?).await.ok()?.ok()?
}

fn method(method: &MethodSnapshot) -> Value {
    let latency: Vec<_> =
        method.total.filled().map(|(upper_ns, count)| json!([upper_ns, count])).collect();
    json!({
        "name": method.method,
        "started": method.started,
        "ended": method.ended(),
        "errors": method.errors(),
        "in_flight": method.in_flight(),
        "shed": method.shed,
        "expired": method.expired,
        "messages": method.messages_in + method.messages_out,
        "bytes_in": method.bytes_in,
        "bytes_out": method.bytes_out,
        "latency": latency,
    })
}

/// A core by its counters, with its own answer.
pub(super) fn with_counters(handle: &CoreHandle, own: &Option<Value>) -> Value {
    let counters = handle.counters();
    let stall = handle.latest_stall().map(|stall| {
        json!({
            "task": stall.task,
            "ago_ms": millis(now().saturating_duration_since(stall.since)),
            "held_ms": millis(stall.held_for),
            "is_over": stall.is_over,
        })
    });
    json!({
        "id": handle.id(),
        "backend": handle.backend(),
        "task": handle.current_task().filter(|_| own.is_none()),
        "turns": counters.turns,
        "syscalls": counters.syscalls,
        "polls": counters.polls,
        "bytes_received": counters.bytes_received,
        "bytes_sent": counters.bytes_sent,
        "spin_hits": counters.spin_hits,
        "spin_misses": counters.spin_misses,
        "sleeps": counters.sleeps,
        "stalls": counters.stalls,
        "starved": counters.starved,
        "held_bytes": counters.held_bytes,
        "stall": stall,
        "own": own,
    })
}

/// What only the core itself can tell.
fn of_core(core: &Rc<ServerCore>) -> Value {
    core.slow_calls().watch();
    let (connections, own_count) = busiest(core);
    let slowest = core.slow_calls().slowest();
    json!({
        "cpu_ms": cpu_time().map(millis),
        "connection_count": core.connections().client_count().saturating_sub(own_count),
        "connections": connections,
        "slow": slowest.iter().map(|call| slow_call(call, core.now())).collect::<Vec<_>>(),
    })
}

/// The busiest connections, and the number of those by which the console is looked at, which are left out. What HTTP carries as a part of one, such as JSON-RPC or the requests of HTTP/2 that are no
/// calls of gRPC, is shown with it.
fn busiest(core: &ServerCore) -> (Vec<Value>, usize) {
    let some = core.connections().some(limits::CONSOLE_CONNECTIONS_SEEN);
    let (parts, mut whole): (Vec<_>, Vec<_>) = some.into_iter().partition(|it| it.is_part());
    let (all, viewers) = (whole.len(), &core.shared().side_doors().viewers);
    whole.retain(|connection| !viewers.has(connection.site_id()));
    let own_count = all - whole.len();
    let mut parts_of = HashMap::<u64, Vec<_>>::new();
    for part in parts {
        parts_of.entry(part.site_id()).or_default().push(part);
    }
    let none = Vec::new();
    let parts_of = |site_id| parts_of.get(&site_id).unwrap_or(&none);
    whole.sort_by_cached_key(|connection| {
        let of_parts = parts_of(connection.site_id()).iter().map(|part| part.business());
        Reverse(connection.business() + of_parts.sum::<usize>())
    });
    let shown = whole.into_iter().take(limits::CONSOLE_CONNECTIONS_MAX).map(|connection| {
        let mut shown = connection.describe();
        parts_of(connection.site_id()).iter().for_each(|part| shown.add(part.describe()));
        shown.into_json()
    });
    (shown.collect(), own_count)
}

/// The time that the calling thread has run, by the kernel's word.
pub(super) fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

fn slow_call(call: &SlowCall, now: Duration) -> Value {
    let (running, for_client) = match call.spent {
        Some(spent) => (spent.running, spent.for_client),
        None => (call.service, Duration::ZERO),
    };
    json!({
        "method": call.method.name(),
        "code": call.code.name(),
        "ago_ms": millis(now.saturating_sub(call.ended_at)),
        "total_ms": millis(call.total()),
        "queued_ms": millis(call.queued),
        "running_ms": millis(running),
        "client_ms": millis(for_client),
        "waiting_ms": millis(call.service.saturating_sub(running + for_client)),
    })
}
