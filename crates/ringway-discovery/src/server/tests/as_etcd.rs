//! Answers that clients of etcd rely on.

use super::*;
use crate::etcd::api::etcdserverpb::{
    AlarmRequest, ClusterClient, MaintenanceClient, MemberListRequest, WatchResponse,
};

/// A stream of watches.
struct Watches {
    requests: ringway_rpc::Sink<WatchRequest>,
    responses: ringway_rpc::Streaming<WatchResponse>,
}

impl Watches {
    fn new(client: Client) -> Self {
        let (requests, responses) = WatchClient::new(client).watch();
        Self { requests, responses }
    }

    async fn ask(&mut self, request: RequestUnion) {
        let request = WatchRequest { request_union: Some(request) };
        self.requests.send(request).await.expect("it is sent");
    }

    async fn next(&mut self) -> WatchResponse {
        let response = runtime::timeout(Duration::from_secs(30), self.responses.next()).await;
        response.expect("in time").expect("no failure").expect("no end")
    }
}

fn create(key: &'static str) -> WatchCreateRequest {
    WatchCreateRequest { key: key.into(), start_revision: 1, prev_kv: true, ..Default::default() }
}

#[test]
fn the_changes_of_one_revision_come_in_parts_if_their_reader_wants_that() {
    with_server(async |_, client: Client| {
        let keys = KvClient::new(client.clone());
        for at in 0..100 {
            keys.put(put(format!("large/{at:03}"), vec![0; 30_000])).await.expect("it is put");
        }
        let prefix = |key: &'static str| (Bytes::from(key), Bytes::from("large0"));
        let (key, range_end) = prefix("large/");
        let delete = DeleteRangeRequest { key, range_end, prev_kv: false };
        let deleted = keys.delete_range(delete).await.expect("they are deleted");
        let start_revision = deleted.header.expect("a header").revision;
        for fragment in [true, false] {
            let mut watches = Watches::new(client.clone());
            let (key, range_end) = prefix("large/");
            let create =
                WatchCreateRequest { key, range_end, start_revision, fragment, ..create("") };
            watches.ask(RequestUnion::CreateRequest(create)).await;
            assert!(watches.next().await.created);
            let (mut told, mut parts) = (Vec::new(), 0);
            loop {
                let part = watches.next().await;
                parts += 1;
                assert!(!fragment || part.encoded_len() < limits::WATCH_PART_BYTES + 40_000);
                told.extend(part.events);
                if !part.fragment {
                    break;
                }
            }
            let is_next = |(at, event): (usize, &crate::etcd::api::mvccpb::Event)| {
                event.prev_kv.as_ref().is_some_and(|kv| kv.key == format!("large/{at:03}"))
            };
            assert_eq!((told.len(), told.iter().enumerate().all(is_next)), (100, true));
            assert_eq!(parts > 1, fragment, "{parts} parts");
        }
    });
}

#[test]
fn watches_that_cannot_be_or_were_compacted_end_as_those_of_etcd() {
    with_server(async |_, client: Client| {
        let mut watches = Watches::new(client.clone());
        let compacted = "etcdserver: mvcc: required revision has been compacted";
        for (wrong, why) in [
            (
                WatchCreateRequest { range_end: "a".into(), ..create("b") },
                "mvcc: watcher range is empty",
            ),
            (WatchCreateRequest { start_revision: -1, ..create("b") }, compacted),
        ] {
            watches.ask(RequestUnion::CreateRequest(wrong)).await;
            let refused = watches.next().await;
            assert_eq!((refused.created, refused.canceled, refused.watch_id), (true, true, -1));
            assert_eq!(refused.cancel_reason, why);
        }

        let keys = KvClient::new(client);
        for value in ["1", "2", "3"] {
            keys.put(put("a", value)).await.expect("it is put");
        }
        let last = keys.put(put("a", "4")).await.expect("it is put").header.expect("a header");
        let compaction = CompactionRequest { revision: last.revision, physical: false };
        keys.compact(compaction).await.expect("it has come");
        for _ in 0..2 {
            let old = WatchCreateRequest { watch_id: 7, ..create("a") };
            watches.ask(RequestUnion::CreateRequest(old)).await;
            assert!(watches.next().await.created);
            let compacted = watches.next().await;
            assert_eq!((compacted.canceled, compacted.compact_revision), (true, last.revision));
            let cancel = WatchCancelRequest { watch_id: 7 };
            watches.ask(RequestUnion::CancelRequest(cancel)).await;
            let cancelled = watches.next().await;
            assert_eq!((cancelled.canceled, cancelled.compact_revision), (true, 0));
        }
        // What was before the first revision that is left is forgotten.
        let start_revision = last.revision;
        let from_there = WatchCreateRequest { start_revision, ..create("a") };
        watches.ask(RequestUnion::CreateRequest(from_there)).await;
        let first = watches.next().await;
        assert_eq!(
            (first.created, first.watch_id),
            (true, 0),
            "refused ones have used up no number"
        );
        let told = watches.next().await.events;
        assert_eq!((told.len(), &told[0].prev_kv), (1, &None));
    });
}

#[test]
fn a_watch_whose_client_asks_for_nothing_more_is_still_told() {
    with_server(async |registry: Registry, client: Client| {
        let mut watches = Watches::new(client.clone());
        watches.ask(RequestUnion::CreateRequest(create("a"))).await;
        let Watches { requests, mut responses } = watches;
        requests.finish();
        assert!(responses.next().await.expect("no failure").expect("no end").created);
        KvClient::new(client).put(put("a", "1")).await.expect("it is put");
        let told = responses.next().await.expect("no failure").expect("no end");
        assert_eq!(told.events.len(), 1);
        drop(responses);
        while !registry.state().listeners.is_empty() {
            runtime::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_watch_that_goes_on_from_a_registry_before_hears_that_it_may_have_missed_something() {
    let before = Registry::new();
    for _ in 0..1_000 {
        let put = |change: &mut Transaction<'_>| change.put("k".into(), "v".into(), LeaseId::NONE);
        before.state().store.change(put).0.expect("without a lease");
    }
    let seen = before.state().store.revision();
    drop(before);
    assert!(seen.0 < 1 << 53, "JSON has it exactly");
    serve_for(Registry::new(), async move |_, client: Client| {
        let keys = KvClient::new(client.clone());
        let revision = keys.put(put("k", "1")).await.expect("it is put").header;
        assert!(revision.expect("a header").revision > seen.0);
        let (mut requests, mut responses) = WatchClient::new(client).watch();
        requests.send(watch("k".into(), seen.next().0)).await.expect("it is sent");
        assert!(responses.next().await.expect("no failure").expect("no end").created);
        let told = runtime::timeout(Duration::from_secs(5), responses.next()).await;
        let told = told.expect("it does not wait").expect("no failure").expect("no end");
        assert!(told.canceled && told.compact_revision > seen.0, "{told:?}");
    });
}

#[test]
fn no_client_is_told_to_dial_its_own_machine() {
    let told = |registry: Registry| {
        let server = registry.serve_on(Server::bind("tcp://0.0.0.0:0").expect("a free port"));
        let handle = server.threads(1).start().expect("the server starts");
        let port = handle.addresses()[0].port().expect("a port");
        let client = Client::connect(format!("tcp://127.0.0.1:{port}")).expect("an address");
        let list = async move {
            let cluster = ClusterClient::new(client);
            let members = cluster.member_list(MemberListRequest::default()).await;
            members.expect("it answers").members.remove(0).client_ur_ls
        };
        let urls = runtime::block_on(list).expect("a core");
        handle.shutdown();
        handle.wait().expect("it ends in order");
        (urls, format!("http://127.0.0.1:{port}"))
    };
    let (urls, reached) = told(Registry::new());
    assert_eq!(urls, [reached]);
    let advertised = "http://registry.example:2379";
    let opening = Registry::builder().advertise_client_urls([advertised]);
    let opened = runtime::block_on(async move { opening.open().await }).expect("a core");
    assert_eq!(told(opened.expect("an address")).0, [advertised]);
    let opening = Registry::builder().advertise_client_urls(["http://0.0.0.0:2379"]);
    let refused = runtime::block_on(async move { opening.open().await }).expect("a core").err();
    let why = refused.expect("everywhere").to_string();
    assert!(why.contains("the client's own machine"), "{why}");
}

#[test]
fn maintenance_is_answered_and_no_alarm_is_raised_by_hand() {
    use ringway_rpc::Code::{OutOfRange, Unimplemented};
    with_server(async |registry: Registry, client: Client| {
        let maintenance = MaintenanceClient::new(client);
        let alarms = maintenance.alarm(AlarmRequest::default()).await.expect("it answers");
        assert_eq!(alarms.alarms, []);
        let raise = AlarmRequest { action: 1, alarm: 1, ..AlarmRequest::default() };
        refused(maintenance.alarm(raise).await, Unimplemented, "raises its alarms itself");
        maintenance.defragment(Default::default()).await.expect("there is nothing to do");
        let hash = async |revision| {
            let request = crate::etcd::api::etcdserverpb::HashKvRequest { revision };
            maintenance.hash_kv(request).await
        };
        registry.put(put("a", "1")).await.expect("it is put");
        let before = hash(0).await.expect("it answers");
        let revision = before.header.as_ref().expect("a header").revision;
        registry.put(put("a", "2")).await.expect("it is put");
        assert_eq!(hash(revision).await.expect("it answers").hash, before.hash);
        let now = hash(0).await.expect("it answers").hash;
        assert_ne!(now, before.hash);
        let whole = maintenance.hash(Default::default()).await.expect("it answers");
        assert_eq!(whole.hash, now);
        refused(hash(revision + 9).await, OutOfRange, "future revision");
    });
}

#[test]
fn a_transaction_may_delete_all_from_a_key_on_and_put_one_of_them() {
    let mut store = Store::new();
    let delete = DeleteRangeRequest { key: "a".into(), range_end: "\0".into(), prev_kv: true };
    let success = vec![
        operation(Request::RequestDeleteRange(delete)),
        operation(Request::RequestPut(put("b", "2"))),
    ];
    let request = TxnRequest { success, ..TxnRequest::default() };
    transaction::check(&request).expect("etcd takes it");
    for _ in 0..2 {
        transaction::run(&mut store, request.clone()).expect("it is carried out");
        let kept = store.get(b"b").expect("it was put");
        assert_eq!((store.len(), kept.version, &*kept.value), (1, 1, &b"2"[..]));
        assert_eq!(kept.create_revision, store.revision(), "it is a new key");
    }
}

#[test]
fn the_first_compactions_of_nothing_are_taken_as_by_etcd() {
    use ringway_rpc::Code::OutOfRange;
    let mut store = Store::new();
    let read_before_all = |store: &mut Store| {
        let range = RangeRequest { key: "a".into(), revision: -1, ..RangeRequest::default() };
        let success = vec![operation(Request::RequestRange(range))];
        transaction::run(store, TxnRequest { success, ..TxnRequest::default() })
    };
    read_before_all(&mut store).expect("nothing was compacted");
    for (at, is_taken) in [(-1, false), (0, true), (0, false), (1, true), (0, false), (1, false)] {
        assert_eq!(store.compact(Revision(at)).is_ok(), is_taken, "{at}");
    }
    refused(read_before_all(&mut store), OutOfRange, "has been compacted");
}

#[test]
fn without_an_order_the_first_keys_are_sorted_and_not_all() {
    with_server(async |_, client: Client| {
        let keys = KvClient::new(client);
        for (key, value) in [("a", "3"), ("b", "2"), ("c", "1"), ("d", "0")] {
            keys.put(put(key, value)).await.expect("it is put");
        }
        let found = async |sort_order| {
            let (key, range_end) = ("a".into(), "z".into());
            let request = RangeRequest {
                key,
                range_end,
                limit: 2,
                sort_order,
                sort_target: 4,
                ..Default::default()
            };
            let found = keys.range(request).await.expect("it answers");
            let names: Vec<_> = found.kvs.into_iter().map(|kv| kv.key).collect();
            (names, found.more, found.count)
        };
        assert_eq!(found(0).await, (vec!["c".into(), "b".into()], true, 4));
        assert_eq!(found(1).await, (vec!["d".into(), "c".into()], true, 4));
    });
}
