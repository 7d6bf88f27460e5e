//! The disk by itself: how often it syncs a file to which somebody appends. No registry that writes its changes one by
//! one can do more.

use std::fs::File;
use std::io::{self, Write};
use std::time::Instant;

use super::outcome::{Latency, Outcome};
use crate::args::RunLength;
use crate::histogram::Latencies;
use crate::process::DataFolder;
use crate::report::{Cost, Errors};

/// Appends `size` bytes and syncs, again and again, where the servers of a run have their data.
///
/// # Errors
/// The disk's.
pub(super) fn run(length: &RunLength, size: usize) -> io::Result<Outcome> {
    let folder = DataFolder::create()?;
    let mut file = File::create(folder.path().join("syncs"))?;
    let (bytes, mut latencies, mut syncs) = (vec![0; size], Latencies::new(), 0);
    let began = Instant::now();
    while began.elapsed() < length.measured {
        let begun = Instant::now();
        file.write_all(&bytes)?;
        file.sync_data()?;
        latencies.record(begun.elapsed());
        syncs += 1;
    }
    Ok(Outcome {
        rate: f64::from(syncs) / began.elapsed().as_secs_f64(),
        begun: 0.0,
        timeline: Vec::new(),
        latency: Latency::Samples(Box::new(latencies)),
        errors: Errors::default(),
        verified: 0,
        server: Cost::default(),
        client: Cost::default(),
        warnings: Vec::new(),
        memory: None,
        clock: None,
    })
}
