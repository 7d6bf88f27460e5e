//! Snapshots: everything that was before a file of the log.

use std::time::Duration;

use ringway_runtime as runtime;
use ringway_runtime::fs::{self, OpenOptions};

use super::folder::{Folder, snapshot_name, unfinished_name};
use super::frame::{Frames, Header, Ids, NextFrame};
use super::recovery::{Turns, damaged};
use crate::endpoint::Error;
use crate::limits;
use crate::store::Store;

/// Writes a snapshot of the pieces of a [`Dump`](crate::store::Dump), and removes the files that are not needed any more
/// when it is on the disk.
///
/// # Errors
/// Fails as the disk does; the files that there were are still there then.
pub(crate) async fn write_snapshot(
    folder: &Folder,
    number: u64,
    ids: Ids,
    clock: Duration,
    mut next_piece: impl FnMut() -> Option<Vec<u8>>,
) -> Result<(), Error> {
    let unfinished = unfinished_name(number);
    let path = folder.place(&unfinished);
    let written = async {
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600);
        let file = options.open(&path).await?;
        let header = Header::new(number, 0, ids);
        let mut piece = header.encode();
        let (mut at, mut synced, mut sequence) = (0, 0, 0);
        while let Some(ops) = next_piece() {
            if ops.is_empty() {
                runtime::yield_now().await;
                continue;
            }
            piece.extend(header.frame(sequence, 0, clock, &ops));
            let bytes = piece.len() as u64;
            file.write_all_at(at, std::mem::take(&mut piece)).await?;
            at += bytes;
            sequence += 1;
            // Not all at the end, when the log would wait for it; and so the snapshot has come as far as it says.
            if at - synced >= limits::SNAPSHOT_SYNC_BYTES {
                file.sync_data().await?;
                synced = at;
            }
        }
        file.sync_all().await?;
        fs::rename(&path, folder.place(&snapshot_name(number))).await?;
        folder.sync().await
    };
    if let Err(error) = written.await {
        _ = fs::remove_file(&path).await; // there may be no room for it
        return Err(folder.failed("write", &unfinished, &error));
    }
    folder.remove_before(number).await
}

/// Reads a snapshot as a whole. Returns its store, and the clock of the leases.
///
/// # Errors
/// Fails as the disk does, and where the snapshot is damaged.
pub(super) async fn read_snapshot(
    folder: &Folder,
    number: u64,
) -> Result<(Store, Ids, Duration), Error> {
    let name = snapshot_name(number);
    let bytes = folder.read(&name).await?;
    let damage = |at| damaged(&folder.shown(&name), at);
    let mut frames = Frames::of(&bytes).ok_or_else(|| damage(0))?;
    if frames.header.number != number {
        return Err(damage(0));
    }
    let (mut store, mut is_complete) = (Store::new(), false);
    let mut clock = Duration::ZERO;
    let mut turns = Turns::default();
    loop {
        let at = frames.at;
        match frames.next() {
            NextFrame::Frame(frame) if !is_complete => {
                clock = frame.clock;
                is_complete = store.apply(frame.payload, clock).map_err(|_| damage(at))?;
                turns.after(frame.payload.len()).await;
            }
            NextFrame::End if is_complete => return Ok((store, frames.header.ids, clock)),
            _ => return Err(damage(at)),
        }
    }
}
