//! `client rpc`: a closed loop of calls.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;

use super::caller::Caller;
use super::jsonrpsee::JsonrpseeCaller;
use super::tarpc::TarpcCaller;
use super::tonic::TonicCaller;
use crate::args::{Calls, Peer};
use crate::client::report::Report;
use crate::client::run::{Error, Next, Run, drive};
use crate::message::{Messages, equals, joined};

/// Runs the workload and reports what was measured.
///
/// # Errors
/// If a connection cannot be made. What happens to a call later is counted in the report instead.
pub(crate) fn calls(options: &Calls) -> Result<Report, Error> {
    let address = &options.load.address;
    match options.peer {
        Peer::Tonic => drive(&options.load, |run| {
            start(options, run, || TonicCaller::connect(address, options.method))
        }),
        Peer::JsonrpseeHttp => {
            drive(&options.load, |run| start(options, run, || JsonrpseeCaller::over_http(address)))
        }
        Peer::JsonrpseeWs => drive(&options.load, |run| {
            start(options, run, || JsonrpseeCaller::over_web_socket(address, options.depth))
        }),
        Peer::Tarpc => drive(&options.load, |run| {
            start(options, run, || TarpcCaller::connect(address, options.depth))
        }),
    }
}

/// Connects all, then starts `depth` tasks on each connection.
async fn start<C, F>(
    options: &Calls,
    run: Arc<Run>,
    connect: impl Fn() -> F,
) -> Result<JoinSet<()>, Error>
where
    C: Caller,
    F: Future<Output = Result<C, Error>>,
{
    let messages = Arc::new(Messages::new(options.load.message_bytes));
    let mut callers = Vec::with_capacity(options.load.connections);
    for _ in 0..options.load.connections {
        callers.push(connect().await?);
    }
    let mut tasks = JoinSet::new();
    for (connection, caller) in callers.into_iter().enumerate() {
        for slot in 0..options.depth {
            tasks.spawn(call_in_turn(
                caller.clone(),
                run.clone(),
                messages.clone(),
                Sequence {
                    connection: connection as u32,
                    next: slot as u64,
                    step: options.depth as u64,
                },
            ));
        }
    }
    Ok(tasks)
}

/// The numbers of one task's requests, distinct from those of its neighbours on the connection, so
/// that a reply to one of them is noticed.
struct Sequence {
    connection: u32,
    next: u64,
    step: u64,
}

/// One call after another; one reading of the clock ends a call and begins the next.
async fn call_in_turn<C: Caller>(
    mut caller: C,
    run: Arc<Run>,
    messages: Arc<Messages>,
    mut sequence: Sequence,
) {
    let mut begun = Instant::now();
    loop {
        let header = messages.header(sequence.connection, sequence.next);
        let parts = messages.parts(&header, sequence.connection, sequence.next);
        let outcome = caller.call(joined(parts)).await;
        let now = Instant::now();
        let next = match outcome {
            Ok(reply) => run.on_reply(equals(parts, &reply), begun, now),
            Err(error) => return run.on_error(&error),
        };
        if next == Next::End {
            return;
        }
        begun = now;
        sequence.next += sequence.step;
    }
}
