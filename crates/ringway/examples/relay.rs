//! A relay for TCP that balances, and logs what passes: each client is connected to the target with
//! the fewest connections, and bytes go on without a copy, no faster than the other side reads. With
//! `--log` every piece is printed as `hexdump -C` prints it.
//!
//! Run it: `cargo run --release --example relay tcp://127.0.0.1:7000 tcp://127.0.0.1:7001 --log`.
//! The arguments are the address to listen on, the targets, and perhaps `--log`.

use std::fmt::Write;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use ringway::net::{Client, Connection, Peer, Server};

/// A target with the number of its connections.
struct Target {
    address: String,
    connections: AtomicUsize,
}

/// Counts a connection of a target until it is dropped.
struct Counted<'t>(&'t Target);

fn main() -> ringway::Result {
    let (flags, mut addresses): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|arg| arg == "--log");
    if addresses.len() < 2 {
        return Err(ringway::Error::other("give the address to listen on, and targets"));
    }
    let server = Server::bind(addresses.remove(0))?;
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    let target = |address| Target { address, connections: AtomicUsize::new(0) };
    let targets: Arc<[Target]> = addresses.into_iter().map(target).collect();
    let logs = !flags.is_empty();
    server.serve(async move |client: Connection| relay(client, &targets, logs).await)
}

async fn relay(mut client: Connection, targets: &[Target], logs: bool) -> ringway::Result {
    let open = |target: &&Target| target.connections.load(Ordering::Relaxed);
    let chosen = targets.iter().min_by_key(open).expect("checked in main");
    chosen.connections.fetch_add(1, Ordering::Relaxed);
    let _counted = Counted(chosen);
    let mut target = Client::connect(chosen.address.as_str()).await?;
    client.set_paced(false); // its replies are not what the next read waits for
    let (there, back) = (logs.then_some("->"), logs.then_some("<-"));
    let (mut up, mut down) = (true, true);
    poll_fn(|cx| {
        while up && let Poll::Ready(moved) = poll_move(&mut client, &target, there, cx) {
            up = moved?;
        }
        while down && let Poll::Ready(moved) = poll_move(&mut target, &client, back, cx) {
            down = moved?;
        }
        if up || down { Poll::Pending } else { Poll::Ready(Ok(())) }
    })
    .await
}

/// Moves one view if the receiving side keeps up; `false` at the end.
fn poll_move(
    from: &mut Connection,
    to: &Peer,
    log: Option<&str>,
    cx: &mut Context,
) -> Poll<ringway::Result<bool>> {
    ready!(to.poll_drained(cx))?;
    let Some(view) = ready!(from.poll_recv(cx))? else {
        to.shutdown();
        return Poll::Ready(Ok(false));
    };
    if let Some(way) = log {
        print!("{way} {} bytes\n{}", view.len(), hexdump(&view));
    }
    to.send(view);
    Poll::Ready(Ok(true))
}

/// A line for each 16 bytes: where they are, what they are, and as letters.
fn hexdump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, bytes) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let is_shown = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        let letters = bytes.iter().map(|&byte| if is_shown(byte) { byte.into() } else { '.' });
        let letters: String = letters.collect();
        writeln!(text, "{:08x}  {:<47}  |{letters}|", 16 * line, hex.join(" ")).expect("memory");
    }
    text
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
