//! The client of the registry suite: what servers and clients ask of a registry, over gRPC.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use ringway_discovery::Endpoint;
use ringway_discovery::etcd_api::etcdserverpb::watch_request::RequestUnion;
use ringway_discovery::etcd_api::etcdserverpb::{
    KvClient, LeaseClient, LeaseGrantRequest, LeaseKeepAliveRequest, PutRequest, RangeRequest,
    WatchClient, WatchCreateRequest, WatchRequest,
};
use ringway_rpc::{CallOptions, Client, Status};
use ringway_runtime::sync::Notify;
use ringway_runtime::{JoinHandle, spawn};

use super::dial::dial_by;
use super::engine::Part;
use super::outcome::CoreOutcome;
use super::score::Score;
use crate::args::{RegistryLoad, RegistryMode, Uri};

/// Puts load on a registry over the connections of `part`. A put has a value of `size` bytes.
pub(super) async fn run(part: Part, load: RegistryLoad, size: usize) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let uri = part.uri.clone();
    let clients = dial_by(&part, &score, move || connect(uri.clone())).await;
    let lanes = prepare(&part, clients, load, size, &score).await.unwrap_or_else(|status| {
        score.fail(&status);
        Vec::new()
    });
    score.keep(&part, lanes).await
}

async fn connect(uri: Uri) -> Result<Client, Status> {
    let options = CallOptions::new().no_timeout();
    let client =
        Client::builder().address(uri.as_str()).connections_max(1).options(options).build()?;
    // A client connects when it makes its first call.
    KvClient::new(client.clone()).range(one("nothing")).await?;
    Ok(client)
}

/// Makes what the load needs, and starts it when every core has.
async fn prepare(
    part: &Part,
    clients: Vec<(u32, Client)>,
    load: RegistryLoad,
    size: usize,
    score: &Rc<Score>,
) -> Result<Vec<JoinHandle<()>>, Status> {
    if let (RegistryMode::Range, Some((_, client))) = (load.mode, clients.first()) {
        register_endpoints(&KvClient::new(client.clone())).await?;
    }
    let mut lanes = Vec::new();
    let change = Rc::new(Change::default());
    let writer = clients.first().map(|(number, client)| (*number, client.clone()));
    let mut waiting = Vec::new();
    for (number, client) in clients {
        let score = Rc::clone(score);
        match load.mode {
            RegistryMode::Range => waiting
                .extend((0..load.depth).map(|_| RequestLane::Range(KvClient::new(client.clone())))),
            RegistryMode::Put => waiting.extend((0..load.depth).map(|lane| {
                let key = format!("bench/put/{number}/{lane}");
                RequestLane::Put(KvClient::new(client.clone()), key)
            })),
            RegistryMode::KeepAlive => {
                let lease = LeaseClient::new(client);
                let granted = lease.lease_grant(LeaseGrantRequest { ttl: 60, id: 0 }).await?;
                waiting.push(RequestLane::KeepAlive(lease, granted.id));
            }
            RegistryMode::Watch => {
                let (number, _) = writer.as_ref().expect("there is a first client");
                let ready = watch(&WatchClient::new(client), *number, &change, score).await?;
                lanes.push(ready);
            }
        }
    }
    part.wait_for_all(1).await;
    if let (RegistryMode::Watch, Some((number, client))) = (load.mode, writer) {
        let (watchers, score) = (lanes.len(), Rc::clone(score));
        lanes.push(spawn(changes(KvClient::new(client), number, watchers, change, score)));
    }
    lanes.extend(waiting.into_iter().map(|lane| spawn(lane.run(size, Rc::clone(score)))));
    Ok(lanes)
}

const ENDPOINTS: usize = 10;

/// Registers ten servers of a service.
async fn register_endpoints(kv: &KvClient) -> Result<(), Status> {
    for number in 0..ENDPOINTS {
        let endpoint = Endpoint::new(format!("tcp://10.0.0.{number}:9000")).zone("eu-1");
        let (key, value) = (format!("bench/service/{number}").into(), endpoint.to_json().into());
        kv.put(PutRequest { key, value, ..PutRequest::default() }).await?;
    }
    Ok(())
}

/// One request after the other.
enum RequestLane {
    Range(KvClient),
    Put(KvClient, String),
    KeepAlive(LeaseClient, i64),
}

impl RequestLane {
    async fn run(self, size: usize, score: Rc<Score>) {
        let ended = match self {
            Self::Range(kv) => ranges(&kv, &score).await,
            Self::Put(kv, key) => puts(&kv, &key, size, &score).await,
            Self::KeepAlive(lease, id) => keep_alives(&lease, id, &score).await,
        };
        if let Err(status) = ended {
            score.fail(&status);
        }
    }
}

fn one(key: &str) -> RangeRequest {
    RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() }
}

/// Reads all endpoints of the service.
async fn ranges(kv: &KvClient, score: &Score) -> Result<(), Status> {
    let request = RangeRequest { range_end: "bench/service0".into(), ..one("bench/service/") };
    while !score.is_over() {
        let begun = Instant::now();
        let found = kv.range(request.clone()).await?.kvs.len();
        settle(score, found == ENDPOINTS, begun, || format!("{found} of {ENDPOINTS} endpoints"));
    }
    Ok(())
}

async fn puts(kv: &KvClient, key: &str, size: usize, score: &Score) -> Result<(), Status> {
    let (key, value) = (key.to_owned().into(), vec![b'v'; size].into());
    let request = PutRequest { key, value, ..PutRequest::default() };
    let mut last = 0;
    while !score.is_over() {
        let begun = Instant::now();
        let revision = kv.put(request.clone()).await?.header.map_or(0, |header| header.revision);
        settle(score, revision > last, begun, || format!("revision {revision} after {last}"));
        last = revision;
    }
    Ok(())
}

async fn keep_alives(lease: &LeaseClient, id: i64, score: &Score) -> Result<(), Status> {
    let (mut requests, mut responses) = lease.lease_keep_alive();
    while !score.is_over() {
        let begun = Instant::now();
        requests.send(LeaseKeepAliveRequest { id }).await?;
        let response = responses.next().await?.ok_or_else(ended)?;
        let complaint = || "a lease that was kept alive has ended".to_owned();
        settle(score, response.ttl > 0, begun, complaint);
    }
    requests.finish();
    Ok(())
}

fn settle(score: &Score, is_right: bool, begun: Instant, complaint: impl FnOnce() -> String) {
    score.settle(is_right, begun, Instant::now(), complaint);
}

fn ended() -> Status {
    Status::unavailable("the registry has ended a stream")
}

/// The change that all watches of a core wait for.
#[derive(Default)]
struct Change {
    begun: Cell<Option<Instant>>,
    /// Watches that have seen it.
    seen: Cell<usize>,
    all_have_seen: Notify,
    watchers: Cell<usize>,
    /// Whether it is the last that the watches wait for.
    is_last: Cell<bool>,
}

/// Begins a watch of the key that the core's first connection changes.
async fn watch(
    client: &WatchClient,
    number: u32,
    change: &Rc<Change>,
    score: Rc<Score>,
) -> Result<JoinHandle<()>, Status> {
    let (mut requests, mut responses) = client.watch();
    let create = WatchCreateRequest { key: key(number).into(), ..WatchCreateRequest::default() };
    let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    requests.send(request).await?;
    responses.next().await?.ok_or_else(ended)?;
    let change = Rc::clone(change);
    change.watchers.set(change.watchers.get() + 1);
    Ok(spawn(async move {
        let _requests = requests;
        let watched = async {
            loop {
                let events = responses.next().await?.ok_or_else(ended)?.events.len();
                let begun = change.begun.get().unwrap_or_else(Instant::now);
                settle(&score, events == 1, begun, || format!("{events} events of one change"));
                change.seen.set(change.seen.get() + 1);
                if change.seen.get() == change.watchers.get() {
                    change.all_have_seen.notify_one();
                }
                if change.is_last.get() {
                    return Ok(());
                }
            }
        };
        if let Err(status) = watched.await {
            score.fail(&status);
        }
    }))
}

fn key(number: u32) -> String {
    format!("bench/watched/{number}")
}

/// Changes a key each time that all watches have seen the former change.
async fn changes(kv: KvClient, number: u32, watchers: usize, change: Rc<Change>, score: Rc<Score>) {
    debug_assert_eq!(watchers, change.watchers.get());
    loop {
        change.is_last.set(score.is_over());
        change.seen.set(0);
        change.begun.set(Some(Instant::now()));
        let (key, value) = (key(number).into(), "changed".into());
        if let Err(status) = kv.put(PutRequest { key, value, ..PutRequest::default() }).await {
            return score.fail(&status);
        }
        change.all_have_seen.notified().await;
        if change.is_last.get() {
            return;
        }
    }
}
