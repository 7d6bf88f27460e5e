//! `ringway serve`: an echo, discard or RPC server until SIGINT or SIGTERM.

mod framing;
mod handlers;
mod mongo;
mod statistics;
mod stop;
mod tally;

use std::cell::Cell;
use std::error::Error;
use std::io::{BufReader, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ringway_discovery::Registry;
use ringway_net::{ClientAuth, Connection, Server, ServerHandle, ServerTls};
use serde_json::{Value, json};

use crate::args::{ServeConfig, Service, TlsFiles};
use crate::echo_service::{EchoServer, EchoService};
use crate::{allocations, bench, clock, control, cores, stderr};
use handlers::{Clock, Discard, Framed};
use mongo::Responder;
use stop::Stop;
use tally::Totals;

pub(crate) use tally::{ACKNOWLEDGEMENT_BYTES, TALLY_BYTES, Tally, acknowledgement};

/// Runs the server until it has drained.
///
/// # Errors
/// An address is not available, the system refuses a core or a driver, or a certificate is invalid.
pub(crate) fn run(config: &ServeConfig) -> Result<(), Box<dyn Error>> {
    bench::raise_limit()?;
    let stop = Stop::on_signals()?;
    let totals = Arc::new(Totals::default());
    let failure = Arc::new(OnceLock::new());
    let handle = start(config, &totals, &failure, &stop)?;
    let mut out = std::io::stdout();
    for address in handle.addresses() {
        writeln!(out, "listening on {address}")?;
    }
    out.flush()?;
    if config.control {
        spawn_control(handle.clone(), Arc::clone(&totals), &stop)?;
    }
    let statistics = config.stats.map(|period| statistics::print_every(period, handle.clone()));
    let _until_stopped = statistics.transpose()?;
    stop.wait()?;
    // What fails from now on fails because of the stop, such as a write to a log when its core ends.
    let why = failure.get().cloned();
    handle.shutdown();
    stop.abort_on_next(handle.clone())?;
    handle.wait()?;
    if matches!(config.service, Service::MongoResponder { .. }) && !config.control {
        stderr::say(&totals.mongo);
    }
    why.map_or(Ok(()), |why| Err(why.into()))
}

/// The reason why a server has ended by itself.
type EndReason = Arc<OnceLock<String>>;

fn start(
    config: &ServeConfig,
    totals: &Arc<Totals>,
    failure: &EndReason,
    stop: &Stop,
) -> Result<ServerHandle, Box<dyn Error>> {
    if matches!(config.service, Service::Rpc | Service::Registry) {
        return start_rpc(config, failure, stop);
    }
    let server = Server::bind(uris(config))?;
    let mut server = set_up(config)?(server).drain_timeout(DRAIN_TIMEOUT);
    if let Some(tls) = read_tls(config)? {
        server = server.tls(tls);
    }
    Ok(match config.service {
        Service::Discard => server.on_datagram(async |_, _| Ok(())).start_with(|| Discard),
        Service::DiscardFramed { acknowledges } => {
            let totals = Arc::clone(totals);
            server
                .on_datagram(async |_, _| Ok(()))
                .start_with(move || Framed::new(Arc::clone(&totals), acknowledges))
        }
        Service::Clock => server
            .on_datagram(async |datagram, to| {
                let mut bytes = datagram.to_vec();
                if bytes.len() == clock::EXCHANGE_BYTES {
                    clock::answer(&mut bytes, clock::now_us());
                    to.send(bytes);
                }
                Ok(())
            })
            .start_with(Clock::default),
        Service::MongoResponder { delay } => {
            let totals = Arc::clone(totals);
            server.start_with(move || Responder::new(Arc::clone(&totals.mongo), delay))
        }
        Service::Echo | Service::Rpc | Service::Registry => server
            .on_datagram(async |datagram, to| {
                to.send(datagram.into_view());
                Ok(())
            })
            .start(echo),
    }?)
}

/// The addresses to listen on.
fn uris(config: &ServeConfig) -> Vec<&str> {
    config.listen.iter().map(|uri| uri.as_str()).collect()
}

fn start_rpc(
    config: &ServeConfig,
    failure: &EndReason,
    stop: &Stop,
) -> Result<ServerHandle, Box<dyn Error>> {
    let server = ringway_rpc::Server::bind(uris(config))?;
    let set_up = set_up(config)?;
    let server = server.net(set_up).drain_timeout(DRAIN_TIMEOUT);
    let mut server = match config.service {
        Service::Registry => registry(config, failure, stop)?.serve_on(server),
        _ => server.service(EchoServer::new(EchoService::new())),
    };
    if let Some(tls) = read_tls(config)? {
        // Not by `net`, which knows nothing of the protocols to agree on.
        server = server.tls(tls);
    }
    let server = server.start()?;
    if !config.control && std::io::stderr().is_terminal() {
        // Whoever reads the link sees the console, so it goes to the person who has started the server, and to no log.
        server
            .console_link()
            .iter()
            .for_each(|link| stderr::say(format_args!("console at {link}")));
    }
    Ok(server.net().clone())
}

/// A registry whose server stops when its log has failed, so that whoever supervises it starts it again.
fn registry(
    config: &ServeConfig,
    failure: &EndReason,
    stop: &Stop,
) -> Result<Registry, Box<dyn Error>> {
    let (failure, trigger) = (Arc::clone(failure), stop.trigger()?);
    let builder = Registry::builder().advertise_client_urls(config.advertised.clone());
    let builder = builder.on_notice(|text| stderr::complain(text));
    let builder = match config.data.clone() {
        Some(folder) => builder.data(folder),
        None => builder,
    };
    let builder = builder.on_failure(move |why| {
        _ = failure.set(why.to_owned());
        trigger.pull();
    });
    Ok(ringway_runtime::block_on(builder.open())??)
}

/// Applies the flags that every kind of server has, except those of TLS.
fn set_up(config: &ServeConfig) -> Result<impl FnOnce(Server) -> Server, Box<dyn Error>> {
    let cores = cores::set(&config.cores)?;
    let (backend, spin) = (config.backend.into(), config.spin);
    Ok(move |server: Server| {
        let mut server = server.cores(cores).backend(backend);
        if let Some(spin) = spin {
            server = server.spin(spin);
        }
        server
    })
}

fn read_tls(config: &ServeConfig) -> Result<Option<ServerTls>, Box<dyn Error>> {
    let Some(TlsFiles { cert, key }) = &config.tls else {
        return Ok(None);
    };
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let tls = ServerTls::from_pem(read(cert)?, read(key)?)?;
    Ok(Some(match &config.client_ca {
        Some(file) => tls.client_auth(read(file)?, ClientAuth::Required)?,
        None => tls,
    }))
}

/// A task costs as much as callbacks: both 4.2 µs of server CPU for 64 bytes at 100 connections.
async fn echo(mut conn: Connection) -> ringway_net::Result {
    while let Some(view) = conn.recv().await? {
        conn.send(view);
    }
    Ok(())
}

fn spawn_control(handle: ServerHandle, totals: Arc<Totals>, stop: &Stop) -> std::io::Result<()> {
    let ended = stop.trigger()?;
    let input = BufReader::new(std::io::stdin());
    // Allocations of this answer are no cost of serving.
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
    object.insert("refused".to_owned(), json!(totals.mongo.refused()));
    object.insert("socket_options".to_owned(), json!(["TCP_NODELAY"]));
    Value::Object(object)
}

/// The time that connections have to end after the first signal; a second signal cuts them off.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
