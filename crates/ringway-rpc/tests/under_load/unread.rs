//! The effect on nine streams of a tenth on their connection that is not read.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ringway_rpc::{Client, Status};
use ringway_runtime::{JoinHandle, sleep, spawn};

use crate::work::{TAKEN, WorkClient};
use crate::{MS, measure};

/// Streams that are read.
const READ: usize = 9;
/// The least rate of these, relative to a run without the unread stream.
const LEAST: f64 = 0.95;

const MESSAGE: [u8; 1_024] = [7; 1_024];

/// The kinds alternate, so that other load of the machine affects both.
const SLICES: usize = 11;
const SLICE: Duration = Duration::from_millis(400);
/// Long enough for the window of the tenth stream to be full.
const WARM_UP: Duration = Duration::from_millis(100);

/// The side that sends; the other one does not read.
#[derive(Clone, Copy, Debug)]
enum Sender {
    Server,
    Client,
}

/// The streams of one slice, which end with it.
struct Streams {
    client: WorkClient,
    tasks: Vec<JoinHandle<Result<(), Status>>>,
    /// Replies that were read.
    replies: Rc<Cell<u64>>,
}

impl Streams {
    fn of(client: &WorkClient) -> Self {
        Self { client: client.clone(), tasks: Vec::new(), replies: Rc::default() }
    }

    fn open(&mut self, sender: Sender, is_read: bool) {
        let message = Bytes::from_static(&MESSAGE);
        self.tasks.push(match sender {
            Sender::Server => {
                let (mut replies, seen) = (self.client.flood(message), Rc::clone(&self.replies));
                spawn(async move {
                    while replies.next().await?.is_some() && is_read {
                        seen.set(seen.get() + 1);
                    }
                    std::future::pending().await
                })
            }
            Sender::Client => {
                let (mut sink, reply) =
                    if is_read { self.client.take() } else { self.client.leave() };
                spawn(async move {
                    let _reply = reply;
                    loop {
                        sink.send(message.clone()).await?;
                    }
                })
            }
        });
    }

    fn seen(&self, sender: Sender) -> u64 {
        match sender {
            Sender::Server => self.replies.get(),
            Sender::Client => TAKEN.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Returns the messages per second of the nine streams, with or without the tenth.
async fn slice(client: &WorkClient, sender: Sender, with_unread: bool) -> f64 {
    let mut streams = Streams::of(client);
    (0..READ).for_each(|_| streams.open(sender, true));
    if with_unread {
        streams.open(sender, false);
    }
    sleep(WARM_UP).await;
    let (before, begin) = (streams.seen(sender), Instant::now());
    sleep(SLICE).await;
    let rate = (streams.seen(sender) - before) as f64 / begin.elapsed().as_secs_f64();
    assert!(streams.tasks.iter().all(|task| !task.is_finished()), "a stream has ended");
    drop(streams);
    sleep(50 * MS).await;
    rate
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

#[test]
fn one_of_ten_streams_is_not_read() {
    measure(
        |server| server,
        |server| async move {
            let address = server.addresses()[0].to_string();
            for protocol in ["grpc", "tcp"] {
                let client = Client::connect(address.replace("tcp", protocol));
                let client = WorkClient::new(client.expect("an address"));
                for sender in [Sender::Server, Sender::Client] {
                    let (mut without, mut with) = (Vec::new(), Vec::new());
                    for _ in 0..SLICES {
                        without.push(slice(&client, sender, false).await);
                        with.push(slice(&client, sender, true).await);
                    }
                    println!("{protocol}, {sender:?} sends, {SLICES} slices of each");
                    println!("    without {without:.0?}\n    with    {with:.0?}");
                    let (without, with) = (median(without), median(with));
                    let part = with / without;
                    println!("    {without:.0}/s without, {with:.0}/s with: {part:.3}");
                    assert!(part >= LEAST);
                }
            }
        },
    );
}
