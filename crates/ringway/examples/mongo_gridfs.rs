//! Files in MongoDB, written and read in parts: one part is in memory at a time.
//!
//! Run it: `cargo run --release --example mongo_gridfs -- mongodb://127.0.0.1`.

use std::error::Error;

use ringway::mongo::bson::doc;
use ringway::mongo::{Client, GridFsFile, Result};

const PARTS: usize = 40;
const PART_LEN: usize = 64 << 10;

async fn keep_files(uri: String) -> Result {
    let files = Client::connect(&uri)?.database("files").gridfs();
    files.drop().await?;

    let mut upload = files.begin("numbers.bin").metadata(doc! { "made by": "mongo_gridfs" });
    for number in 0..PARTS {
        upload.write(&[number as u8; PART_LEN]).await?;
    }
    let id = upload.finish().await?;
    // A second file of that name is its next revision.
    files.upload("numbers.bin", b"short").await?;

    let mut download = files.open(id.clone()).await?;
    let (length, mut read, mut parts) = (download.file().length, 0, 0);
    while let Some(part) = download.read().await? {
        read += part.len() as u64;
        parts += 1;
    }
    println!("read {read} of {length} bytes in {parts} parts");
    let border = PART_LEN as u64;
    let middle = files.open(id.clone()).await?.range(border - 2..border + 2).read_to_end().await?;
    println!("across the first border: {middle:?}");
    let latest = files.open_by_name("numbers.bin", -1).await?.read_to_end().await?;
    println!("latest revision: {}", String::from_utf8_lossy(&latest));

    files.delete(id.clone()).await?;
    let left = files.find(doc! {}).await?.collect().await?;
    for file in left.into_iter().map(GridFsFile::of) {
        println!("left: {} bytes", file?.length);
    }
    match files.open(id).await {
        Err(error) if error.is_not_found() => println!("the first is gone"),
        outcome => println!("unexpected: {outcome:?}"),
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "mongodb://127.0.0.1".into());
    Ok(ringway::runtime::block_on(keep_files(uri))??)
}
