//! Finger (RFC 1288): a client sends a name in a line, and gets what its owner has written in the
//! file of that name. A stranger chooses the name, so the file is opened beneath the folder: no
//! `..` and no link leads out of it.
//!
//! Run it: `cargo run --release --example finger tcp://127.0.0.1:1079 ./plans`; then
//! `echo ada | nc 127.0.0.1 1079`. The arguments are the address and the folder.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringway::net::{Connection, Framed, Server};
use ringway::runtime::fs::File;
use ringway::wire::Line;

fn main() -> ringway::Result {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or("tcp://127.0.0.1:1079".into());
    let folder: Arc<Path> = Path::new(&args.next().unwrap_or("./plans".into())).into();
    let server = Server::bind(address.as_str())?.idle_timeout(Duration::from_secs(10));
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    server.serve(async move |connection: Connection| finger(connection, &folder).await)
}

async fn finger(connection: Connection, folder: &Path) -> ringway::Result {
    let mut lines = Framed::new(connection, Line::new(NAME_BYTES_MAX));
    let asked = lines.next_with(|name| String::from_utf8_lossy(name).trim().to_owned()).await?;
    let Some(name) = asked else { return Ok(()) };
    let (connection, _) = lines.into_parts();
    let Ok(file) = File::open_beneath(folder, &name).await else {
        connection.write(format!("no such user: {}\r\n", name.escape_debug()).as_bytes());
        return Ok(());
    };
    let mut pieces = file.pieces(0..file.metadata().await?.len);
    while let Some(piece) = pieces.next().await? {
        connection.send(piece).await?; // no faster than it is read
    }
    Ok(())
}

const NAME_BYTES_MAX: usize = 256;
