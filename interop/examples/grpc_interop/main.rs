//! gRPC between Ringway and tonic: our client calls a tonic service, and tonic's client calls ours.
//!
//! Run it: `cargo run -p ringway-interop --example grpc_interop`. It prints the replies and fails
//! if they differ.

mod by_ringway;
mod by_tonic;

use std::error::Error;
use std::process::ExitCode;

/// The report that each client should give of each server.
const EXPECTED: [&str; 5] = [
    "square of 12: 144, served to Ada",
    "square of -1: INVALID_ARGUMENT, no number below zero",
    "sum of 1, 2, 3: 6",
    "count to 3: [1, 2, 3]",
    "double of 7, 8: [14, 16]",
];

/// A metadata entry that is sent and returned.
const CALLER: (&str, &str) = ("caller", "Ada");

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ours = by_ringway::serve()?;
    let reports = tokio.block_on(async {
        let tonics = by_tonic::serve()?;
        let by_us = by_ringway::call(tonics).await?;
        let by_tonic = by_tonic::call(ours.addresses()[0].to_string()).await?;
        Ok::<_, Box<dyn Error>>([
            ("our client calls tonic's server", by_us),
            ("tonic's client calls our server", by_tonic),
        ])
    })?;
    drop(tokio); // tonic's connections end with it, and the server waits for none
    ours.shutdown();
    ours.wait()?;
    let differ = reports.iter().filter(|(who, report)| differs(who, report)).count();
    Ok(if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a report. Returns whether it differs from the expected one.
fn differs(who: &str, report: &[String]) -> bool {
    println!("{who}");
    report.iter().for_each(|line| println!("  {line}"));
    if report != EXPECTED {
        eprintln!("expected was {EXPECTED:#?}");
    }
    report != EXPECTED
}
