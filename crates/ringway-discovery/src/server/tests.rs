//! What clients can make a registry hold and do, and what it tells them.

use std::path::Path;

use bytes::Bytes;
use prost::Message;
use ringway_rpc::{Client, Server};
use ringway_runtime::sim::{Disk, SimConfig, mount};
use ringway_runtime::{self as runtime, Builder};

use super::*;
use crate::etcd::api::etcdserverpb::request_op::Request;
use crate::etcd::api::etcdserverpb::response_op::Response;
use crate::etcd::api::etcdserverpb::watch_request::RequestUnion;
use crate::etcd::api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, Kv, KvClient, Lease, LeaseClient,
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest,
    RequestOp, TxnRequest, WatchCancelRequest, WatchClient, WatchCreateRequest,
    WatchProgressRequest, WatchRequest,
};
use crate::log::Folder;
use crate::store::{KeyRange, LeaseId, Transaction};

mod as_etcd;

fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> PutRequest {
    PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() }
}

fn watch(key: Bytes, start_revision: i64) -> WatchRequest {
    let create = WatchCreateRequest { key, start_revision, ..WatchCreateRequest::default() };
    WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

fn operation(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

/// A message as it comes from the network, with the memory that its fields share.
fn decoded<T: Message + Default>(message: &T) -> (T, Bytes) {
    let bytes = Bytes::from(message.encode_to_vec());
    (T::decode(bytes.clone()).expect("it was encoded"), bytes)
}

/// A registry that begins as etcd does.
fn from_first() -> Registry {
    Registry::make_at(Revision::FIRST, None, None)
}

/// Runs a test against a registry server on a free port.
fn with_server(test: impl AsyncFnOnce(Registry, Client) + Send + 'static) {
    serve_for(from_first(), test);
}

fn serve_for(registry: Registry, test: impl AsyncFnOnce(Registry, Client) + Send + 'static) {
    let server = registry.serve_on(Server::bind("tcp://127.0.0.1:0").expect("a free port"));
    let handle = server.threads(1).start().expect("the server starts");
    let address = handle.addresses().first().expect("an address").to_string();
    let client = Client::connect(address).expect("an address");
    runtime::block_on(async move { test(registry, client).await }).expect("a runtime");
    handle.shutdown();
    handle.wait().expect("it ends in order");
}

#[test]
fn progress_is_told_only_of_what_every_watch_has_seen() {
    with_server(async |_, client: Client| {
        let keys = KvClient::new(client.clone());
        for _ in 0..60 {
            keys.put(put("b", vec![0; 64 << 10])).await.expect("it is put");
        }
        let (mut requests, mut responses) = WatchClient::new(client).watch();
        requests.send(watch("a".into(), 0)).await.expect("it is sent");
        requests.send(watch("b".into(), 1)).await.expect("it is sent");
        let asked = RequestUnion::ProgressRequest(WatchProgressRequest {});
        let asked = WatchRequest { request_union: Some(asked) };
        requests.send(asked).await.expect("it is sent");
        let (mut has_put, mut progress) = (false, 0);
        loop {
            let response = responses.next().await.expect("no failure").expect("no end");
            match response.events.first().and_then(|event| event.kv.as_ref()) {
                Some(b) if b.key == "b" && !has_put => {
                    // The rest waits for its reader, and the watch of \"a\" was served.
                    keys.put(put("a", "1")).await.expect("it is put");
                    has_put = true;
                }
                Some(a) if a.key == "a" => {
                    assert!(a.mod_revision > progress, "{} after {progress}", a.mod_revision);
                    return;
                }
                None if !response.created => {
                    progress = response.header.expect("a header").revision;
                }
                _ => {}
            }
        }
    });
}

#[test]
fn a_watch_that_was_quiet_does_not_miss_what_was_compacted_meanwhile() {
    with_server(async |_, client: Client| {
        let keys = KvClient::new(client.clone());
        let (mut requests, mut responses) = WatchClient::new(client).watch();
        requests.send(watch("quiet".into(), 0)).await.expect("it is sent");
        assert!(responses.next().await.expect("no failure").expect("no end").created);
        for _ in 0..3 {
            keys.put(put("busy", "1")).await.expect("it is put");
        }
        let last = keys.put(put("busy", "2")).await.expect("it is put");
        let revision = last.header.expect("a header").revision;
        let compaction = CompactionRequest { revision, physical: false };
        keys.compact(compaction).await.expect("it has come");
        keys.put(put("quiet", "1")).await.expect("it is put");
        let heard = responses.next().await.expect("no failure").expect("no end");
        assert!(!heard.canceled, "{}", heard.cancel_reason);
        assert_eq!(heard.events.len(), 1);
    });
}

#[test]
fn watches_of_one_stream_name_so_many_bytes_and_no_more() {
    with_server(async |_, client: Client| {
        let (mut requests, mut responses) = WatchClient::new(client).watch();
        let key = vec![b'k'; limits::WATCHED_BYTES_PER_STREAM_MAX / 4];
        let mut refused = Vec::new();
        for _ in 0..5 {
            requests.send(watch(key.clone().into(), 0)).await.expect("it is sent");
            let response = responses.next().await.expect("no failure").expect("no end");
            refused.push(response.canceled);
        }
        assert_eq!(refused, [false, false, false, false, true]);
        let cancel = crate::etcd::api::etcdserverpb::WatchCancelRequest { watch_id: 0 };
        let cancel = WatchRequest { request_union: Some(RequestUnion::CancelRequest(cancel)) };
        requests.send(cancel).await.expect("it is sent");
        requests.send(watch(key.into(), 0)).await.expect("it is sent");
        let cancelled = responses.next().await.expect("no failure").expect("no end");
        let watched = responses.next().await.expect("no failure").expect("no end");
        assert!(cancelled.canceled && !watched.canceled, "{}", watched.cancel_reason);
    });
}

#[test]
fn what_a_request_leaves_behind_does_not_hold_its_memory() {
    let mut store = Store::new();
    let (request, memory) = decoded(&TxnRequest {
        compare: vec![Compare { key: vec![0; 1 << 20].into(), ..Compare::default() }],
        success: vec![operation(Request::RequestPut(put("a", "1")))],
        failure: Vec::new(),
    });
    assert!(!memory.is_unique(), "its fields share the memory");
    transaction::run(&mut store, request).expect("it is carried out");
    assert_eq!(store.len(), 1);
    assert!(memory.is_unique(), "the key or its value holds a MiB");

    let (request, memory) = decoded(&watch("a".into(), 1));
    let Some(RequestUnion::CreateRequest(create)) = request.request_union else {
        panic!("it was encoded");
    };
    let watcher = watcher::Watcher::new(1, &create, store.revision());
    drop(create);
    assert!(memory.is_unique() && watcher.range.contains(b"a"), "the watch holds its request");
}

#[test]
fn a_transaction_meets_all_keys_once_and_not_a_thousand_times() {
    let mut store = Store::new();
    store
        .change(|change| {
            (0..2_000).try_for_each(|at: u32| {
                change.put(at.to_be_bytes().to_vec().into(), Bytes::new(), LeaseId::NONE).map(drop)
            })
        })
        .0
        .expect("without a lease");
    let all = || RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
    let ranges = |number: usize| TxnRequest {
        success: (0..number).map(|_| operation(Request::RequestRange(all()))).collect(),
        ..TxnRequest::default()
    };
    transaction::run(&mut store, ranges(1)).expect("one range");
    let nested = (0..7).map(|_| operation(Request::RequestTxn(ranges(100)))).collect();
    let request = TxnRequest { success: nested, ..TxnRequest::default() };
    transaction::check(&request).expect("few enough operations");
    let refused = transaction::run(&mut store, request).err().expect("1.4 million keys");
    assert!(refused.message().contains("too many keys"), "{refused}");
}

/// Keys `name/0` and so on, whose values have a MiB.
fn put_large(store: &mut Store, name: &str, count: usize) {
    let value = Bytes::from(vec![b'v'; 1 << 20]);
    let put = |change: &mut Transaction<'_>| {
        (0..count).try_for_each(|at| {
            let key = format!("{name}/{at:03}").into();
            change.put(key, value.clone(), LeaseId::NONE).map(drop)
        })
    };
    store.change(put).0.expect("without a lease");
}

fn range_of(prefix: &'static str, limit: i64) -> RangeRequest {
    let KeyRange::Between(key, range_end) = KeyRange::prefix(prefix) else {
        panic!("it has an end");
    };
    RangeRequest { key, range_end, limit, ..RangeRequest::default() }
}

#[test]
fn a_transaction_that_would_read_too_much_behind_its_changes_changes_nothing() {
    let mut store = Store::new();
    let count = (limits::READ_BYTES_MAX >> 20) + 1;
    put_large(&mut store, "q/large", count);
    for at in 0..count {
        let put = |change: &mut Transaction<'_>| {
            change.put(format!("q/a/{at:03}").into(), Bytes::new(), LeaseId::NONE)
        };
        store.change(put).0.expect("without a lease");
    }
    let before = (store.revision(), store.len());
    // What is there is short, and what is first without it is not.
    let small = range_of("q/a/", 0);
    let delete = DeleteRangeRequest { key: small.key, range_end: small.range_end, prev_kv: false };
    let read = range_of("q/", i64::try_from(count).expect("few"));
    let success = vec![
        operation(Request::RequestDeleteRange(delete)),
        operation(Request::RequestRange(read)),
    ];
    let request = TxnRequest { success, ..TxnRequest::default() };
    transaction::check(&request).expect("it is well formed");
    let refused = transaction::run(&mut store, request).err().expect("it would be too long");
    assert_eq!(refused.message(), failure::too_much_read().message());
    assert_eq!((store.revision(), store.len()), before);

    let delete = DeleteRangeRequest { key: "q/a/000".into(), ..DeleteRangeRequest::default() };
    let success = vec![
        operation(Request::RequestDeleteRange(delete)),
        operation(Request::RequestRange(range_of("q/", 1))),
    ];
    let request = TxnRequest { success, ..TxnRequest::default() };
    let answer = transaction::run(&mut store, request).expect("one short key is read");
    let Some(Response::ResponseRange(read)) = &answer.into_response().responses[1].response else {
        panic!("it was a range");
    };
    assert_eq!(read.kvs[0].key, "q/a/001");
}

#[test]
fn what_a_transaction_reads_behind_its_changes_has_a_bound_in_any_order() {
    let mut store = Store::new();
    let count = (limits::READ_BYTES_MAX >> 20) + 1;
    put_large(&mut store, "q/large", count);
    let small =
        |change: &mut Transaction<'_>| change.put("q/small".into(), Bytes::new(), LeaseId::NONE);
    store.change(small).0.expect("without a lease");
    // Each put has its key be the one that was changed last, with the value that it has.
    let touch_and_read = (0..count.min(limits::TXN_OPERATIONS_MAX / 2)).flat_map(|at| {
        let key = format!("q/large/{at:03}");
        let touch = PutRequest { ignore_value: true, ..put(key, "") };
        let last = RangeRequest { sort_order: 2, sort_target: 3, ..range_of("q/", 1) };
        [operation(Request::RequestPut(touch)), operation(Request::RequestRange(last))]
    });
    let nested = |operations: Vec<RequestOp>| {
        let txn = TxnRequest { success: operations, ..TxnRequest::default() };
        operation(Request::RequestTxn(txn))
    };
    let all: Vec<_> = touch_and_read.collect();
    let read_again = (0..8).map(|_| {
        let last = RangeRequest { sort_order: 2, sort_target: 3, ..range_of("q/", 1) };
        operation(Request::RequestRange(last))
    });
    let success = vec![nested(all), nested(read_again.collect())];
    let request = TxnRequest { success, ..TxnRequest::default() };
    transaction::check(&request).expect("it is well formed");
    let refused = transaction::run(&mut store, request).err().expect("it would be too long");
    assert_eq!(refused.message(), failure::too_much_read().message());
}

#[test]
fn what_a_transaction_has_deleted_has_no_value_to_keep() {
    let mut store = Store::new();
    let put_k = |change: &mut Transaction<'_>| change.put("k".into(), "v".into(), LeaseId::NONE);
    store.change(put_k).0.expect("without a lease");
    let before = (store.revision(), store.len());
    for ignores in [
        PutRequest { ignore_value: true, ..put("k", "") },
        PutRequest { ignore_lease: true, ..put("k", "w") },
    ] {
        // Such deletions are not compared with puts.
        let all = DeleteRangeRequest { key: "a".into(), range_end: "\0".into(), prev_kv: false };
        let success = vec![
            operation(Request::RequestDeleteRange(all)),
            operation(Request::RequestPut(ignores)),
        ];
        let request = TxnRequest { success, ..TxnRequest::default() };
        transaction::check(&request).expect("etcd takes it");
        let refused = transaction::run(&mut store, request).err().expect("nothing is left");
        assert_eq!(refused.message(), failure::key_not_found().message());
        assert_eq!((store.revision(), store.len()), before);
    }
}

/// Bytes that somebody counts.
struct Counted {
    _by: Arc<()>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        b"k/2"
    }
}

#[test]
fn keys_that_a_transaction_does_not_answer_are_not_kept_while_the_log_is_written() {
    let test = async {
        mount("/", &Disk::new(1)).expect("nothing is open");
        let folder = Folder::open_unlocked(Path::new("/data")).await.expect("an empty disk");
        let registry = Registry::builder().open_in(folder).await.expect("an empty folder");
        registry.put(put("k/1", "1")).await.expect("a sound disk");
        let count = Arc::new(());
        let second = Bytes::from_owner(Counted { _by: Arc::clone(&count) });
        let second = |change: &mut Transaction<'_>| change.put(second, Bytes::new(), LeaseId::NONE);
        registry.state().store.change(second).0.expect("without a lease");
        // The first of all that are sorted.
        let first = RangeRequest { sort_order: 1, ..range_of("k/", 1) };
        let success = vec![
            operation(Request::RequestPut(put("other", "1"))),
            operation(Request::RequestRange(first)),
        ];
        let mut call = pin!(registry.txn(TxnRequest { success, ..TxnRequest::default() }));
        poll_fn(|cx| {
            assert!(call.as_mut().poll(cx).is_pending(), "the log is not written yet");
            Poll::Ready(())
        })
        .await;
        assert!(Arc::strong_count(&count) > 1, "the store has it");
        registry.state().store = Store::new();
        assert_eq!(Arc::strong_count(&count), 1, "the call keeps what it does not answer");
    };
    Builder::simulate(SimConfig::new(1), test).expect("it is never stuck");
}

#[test]
fn others_have_their_turn_while_many_leases_expire() {
    let test = async {
        let registry = Registry::new();
        let leases = || registry.state().store.lease_count();
        for _ in 0..10 * limits::EXPIRED_AT_ONCE {
            let request = LeaseGrantRequest { ttl: 2, id: 0 };
            registry.lease_grant(request).await.expect("it is granted");
        }
        runtime::sleep(limits::LEASE_TTL_MIN - Duration::from_millis(1)).await;
        let all = leases();
        while leases() == all {
            runtime::sleep(Duration::from_nanos(1_000)).await;
        }
        assert!(leases() > 0, "all have expired in one turn");
        while leases() > 0 {
            runtime::yield_now().await;
        }
    };
    Builder::simulate(SimConfig::new(1), test).expect("it is never stuck");
}

#[test]
fn a_key_is_gone_within_a_second_of_its_leases_end() {
    let test = async {
        let registry = Registry::new();
        let ttl = Duration::from_secs(10);
        let lease = registry.lease_grant(LeaseGrantRequest { ttl: 10, id: 0 }).await;
        let lease = lease.expect("it is granted").id;
        registry.put(PutRequest { lease, ..put("key", "value") }).await.expect("it is put");
        let is_there = || registry.state().store.get(b"key").is_some();
        runtime::sleep(ttl - Duration::from_millis(1)).await;
        assert!(is_there(), "it has some time left");
        runtime::sleep(Duration::from_secs(1)).await;
        assert!(!is_there(), "nobody has ended it");
    };
    Builder::simulate(SimConfig::new(1), test).expect("it is never stuck");
}

#[test]
fn leases_end_at_a_server_that_nobody_asks() {
    let registry = Registry::new();
    let ttl = Duration::from_millis(1);
    registry.state().store.grant(LeaseId(1), ttl, Duration::ZERO).expect("the id is free");
    let server = registry.serve_on(Server::bind("tcp://127.0.0.1:0").expect("a free port"));
    let handle = server.threads(1).start().expect("the server starts");
    let has_ended = async move {
        while registry.state().store.lease_count() > 0 {
            runtime::sleep(Duration::from_millis(1)).await;
        }
    };
    let ended = runtime::block_on(runtime::timeout(Duration::from_secs(5), has_ended));
    handle.shutdown();
    handle.wait().expect("it ends in order");
    ended.expect("a runtime").expect("somebody looks after the leases");
}

#[test]
fn streams_end_when_their_server_stops() {
    let registry = Registry::new();
    let server = registry.serve_on(Server::bind("tcp://127.0.0.1:0").expect("a free port"));
    let handle = server.threads(1).start().expect("the server starts");
    let client = Client::connect(handle.addresses()[0].to_string()).expect("an address");
    let stopped = handle.clone();
    runtime::block_on(async move {
        let (mut requests, mut responses) = WatchClient::new(client.clone()).watch();
        requests.send(watch("a".into(), 0)).await.expect("it is sent");
        assert!(responses.next().await.expect("no failure").expect("no end").created);
        let leases = LeaseClient::new(client);
        let granted = leases.lease_grant(LeaseGrantRequest { ttl: 60, id: 0 }).await;
        let id = granted.expect("it is granted").id;
        let (mut renewals, mut renewed) = leases.lease_keep_alive();
        renewals.send(LeaseKeepAliveRequest { id }).await.expect("it is sent");
        assert!(renewed.next().await.expect("no failure").is_some());
        stopped.shutdown();
        for end in [responses.next().await.err(), renewed.next().await.err()] {
            let end = end.expect("the stream ends with an error");
            assert!(end.is_unavailable() && end.message().contains("server stopped"), "{end}");
        }
    })
    .expect("a runtime");
    handle.wait().expect("it ends in order");
}

/// A refusal by its code and a part of its text; the registry goes on.
#[track_caller]
fn refused<T>(answer: Result<T, Status>, code: ringway_rpc::Code, said: &str) {
    let Err(status) = answer else {
        panic!("not refused: {said}");
    };
    assert!(status.code() == code && status.message().contains(said), "{status}");
}

#[test]
fn requests_that_are_too_large_or_wrong_are_refused() {
    use ringway_rpc::Code::{InvalidArgument, NotFound, OutOfRange};
    with_server(async |_, client: Client| {
        let (keys, leases) = (KvClient::new(client.clone()), LeaseClient::new(client));
        let large = put("k", vec![0; limits::REQUEST_BYTES_MAX]);
        refused(keys.put(large).await, InvalidArgument, "request is too large");
        refused(keys.put(put("", "v")).await, InvalidArgument, "key is not provided");
        let unleased = PutRequest { lease: 7, ..put("k", "v") };
        refused(keys.put(unleased).await, NotFound, "lease not found");
        let valueless = PutRequest { ignore_value: true, ..put("k", "v") };
        refused(keys.put(valueless).await, InvalidArgument, "value is provided");
        let range = || RangeRequest { key: "k".into(), ..RangeRequest::default() };
        let future = RangeRequest { revision: i64::MAX, ..range() };
        refused(keys.range(future).await, OutOfRange, "future revision");
        let unsorted = RangeRequest { sort_order: 77, ..range() };
        refused(keys.range(unsorted).await, InvalidArgument, "invalid sort option");
        let puts = |count: usize| TxnRequest {
            success: (0..count)
                .map(|at| operation(Request::RequestPut(put(at.to_string(), "v"))))
                .collect(),
            ..TxnRequest::default()
        };
        let many = puts(limits::TXN_OPERATIONS_MAX + 1);
        refused(keys.txn(many).await, InvalidArgument, "too many operations");
        let nested = (0..2 * limits::TXN_OPERATIONS_TOTAL_MAX / limits::TXN_OPERATIONS_MAX)
            .map(|_| operation(Request::RequestTxn(puts(limits::TXN_OPERATIONS_MAX))))
            .collect();
        let nested = TxnRequest { success: nested, ..TxnRequest::default() };
        refused(keys.txn(nested).await, InvalidArgument, "too many operations");
        let long = LeaseGrantRequest { ttl: i64::MAX, id: 0 };
        refused(leases.lease_grant(long).await, OutOfRange, "too large lease TTL");
        let found = keys.range(RangeRequest { range_end: "\0".into(), ..range() }).await;
        assert_eq!(found.expect("it answers").count, 0, "nothing of all that was carried out");
    });
}

#[test]
fn leases_and_keys_have_an_end() {
    use ringway_rpc::Code::ResourceExhausted;
    with_server(async |registry: Registry, client: Client| {
        let (keys, leases) = (KvClient::new(client.clone()), LeaseClient::new(client));
        for id in 1..=limits::LEASES_MAX as i64 {
            let ttl = Duration::from_secs(3600);
            registry.state().store.grant(LeaseId(id), ttl, Duration::ZERO).expect("it is free");
        }
        let grant = LeaseGrantRequest { ttl: 60, id: 0 };
        refused(leases.lease_grant(grant).await, ResourceExhausted, "too many leases");

        let value = Bytes::from(vec![0; 1 << 20]);
        for at in 0..limits::KEYS_BYTES_MAX >> 20 {
            let (key, value) = (Bytes::from(format!("large/{at}")), value.clone());
            let mut state = registry.state();
            let put = |change: &mut Transaction<'_>| change.put(key, value, LeaseId::NONE);
            state.store.change(put).0.expect("without a lease");
        }
        refused(keys.put(put("k", "v")).await, ResourceExhausted, "database space exceeded");
        let all = DeleteRangeRequest { key: "\0".into(), range_end: "\0".into(), prev_kv: false };
        keys.delete_range(all).await.expect("deletions make room");
        keys.put(put("k", "v")).await.expect("there is room");
    });
}

#[test]
fn a_request_reads_no_more_than_its_bound_however_it_asks() {
    let mebibyte = Bytes::from(vec![7; 1 << 20]);
    let count = (limits::READ_BYTES_MAX >> 20) + 1;
    let all = |limit| RangeRequest {
        key: "a".into(),
        range_end: "b".into(),
        limit,
        ..RangeRequest::default()
    };
    let only = |key: &'static str| RangeRequest { key: key.into(), ..RangeRequest::default() };
    let read = |of: &RangeRequest, count| vec![operation(Request::RequestRange(of.clone())); count];
    let work = async move {
        let registry = Registry::new();
        for key in 0..count {
            let put = put(format!("a{key}"), mebibyte.clone());
            registry.put(put).await.expect("it is put");
        }
        let range = async |request: RangeRequest| Kv::range(&registry, request).await;
        let failure = range(all(0)).await.expect_err("too long");
        assert!(
            failure.is_resource_exhausted() && failure.message().contains("limit"),
            "{failure}"
        );
        assert_eq!(range(all(3)).await.expect("a page").kvs.len(), 3);
        let keys = RangeRequest { keys_only: true, ..all(0) };
        assert_eq!(range(keys).await.expect("short").kvs.len(), count);
        let txn =
            async |success| registry.txn(TxnRequest { success, ..TxnRequest::default() }).await;
        assert!(txn(read(&only("a0"), 9)).await.is_ok());
        let failure = txn(read(&only("a0"), count)).await.expect_err("the same many times");
        assert!(failure.is_resource_exhausted(), "{failure}");
        let mut written = read(&only("c"), count);
        written.insert(0, operation(Request::RequestPut(put("c", mebibyte.clone()))));
        let failure = txn(written).await.expect_err("what it puts itself");
        assert!(failure.is_resource_exhausted(), "{failure}");
        assert_eq!(range(only("c")).await.expect("short").count, 0, "nothing was changed");
    };
    Builder::simulate(SimConfig::new(1), work).expect("it is never stuck");
}

#[test]
fn what_was_there_before_a_change_is_bounded_as_what_is_read() {
    let mebibyte = Bytes::from(vec![7; 1 << 20]);
    let count = (limits::READ_BYTES_MAX >> 20) + 1;
    let work = async move {
        let registry = Registry::new();
        let grant = LeaseGrantRequest { ttl: 60, id: 0 };
        let lease = registry.lease_grant(grant).await.expect("it is granted").id;
        for key in 0..count {
            let put = PutRequest { lease, ..put(format!("a{key}"), mebibyte.clone()) };
            registry.put(put).await.expect("it is put");
        }
        let delete =
            |prev_kv| DeleteRangeRequest { key: "a".into(), range_end: "b".into(), prev_kv };
        let refused = |status: Option<Status>| {
            let status = status.expect("too long");
            assert!(status.is_resource_exhausted(), "{status}");
        };
        refused(registry.delete_range(delete(true)).await.err());
        let txn = async |operations: Vec<Request>| {
            let success = operations.into_iter().map(operation).collect();
            registry.txn(TxnRequest { success, ..TxnRequest::default() }).await
        };
        refused(txn(vec![Request::RequestDeleteRange(delete(true))]).await.err());
        let again = |key| PutRequest { prev_kv: true, ..put(format!("a{key}"), "") };
        refused(txn((0..count).map(again).map(Request::RequestPut).collect()).await.err());
        assert_eq!(registry.state().store.len(), count, "nothing was changed");
        let few = (0..9).map(again).map(Request::RequestPut).collect();
        assert_eq!(txn(few).await.expect("short").responses.len(), 9);
        let deleted = registry.delete_range(delete(true)).await.expect("short enough now");
        assert_eq!(deleted.prev_kvs.len(), count);
    };
    Builder::simulate(SimConfig::new(1), work).expect("it is never stuck");
}

#[test]
fn the_keys_of_a_lease_are_bounded_as_what_is_read() {
    let work = async {
        let registry = Registry::new();
        let grant = LeaseGrantRequest { ttl: 60, id: 0 };
        let lease = registry.lease_grant(grant).await.expect("it is granted").id;
        for at in 0..limits::READ_BYTES_MAX >> 20 {
            let mut key = vec![7; (1 << 20) + 1];
            key[0] = at as u8;
            let put = PutRequest { lease, ..put(key, "") };
            registry.put(put).await.expect("it is put");
        }
        let ask = |keys| LeaseTimeToLiveRequest { id: lease, keys };
        let status = registry.lease_time_to_live(ask(true)).await.expect_err("too long");
        assert!(status.is_resource_exhausted(), "{status}");
        let told = registry.lease_time_to_live(ask(false)).await.expect("short");
        assert_eq!(told.granted_ttl, 60);
    };
    Builder::simulate(SimConfig::new(1), work).expect("it is never stuck");
}

/// Puts so much that a stream whose client reads nothing cannot take it.
async fn put_much(keys: &KvClient, key: &'static str) {
    for _ in 0..640 {
        keys.put(put(key, vec![0; 64 << 10])).await.expect("it is put");
    }
}

#[test]
fn a_watch_that_is_always_behind_lets_others_of_its_stream_be_served() {
    with_server(async |_, client: Client| {
        let keys = KvClient::new(client.clone());
        put_much(&keys, "busy").await;
        let (mut requests, mut responses) = WatchClient::new(client).watch();
        requests.send(watch("busy".into(), 1)).await.expect("it is sent");
        requests.send(watch("quiet".into(), 1)).await.expect("it is sent");
        keys.put(put("quiet", "1")).await.expect("it is put");
        for _ in 0..60 {
            let response = responses.next().await.expect("no failure").expect("no end");
            if response.watch_id == 1 && !response.created {
                return;
            }
            for _ in &response.events {
                keys.put(put("busy", vec![0; 64 << 10])).await.expect("it is put");
            }
        }
        panic!("the second watch has heard nothing");
    });
}

#[test]
fn a_stream_whose_client_reads_nothing_hears_that_the_server_stops() {
    let registry = from_first();
    let server = registry.serve_on(Server::bind("tcp://127.0.0.1:0").expect("a free port"));
    let handle = server.threads(1).start().expect("the server starts");
    let client = Client::connect(handle.addresses()[0].to_string()).expect("an address");
    let stopped = handle.clone();
    let work = async move {
        let keys = KvClient::new(client.clone());
        put_much(&keys, "busy").await;
        let (mut requests, mut responses) = WatchClient::new(client).watch();
        requests.send(watch("busy".into(), 1)).await.expect("it is sent");
        assert!(responses.next().await.expect("no failure").expect("no end").created);
        stopped.shutdown();
        let is_over = async {
            while !registry.state().listeners.is_empty() {
                runtime::sleep(Duration::from_millis(1)).await;
            }
        };
        runtime::timeout(Duration::from_secs(5), is_over).await.expect("it does not wait");
    };
    runtime::block_on(work).expect("a runtime");
    handle.abort();
}

#[test]
fn watches_of_all_streams_have_an_end() {
    with_server(async |registry: Registry, client: Client| {
        let watched = |key: Bytes| KeyRange::Key(key);
        let (mut requests, mut responses) = WatchClient::new(client).watch();
        let mut is_refused = async |fill: &dyn Fn(&mut Listeners, listeners::ListenerId)| {
            let stream = registry.state().listeners.join();
            fill(&mut registry.state().listeners, stream);
            requests.send(watch("one more".into(), 0)).await.expect("it is sent");
            let response = responses.next().await.expect("no failure").expect("no end");
            drop(registry.state().listeners.leave(stream));
            response.canceled
        };
        let many = |listeners: &mut Listeners, stream| {
            (0..limits::WATCHES_MAX as i64)
                .for_each(|at| listeners.watch(stream, at, watched("k".into())));
        };
        assert!(is_refused(&many).await);
        let long = Bytes::from(vec![0; limits::WATCHED_BYTES_MAX / 4]);
        let long = |listeners: &mut Listeners, stream| {
            (0..4).for_each(|at| listeners.watch(stream, at, watched(long.clone())));
        };
        assert!(is_refused(&long).await);
        let gone = |listeners: &mut Listeners, stream| {
            many(listeners, stream);
            listeners.unwatch(stream, 7);
            listeners.unwatch(stream, 7);
        };
        assert!(!is_refused(&gone).await);
        assert!(!is_refused(&|_, _| {}).await);
    });
}

#[test]
fn a_registry_begins_with_the_revision_that_was_chosen() {
    let work = async {
        let first = Revision(1);
        let registry = Registry::builder().first_revision(first).open().await.expect("in memory");
        let header = registry.put(put("k", "v")).await.expect("it is put").header;
        assert_eq!(header.expect("a header").revision, 2);
    };
    Builder::simulate(SimConfig::new(1), work).expect("it is never stuck");
}
