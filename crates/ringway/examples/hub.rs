//! Publish and subscribe by lines, in the protocol of muduo's hub: `sub TOPIC`, `unsub TOPIC`, and
//! `pub TOPIC` with the content in the next line. Who subscribes gets the last content of the topic
//! at once. A content is encoded once, whoever reads it; who reads too slowly is disconnected.
//!
//! Run it: `cargo run --release --example hub`; then `nc 127.0.0.1 9999` from several terminals.
//! An argument is the address to listen on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ringway::net::{Connection, Framed, Group, Membership, Server, SlowReader};
use ringway::wire::Line;

/// The subscribers of a topic, and its last message.
#[derive(Default)]
struct Topic {
    subscribers: Group,
    last: Option<Bytes>,
}

type Hub = Arc<Mutex<HashMap<String, Topic>>>;

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:9999".into());
    let server =
        Server::bind(address.as_str())?.high_water(UNREAD_BYTES_MAX).slow_reader(SlowReader::Close);
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    let hub = Hub::default();
    server.serve(async move |connection: Connection| attend(connection, &hub).await)
}

async fn attend(connection: Connection, hub: &Hub) -> ringway::Result {
    let mut lines = Framed::new(connection, Line::new(LINE_BYTES_MAX).crlf());
    let mut subscriptions: HashMap<String, Membership> = HashMap::new();
    while let Some(line) = next(&mut lines).await? {
        match line.split_once(' ') {
            Some(("sub", topic)) if subscriptions.len() < TOPICS_MAX => {
                let mut hub = hub.lock().expect("no panic");
                let Some(known) = find(&mut hub, topic) else { break };
                subscriptions.insert(topic.to_owned(), known.subscribers.join(lines.connection()));
                if let Some(last) = known.last.clone() {
                    lines.connection().send(last);
                }
            }
            Some(("unsub", topic)) => drop(subscriptions.remove(topic)),
            Some(("pub", topic)) => {
                let Some(content) = next(&mut lines).await? else { break };
                let message = Bytes::from(format!("pub {topic}\r\n{content}\r\n"));
                let mut hub = hub.lock().expect("no panic");
                let Some(known) = find(&mut hub, topic) else { break };
                known.last = Some(message.clone());
                known.subscribers.send(message);
            }
            _ => break,
        }
    }
    Ok(())
}

/// Returns a topic, which is made if there is room.
fn find<'h>(hub: &'h mut HashMap<String, Topic>, topic: &str) -> Option<&'h mut Topic> {
    let has_room = hub.len() < TOPICS_MAX || hub.contains_key(topic);
    has_room.then(|| hub.entry(topic.to_owned()).or_default())
}

async fn next(lines: &mut Framed<Line>) -> ringway::Result<Option<String>> {
    lines.next_with(|line| String::from_utf8_lossy(line).into_owned()).await
}

/// Bytes of the longest line; who writes a longer one is disconnected.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Topics of a subscriber, and of all.
const TOPICS_MAX: usize = 10_000;
/// Bytes that may wait for a subscriber besides what the kernel holds for it.
const UNREAD_BYTES_MAX: usize = 1 << 20;
