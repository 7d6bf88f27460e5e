//! A part of memcached: `get`, `set` and `delete` of its text protocol, without `noreply`. Values are
//! shared by all cores and are sent without a copy.
//!
//! Run it: `cargo run --release --example memcached`; then `nc 127.0.0.1 11211`, `set a 0 0 5`,
//! `hello`, `get a`. An argument is the address to listen on.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ringway::net::{Connection, Server};

/// Flags and value by key.
type Store = Arc<Mutex<HashMap<String, (u32, Bytes)>>>;

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:11211".into());
    let server = Server::bind(address.as_str())?;
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    let store = Store::default();
    server.serve(async move |connection: Connection| serve(connection, &store).await)
}

async fn serve(mut connection: Connection, store: &Store) -> ringway::Result {
    let (mut input, mut taken) = (Vec::new(), 0);
    while let Some(view) = connection.recv().await? {
        input.extend_from_slice(&view);
        drop(view);
        while let Some(step) = input.get(taken..).and_then(|rest| step(rest, &connection, store)) {
            taken += step;
            // A client that does not read is not served on.
            poll_fn(|cx| connection.poll_drained(cx)).await?;
        }
        taken -= input.drain(..taken.min(input.len())).len(); // a refused value is still to come
        if input.len() > VALUE_BYTES_MAX + LINE_BYTES_MAX {
            connection.write(b"CLIENT_ERROR line too long\r\n");
            break;
        }
    }
    Ok(())
}

/// Executes the command at the front of `input`, if it is whole; returns its length.
fn step(input: &[u8], connection: &Connection, store: &Store) -> Option<usize> {
    let end = input.windows(2).take(LINE_BYTES_MAX).position(|two| two == b"\r\n")?;
    let line = String::from_utf8_lossy(&input[..end]);
    let mut words = line.split_ascii_whitespace();
    match (words.next(), words.collect::<Vec<_>>().as_slice()) {
        (Some("get"), keys) => {
            keys.iter().for_each(|key| get(key, connection, store));
            connection.write(b"END\r\n");
        }
        (Some("set"), [key, flags, _expiry, length]) => {
            let Some((flags, length)) = flags.parse().ok().zip(length.parse::<u32>().ok()) else {
                connection.write(b"CLIENT_ERROR bad command line format\r\n");
                return Some(end + 2);
            };
            let (length, whole) = (length as usize, end + 2 + length as usize + 2);
            let value = input.get(end + 2..whole).map(|value| value.strip_suffix(b"\r\n"));
            connection.write(match value {
                _ if length > VALUE_BYTES_MAX => b"SERVER_ERROR object too large for cache\r\n",
                Some(Some(value)) => set(key, flags, value, store),
                Some(None) => b"CLIENT_ERROR bad data chunk\r\n",
                None => return None,
            });
            return Some(whole); // of a refused one as well: what is in it is no command
        }
        (Some("delete"), [key]) => {
            let gone = store.lock().expect("no panic").remove(*key);
            connection.write(if gone.is_some() { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" });
        }
        (Some("version"), []) => drop(connection.write(b"VERSION 1\r\n")),
        _ => drop(connection.write(b"ERROR\r\n")),
    }
    Some(end + 2)
}

fn get(key: &str, connection: &Connection, store: &Store) {
    let found = store.lock().expect("no panic").get(key).cloned();
    if let Some((flags, value)) = found {
        connection.write(format!("VALUE {key} {flags} {}\r\n", value.len()).as_bytes());
        connection.send(value);
        connection.write(b"\r\n");
    }
}

fn set(key: &str, flags: u32, value: &[u8], store: &Store) -> &'static [u8] {
    let mut store = store.lock().expect("no panic");
    if key.len() > 250 || store.len() >= KEYS_MAX && !store.contains_key(key) {
        return b"SERVER_ERROR out of memory storing object\r\n";
    }
    store.insert(key.to_owned(), (flags, Bytes::copy_from_slice(value)));
    b"STORED\r\n"
}

const LINE_BYTES_MAX: usize = 2048;
const VALUE_BYTES_MAX: usize = 1 << 20;
const KEYS_MAX: usize = 100_000;
