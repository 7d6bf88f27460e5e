//! Many clients over one connection: each client's lines go to a backend with a number in front,
//! and each reply goes to whoever asked, in whatever order the backend answers.
//!
//! Run it: `cargo run --release --example multiplexer tcp://127.0.0.1:7000 tcp://127.0.0.1:7001`.
//! The arguments are the address to listen on and the backend's, which answers frames of a length,
//! a number and a text (both numbers of four bytes, the first byte the highest) with such ones.

use std::cell::RefCell;
use std::time::Duration;

use ringway::net::{Client, Connection, Framed, Requester, Server};
use ringway::wire::{LengthField, Line, RequestId};

/// One for each core, as all that a core has.
type Backend = Requester<LengthField<ringway::wire::U32Be>>;

thread_local! {
    static BACKEND: RefCell<Option<Backend>> = const { RefCell::new(None) };
}

fn main() -> ringway::Result {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or("tcp://127.0.0.1:7000".into());
    let backend = args.next().unwrap_or("tcp://127.0.0.1:7001".into());
    let server = Server::bind(address.as_str())?.threads(1);
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    server.serve(async move |connection: Connection| carry(connection, &backend).await)
}

async fn carry(connection: Connection, address: &str) -> ringway::Result {
    let mut lines = Framed::new(connection, Line::new(LINE_BYTES_MAX));
    while let Some(line) = lines.next_owned().await? {
        let reply = match backend(address).await {
            Ok(backend) => backend.request(&line, Duration::from_secs(5)).await,
            Err(error) => Err(error),
        };
        let answer = match reply {
            Ok(reply) => reply.to_vec(),
            Err(error) => format!("error: {error}").into_bytes(),
        };
        lines.send(&answer)?.await?;
    }
    Ok(())
}

/// The connection of this core: the one that there is, or a new one.
async fn backend(address: &str) -> ringway::Result<Backend> {
    let known = BACKEND.with_borrow(|known| known.clone().filter(|it| !it.is_closed()));
    if let Some(backend) = known {
        return Ok(backend);
    }
    let framed = Framed::new(Client::connect(address).await?, LengthField::u32_be());
    let number = |id: RequestId| id.to_u32().expect("ids of a requester fit into 32 bits");
    let made = Requester::by_id(
        framed,
        REQUESTS_MAX,
        move |id, line, frame| {
            frame.extend_from_slice(&number(id).to_be_bytes());
            frame.extend_from_slice(line);
        },
        |frame| {
            let (number, text) = frame.split_first_chunk()?;
            Some((RequestId::from(u32::from_be_bytes(*number)), text))
        },
    );
    // Another task may have made one meanwhile.
    Ok(BACKEND.with_borrow_mut(|known| match known {
        Some(other) if !other.is_closed() => other.clone(),
        _ => known.insert(made).clone(),
    }))
}

const LINE_BYTES_MAX: usize = 4096;
const REQUESTS_MAX: usize = 1024;
