//! `ringway serve`: an echo or discard server until SIGINT or SIGTERM.

mod discard;
mod framing;
mod listen;
mod stop;
mod tally;

use std::error::Error;
use std::io::{BufReader, Write};
use std::sync::Arc;

use ringway_runtime::{CoreHandle, Runtime};
use serde_json::{Value, json};

use crate::args::ServeConfig;
use crate::{allocations, control, cores};
use stop::Stop;
use tally::Totals;

pub(crate) use framing::Framing;
pub(crate) use tally::{TALLY_BYTES, Tally};

/// Runs the server to the end of its drain.
///
/// # Errors
/// An address that cannot be had, a core or a driver that the system refuses.
pub(crate) fn run(config: &ServeConfig) -> Result<(), Box<dyn Error>> {
    crate::bench::raise_limit()?;
    let stop = Stop::on_signals()?;
    let runtime = cores::builder(&config.cores, config.backend, config.spin)?.start()?;
    let totals = Arc::new(Totals::default());
    let listening = listen::start(config, runtime.cores(), &totals)?;
    let mut out = std::io::stdout();
    for uri in listening.uris() {
        writeln!(out, "listening on {uri}")?;
    }
    out.flush()?;
    if config.control {
        spawn_control(&runtime, totals, &stop)?;
    }
    stop.wait()?;
    drop(listening);
    runtime.shutdown()?;
    Ok(())
}

fn spawn_control(runtime: &Runtime, totals: Arc<Totals>, stop: &Stop) -> std::io::Result<()> {
    let cores = runtime.cores().to_vec();
    let ended = stop.trigger()?;
    let input = BufReader::new(std::io::stdin());
    control::spawn(
        input,
        std::io::stdout(),
        move || snapshot(&cores, &totals),
        move || ended.pull(),
    )?;
    Ok(())
}

fn snapshot(cores: &[CoreHandle], totals: &Totals) -> Value {
    let allocations = allocations::count();
    let mut object = cores::counters(cores);
    object.insert("allocations".to_owned(), json!(allocations));
    object.insert("packets".to_owned(), json!(totals.packets()));
    object.insert("mismatches".to_owned(), json!(totals.mismatches()));
    object.insert("socket_options".to_owned(), json!(["TCP_NODELAY"]));
    Value::Object(object)
}
