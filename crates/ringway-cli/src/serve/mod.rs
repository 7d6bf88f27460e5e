//! `ringway serve`: an echo or discard server until SIGINT or SIGTERM.

mod framing;
mod handlers;
mod stop;
mod tally;

use std::cell::Cell;
use std::error::Error;
use std::io::{BufReader, Write};
use std::sync::Arc;
use std::time::Duration;

use ringway_net::{Connection, Server, ServerHandle, ServerTls};
use serde_json::{Value, json};

use crate::args::{ServeConfig, Service, TlsFiles};
use crate::{allocations, bench, control, cores};
use handlers::{Discard, Framed};
use stop::Stop;
use tally::Totals;

pub(crate) use tally::{TALLY_BYTES, Tally};

/// Runs the server to the end of its drain.
///
/// # Errors
/// An address that cannot be had, a core or a driver that the system refuses, a bad certificate.
pub(crate) fn run(config: &ServeConfig) -> Result<(), Box<dyn Error>> {
    bench::raise_limit()?;
    let stop = Stop::on_signals()?;
    let totals = Arc::new(Totals::default());
    let server = bind(config)?;
    let handle = start(server, config.service, &totals)?;
    let mut out = std::io::stdout();
    for address in handle.addresses() {
        writeln!(out, "listening on {address}")?;
    }
    out.flush()?;
    if config.control {
        spawn_control(handle.clone(), totals, &stop)?;
    }
    stop.wait()?;
    handle.shutdown();
    stop.abort_on_next(handle.clone())?;
    Ok(handle.wait()?)
}

fn bind(config: &ServeConfig) -> Result<Server, Box<dyn Error>> {
    let (first, others) = config.listen.split_first().ok_or("no address to listen on")?;
    let mut server = Server::bind(first.as_str())?;
    for uri in others {
        server = server.and_bind(uri.as_str())?;
    }
    server = server
        .cores(cores::set(&config.cores)?)
        .backend(config.backend.into())
        .drain_deadline(DRAIN_DEADLINE);
    if let Some(spin) = config.spin {
        server = server.spin(spin);
    }
    if let Some(TlsFiles { cert, key }) = &config.tls {
        let read = |path: &std::path::Path| {
            std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        server = server.tls(ServerTls::from_pem(read(cert)?, read(key)?)?);
    }
    Ok(server)
}

fn start(
    server: Server,
    service: Service,
    totals: &Arc<Totals>,
) -> ringway_net::Result<ServerHandle> {
    match service {
        Service::Echo => server
            .on_datagram(async |datagram, to| {
                to.send(datagram.into_view());
                Ok(())
            })
            .start(echo),
        Service::Discard => server.on_datagram(async |_, _| Ok(())).start_with(|| Discard),
        Service::DiscardFramed => {
            let totals = Arc::clone(totals);
            server
                .on_datagram(async |_, _| Ok(()))
                .start_with(move || Framed::new(Arc::clone(&totals)))
        }
    }
}

/// Callbacks are no cheaper than this task: 4.2 µs of server CPU for 64 bytes at 100 connections, both.
async fn echo(mut conn: Connection) -> ringway_net::Result {
    while let Some(view) = conn.recv().await? {
        conn.send(view);
    }
    Ok(())
}

fn spawn_control(handle: ServerHandle, totals: Arc<Totals>, stop: &Stop) -> std::io::Result<()> {
    let ended = stop.trigger()?;
    let input = BufReader::new(std::io::stdin());
    // What answering allocates is no cost of serving.
    let answering = Cell::new(0);
    let snapshot = move || {
        let before = allocations::count();
        let snapshot = snapshot(&handle, &totals, before - answering.get());
        answering.set(answering.get() + allocations::count() - before);
        snapshot
    };
    control::spawn(input, std::io::stdout(), snapshot, move || ended.pull())?;
    Ok(())
}

fn snapshot(handle: &ServerHandle, totals: &Totals, allocations: u64) -> Value {
    let stats = handle.stats();
    let cores = stats.cores.iter().map(|core| (&core.counters, core.backend.as_str()));
    let mut object = cores::counters(cores);
    object.insert("allocations".to_owned(), json!(allocations));
    object.insert("connections".to_owned(), json!(stats.open));
    object.insert("packets".to_owned(), json!(totals.packets()));
    object.insert("mismatches".to_owned(), json!(totals.mismatches()));
    object.insert("socket_options".to_owned(), json!(["TCP_NODELAY"]));
    Value::Object(object)
}

/// How long connections may take to end after the first signal; a second signal cuts them off at once.
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);
