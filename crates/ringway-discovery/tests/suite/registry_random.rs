//! The same random requests for real etcd and for our registry, which have to answer the same.

use std::collections::BTreeSet;

use bytes::Bytes;
use fastrand::Rng;
use ringway_discovery::etcd_api::etcdserverpb::compare::TargetUnion;
use ringway_discovery::etcd_api::etcdserverpb::request_op::Request;
use ringway_discovery::etcd_api::etcdserverpb::response_op::Response;
use ringway_discovery::etcd_api::etcdserverpb::watch_request::RequestUnion;
use ringway_discovery::etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, KvClient, PutRequest, RangeRequest, RequestOp,
    ResponseHeader, TxnRequest, TxnResponse, WatchClient, WatchCreateRequest, WatchProgressRequest,
    WatchRequest,
};
use ringway_discovery::etcd_api::mvccpb::Event;
use ringway_rpc::{CallOptions, Client, Status};
use ringway_runtime as runtime;

use crate::support::etcd::Etcd;
use crate::support::{LIMIT, authority, end, serve};

/// Requests of each seed.
const REQUESTS: usize = 120;
const SEEDS: u64 = 20;

#[test]
fn random_requests_get_the_same_answers_as_from_etcd() {
    let Some(etcd) = Etcd::start() else {
        return eprintln!("skipped: this test needs the Debian package etcd-server");
    };
    let folder = tempfile::tempdir().expect("a directory");
    let opening = ringway_discovery::Registry::builder().data(folder.path());
    let registry = runtime::block_on(async move { opening.open().await });
    let handle = serve(&registry.expect("a core").expect("an empty folder"));
    let authorities = [authority(&handle), etcd.authority.clone()];
    runtime::block_on(async move {
        let [ours, theirs] = authorities.map(|authority| {
            let client = Client::connect(format!("grpc://{authority}")).expect("an address");
            client.with(CallOptions::new().timeout(LIMIT))
        });
        let mut revision = 1;
        // Of a key that changes twice at one revision, our watches are told the last change alone.
        let mut twice = BTreeSet::new();
        for seed in 0..SEEDS {
            let mut random = Random { rng: Rng::with_seed(seed), revision };
            for number in 0..REQUESTS {
                let request = random.request();
                let (our, at) = answer(&ours, &request, &twice, None).await;
                let (their, _) = answer(&theirs, &request, &twice, Some(lines(&our))).await;
                if may_change_twice(&request) {
                    twice.insert(at);
                }
                assert_eq!(our, their, "seed {seed}, request {number}: {request:?}");
                random.revision = random.revision.max(at);
            }
            revision = random.revision;
        }
    })
    .expect("a core");
    end(handle);
}

/// One request to both.
#[derive(Clone, Debug)]
enum Asked {
    Range(RangeRequest),
    Put(PutRequest),
    Delete(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact(CompactionRequest),
    Watch(WatchCreateRequest),
}

/// The answer as text, and the revision that it tells.
async fn answer(
    client: &Client,
    asked: &Asked,
    twice: &BTreeSet<i64>,
    count: Option<usize>,
) -> (String, i64) {
    let kv = KvClient::new(client.clone());
    match asked.clone() {
        Asked::Range(request) => shown(kv.range(request).await, |it| plain(&mut it.header)),
        Asked::Put(request) => shown(kv.put(request).await, |it| plain(&mut it.header)),
        Asked::Delete(request) => shown(kv.delete_range(request).await, |it| plain(&mut it.header)),
        Asked::Txn(request) => shown(kv.txn(request).await, plain_txn),
        Asked::Compact(request) => shown(kv.compact(request).await, |it| plain(&mut it.header)),
        Asked::Watch(request) => (watched(client, request, twice, count).await, 0),
    }
}

fn shown<T: std::fmt::Debug>(
    answer: Result<T, Status>,
    plain: impl FnOnce(&mut T) -> i64,
) -> (String, i64) {
    match answer {
        Ok(mut answer) => {
            let revision = plain(&mut answer);
            (format!("{answer:?}"), revision)
        }
        Err(status) => (status.to_string(), 0),
    }
}

/// Leaves nothing of a header but its revision.
fn plain(header: &mut Option<ResponseHeader>) -> i64 {
    let revision = header.map_or(0, |header| header.revision);
    *header = Some(ResponseHeader { revision, ..ResponseHeader::default() });
    revision
}

fn plain_txn(answer: &mut TxnResponse) -> i64 {
    for inner in &mut answer.responses {
        match &mut inner.response {
            Some(Response::ResponseRange(it)) => _ = plain(&mut it.header),
            Some(Response::ResponsePut(it)) => _ = plain(&mut it.header),
            Some(Response::ResponseDeleteRange(it)) => _ = plain(&mut it.header),
            Some(Response::ResponseTxn(it)) => _ = plain_txn(it),
            None => {}
        }
    }
    plain(&mut answer.header)
}

/// Whether a request is a transaction with a deletion that has no end, with which etcd does not compare puts.
fn may_change_twice(asked: &Asked) -> bool {
    fn is_endless(operation: &RequestOp) -> bool {
        match &operation.request {
            Some(Request::RequestDeleteRange(delete)) => delete.range_end == "\0",
            Some(Request::RequestTxn(nested)) => {
                nested.success.iter().chain(&nested.failure).any(is_endless)
            }
            _ => false,
        }
    }
    match asked {
        Asked::Txn(txn) => txn.success.iter().chain(&txn.failure).any(is_endless),
        _ => false,
    }
}

fn lines(told: &str) -> usize {
    told.matches('\n').count()
}

/// What a watch tells up to now, or so many lines of that. Our registry tells all of it before it tells progress that was
/// asked for; etcd tells that at once.
async fn watched(
    client: &Client,
    create: WatchCreateRequest,
    twice: &BTreeSet<i64>,
    count: Option<usize>,
) -> String {
    let (mut requests, mut responses) = WatchClient::new(client.clone()).watch();
    let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
    for request in [RequestUnion::CreateRequest(create), progress] {
        let request = WatchRequest { request_union: Some(request) };
        requests.send(request).await.expect("it is sent");
    }
    let (mut told, mut is_told) = (String::new(), false);
    loop {
        let response = responses.next().await.expect("no failure").expect("no end");
        let at = |event: &&Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
        for event in response.events.iter().filter(|event| !twice.contains(&at(event))) {
            told += &format!("\n{event:?}");
        }
        if response.created || response.canceled {
            let compacted = response.compact_revision;
            let (created, canceled) = (response.created, response.canceled);
            // etcd says why only of watches that never began.
            let why = if created { &*response.cancel_reason } else { "" };
            told += &format!("\ncreated {created} canceled {canceled} at {compacted} {why}");
        }
        let is_progress = response.events.is_empty() && !response.created && !response.canceled;
        is_told |= is_progress;
        if response.canceled || is_told && count.is_none_or(|count| lines(&told) >= count) {
            return told;
        }
    }
}

struct Random {
    rng: Rng,
    /// The last revision that was told.
    revision: i64,
}

impl Random {
    fn one_of(&mut self, of: usize) -> bool {
        self.rng.usize(..of) == 0
    }

    fn request(&mut self) -> Asked {
        match self.rng.u32(..100) {
            0..30 => Asked::Put(self.put()),
            30..55 => Asked::Range(self.range()),
            55..63 => Asked::Delete(self.delete()),
            63..83 => Asked::Txn(self.txn(0)),
            83..85 => {
                let revision = if self.one_of(3) { self.rng.i64(0..3) } else { self.past() };
                Asked::Compact(CompactionRequest { revision, physical: false })
            }
            _ => Asked::Watch(self.watch()),
        }
    }

    /// So few that etcd sorts them by insertion, and equal ones keep their order.
    fn key(&mut self) -> Bytes {
        const KEYS: [&str; 12] = ["", "\0", "a", "a1", "a2", "b", "b1", "c", "c1", "c2", "d", "e"];
        let at = self.rng.usize(..40);
        KEYS[if at < 2 { at } else { 2 + at % (KEYS.len() - 2) }].into()
    }

    fn end(&mut self, key: &Bytes) -> Bytes {
        match self.rng.u32(..6) {
            0 => "\0".into(),
            1 | 2 => {
                let mut end = key.to_vec();
                if let Some(last) = end.last_mut() {
                    *last += 1;
                }
                end.into()
            }
            3 => self.key(),
            _ => Bytes::new(),
        }
    }

    fn past(&mut self) -> i64 {
        match self.rng.u32(..8) {
            0 => self.rng.i64(1..self.revision + 4),
            1 | 2 => (self.revision - self.rng.i64(0..9)).max(1),
            3 if self.one_of(4) => -self.rng.i64(1..3),
            _ => 0,
        }
    }

    fn put(&mut self) -> PutRequest {
        let (ignore_value, ignore_lease) = (self.one_of(8), self.one_of(8));
        let is_empty = ignore_value && !self.one_of(4);
        let value = if is_empty { "" } else { ["v", "w", "x"][self.rng.usize(..3)] };
        let lease = if self.one_of(12) { 77 } else { 0 };
        let (key, prev_kv) = (self.key(), self.rng.bool());
        PutRequest { key, value: value.into(), lease, prev_kv, ignore_value, ignore_lease }
    }

    fn range(&mut self) -> RangeRequest {
        let key = self.key();
        let mut bound = || match self.rng.u32(..6) {
            0 => self.rng.i64(0..self.revision + 2),
            _ => 0,
        };
        let [min_mod_revision, max_mod_revision] = [bound(), bound()];
        let [min_create_revision, max_create_revision] = [bound(), bound()];
        RangeRequest {
            range_end: self.end(&key),
            key,
            limit: if self.rng.bool() { self.rng.i64(-1..5) } else { 0 },
            revision: self.past(),
            sort_order: self.rng.i32(0..3),
            sort_target: self.rng.i32(0..5),
            serializable: self.one_of(4),
            keys_only: self.one_of(5),
            count_only: self.one_of(7),
            min_mod_revision,
            max_mod_revision,
            min_create_revision,
            max_create_revision,
        }
    }

    fn delete(&mut self) -> DeleteRangeRequest {
        let key = self.key();
        let range_end = if self.one_of(3) { self.end(&key) } else { Bytes::new() };
        DeleteRangeRequest { key, range_end, prev_kv: self.rng.bool() }
    }

    fn txn(&mut self, depth: usize) -> TxnRequest {
        let compare = (0..self.rng.usize(..3)).map(|_| self.compare()).collect();
        let [success, failure] = [(); 2].map(|()| {
            let operations = (0..self.rng.usize(..4)).map(|_| {
                let request = match self.rng.u32(..8) {
                    0..3 => Request::RequestPut(self.put()),
                    3..5 => Request::RequestRange(self.range()),
                    5 => Request::RequestDeleteRange(self.delete()),
                    _ if depth < 2 => Request::RequestTxn(self.txn(depth + 1)),
                    _ => Request::RequestRange(self.range()),
                };
                RequestOp { request: Some(request) }
            });
            operations.collect()
        });
        TxnRequest { compare, success, failure }
    }

    fn compare(&mut self) -> Compare {
        let key = self.key();
        let range_end = if self.one_of(3) { self.end(&key) } else { Bytes::new() };
        let target = self.rng.i32(0..5);
        let number =
            if self.rng.bool() { self.rng.i64(0..3) } else { self.rng.i64(0..=self.revision) };
        let union = match target {
            0 => TargetUnion::Version(number),
            1 => TargetUnion::CreateRevision(number),
            2 => TargetUnion::ModRevision(number),
            3 => TargetUnion::Value(["v", "w", "y"][self.rng.usize(..3)].into()),
            _ => TargetUnion::Lease(number),
        };
        let target_union = (!self.one_of(15)).then_some(union);
        Compare { result: self.rng.i32(0..4), target, key, target_union, range_end }
    }

    fn watch(&mut self) -> WatchCreateRequest {
        let key = self.key();
        WatchCreateRequest {
            range_end: self.end(&key),
            key,
            start_revision: self.past().max(0),
            prev_kv: self.rng.bool(),
            filters: (0..2).filter(|_| self.one_of(4)).collect(),
            fragment: self.rng.bool(),
            ..WatchCreateRequest::default()
        }
    }
}
