//! Registries that lie, that say nothing, or that never end.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringway_rpc::{Server, ServerHandle, Sink, Status, Streaming};
use ringway_runtime as runtime;

use super::api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, Kv, KvServer,
    PutRequest, PutResponse, RangeRequest, RangeResponse, ResponseHeader, TxnRequest, TxnResponse,
    Watch, WatchRequest, WatchResponse, WatchServer,
};
use super::api::mvccpb::event::EventType;
use super::api::mvccpb::{Event, KeyValue};
use super::{EtcdConfig, EtcdRegistry};
use crate::contract::{Discovery, EndpointChange, Freshness, ServiceWatch};
use crate::endpoint::Endpoint;
use crate::limits;
use crate::server::Registry;

mod lessor;

/// A registry that says what it is told to.
#[derive(Clone, Default)]
struct Liar {
    /// The lists that it tells; the last one again and again.
    lists: Arc<Mutex<VecDeque<RangeResponse>>>,
    /// What it tells each watch after its creation, before it falls silent; later ones hear nothing.
    told: Arc<Mutex<VecDeque<Vec<WatchResponse>>>>,
}

impl Liar {
    fn new(lists: impl Into<VecDeque<RangeResponse>>, told: Vec<Vec<WatchResponse>>) -> Self {
        let (lists, told) = (Arc::new(Mutex::new(lists.into())), Arc::new(Mutex::new(told.into())));
        Self { lists, told }
    }

    fn serve(&self) -> ServerHandle {
        let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
        let server = server.service(KvServer::new(self.clone()));
        let server = server.service(WatchServer::new(self.clone()));
        server.threads(1).start().expect("the server starts")
    }
}

impl Kv for Liar {
    async fn range(&self, _: RangeRequest) -> Result<RangeResponse, Status> {
        let mut lists = self.lists.lock().expect("no panic");
        let next = if lists.len() > 1 { lists.pop_front() } else { lists.front().cloned() };
        next.ok_or_else(|| Status::unavailable("nothing to tell"))
    }

    async fn put(&self, _: PutRequest) -> Result<PutResponse, Status> {
        Err(Status::unimplemented("it only lies"))
    }

    async fn delete_range(&self, _: DeleteRangeRequest) -> Result<DeleteRangeResponse, Status> {
        Err(Status::unimplemented("it only lies"))
    }

    async fn txn(&self, _: TxnRequest) -> Result<TxnResponse, Status> {
        Err(Status::unimplemented("it only lies"))
    }

    async fn compact(&self, _: CompactionRequest) -> Result<CompactionResponse, Status> {
        Err(Status::unimplemented("it only lies"))
    }
}

impl Watch for Liar {
    async fn watch(
        &self,
        mut requests: Streaming<WatchRequest>,
        mut responses: Sink<WatchResponse>,
    ) -> Result<(), Status> {
        requests.next().await?;
        responses.send(WatchResponse { created: true, ..response(5, Vec::new()) }).await?;
        let told = self.told.lock().expect("no panic").pop_front().unwrap_or_default();
        for response in told {
            responses.send(response).await?;
        }
        while requests.next().await?.is_some() {
            // Progress is asked for.
            responses.send(WatchResponse { watch_id: -1, ..response(5, Vec::new()) }).await?;
        }
        Ok(())
    }
}

const CLUSTER: u64 = 7;

fn header(cluster_id: u64, revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { cluster_id, revision, member_id: 1, raft_term: 1 })
}

fn value(place: &str, revision: i64) -> KeyValue {
    let endpoint = Endpoint::new(format!("tcp://{place}:1"));
    KeyValue {
        key: format!("ringway/market/{}", endpoint.address()).into(),
        value: endpoint.to_json().into(),
        mod_revision: revision,
        ..KeyValue::default()
    }
}

fn list(revision: i64, places: &[&str]) -> RangeResponse {
    let kvs: Vec<_> = places.iter().map(|place| value(place, revision)).collect();
    let count = kvs.len() as i64;
    RangeResponse { header: header(CLUSTER, revision), kvs, more: false, count }
}

fn response(revision: i64, events: Vec<Event>) -> WatchResponse {
    WatchResponse { header: header(CLUSTER, revision), events, ..WatchResponse::default() }
}

fn put(value: KeyValue) -> Event {
    Event { r#type: EventType::Put.into(), kv: Some(value), prev_kv: None }
}

fn registry(members: &[String]) -> EtcdRegistry {
    let config = EtcdConfig::new(members).expect("addresses");
    EtcdRegistry::new(
        config
            .request_timeout(Duration::from_millis(500))
            .progress_interval(Duration::from_millis(200))
            .hold(Duration::from_millis(300)),
    )
}

fn authority(server: &ServerHandle) -> String {
    server.addresses()[0].to_string().replace("tcp://", "")
}

fn places(watch: &dyn ServiceWatch) -> Vec<String> {
    watch.endpoints().iter().map(|it| it.address().replace("tcp://", "")).collect()
}

/// Waits until something holds for a watch. Returns the changes on the way.
async fn until(
    watch: &mut Box<dyn ServiceWatch>,
    holds: impl Fn(&dyn ServiceWatch) -> bool,
) -> Vec<EndpointChange> {
    let mut seen = Vec::new();
    let reached = async {
        while !holds(&**watch) {
            seen.extend(watch.changed().await);
        }
    };
    let is_reached = runtime::timeout(LIMIT, reached).await.is_ok();
    assert!(is_reached, "it knows {:?}, {:?}", places(&**watch), watch.freshness());
    seen
}

fn is_stale_since(watch: &dyn ServiceWatch, why: &str) -> bool {
    matches!(watch.freshness(), Freshness::Stale(error) if error.to_string().contains(why))
}

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn lies_of_a_watch_leave_the_last_good_list() {
    let foreign = KeyValue { key: "passwords".into(), ..value("c", 6) };
    let elsewhere = WatchResponse { header: header(8, 6), ..response(6, vec![put(value("c", 6))]) };
    let refused = WatchResponse {
        canceled: true,
        cancel_reason: "no reason".to_owned(),
        ..response(5, Vec::new())
    };
    for (lie, why) in [
        (response(6, vec![put(foreign)]), "is foreign"),
        (response(6, vec![put(value("c", 4))]), "revision 4 after revision 5"),
        (response(6, vec![put(value("c", 9))]), "revision 9 before it is at more than 6"),
        (response(6, vec![Event::default()]), "without its key"),
        (elsewhere, "another one now"),
        (refused, "no reason"),
    ] {
        let then = response(7, vec![put(value("d", 7))]);
        let liar = Liar::new([list(5, &["a", "b"])], vec![vec![lie], vec![then]]);
        let server = liar.serve();
        let members = [authority(&server)];
        let followed = async move {
            let mut watch = registry(&members).watch("market", None).expect("a name");
            let mut seen = until(&mut watch, |watch| is_stale_since(watch, why)).await;
            assert_eq!(places(&*watch), ["a:1", "b:1"], "{why}");
            seen.extend(until(&mut watch, |watch| places(watch).len() == 3).await);
            assert_eq!(watch.freshness(), Freshness::Current);
            assert_eq!(seen.len(), 3, "three were added, and no more: {seen:?}");
        };
        runtime::block_on(followed).expect("a core");
        server.abort();
    }
}

#[test]
fn list_that_is_hard_to_believe_is_asked_for_again() {
    let compacted =
        WatchResponse { canceled: true, compact_revision: 9, ..response(9, Vec::new()) };
    let elsewhere = RangeResponse { header: header(8, 6), ..list(6, &["a", "b", "c"]) };
    for (doubted, why) in [
        (list(9, &[]), "0 endpoints of the 3"),
        (list(9, &["a"]), "1 endpoints of the 3"),
        (list(4, &["a", "b", "c"]), "has lost changes"),
        (elsewhere, "another one now"),
    ] {
        let lists = [list(5, &["a", "b", "c"]), doubted, list(10, &["a", "b", "c", "d"])];
        let liar = Liar::new(lists, vec![vec![compacted.clone()]]);
        let server = liar.serve();
        let members = [authority(&server)];
        let followed = async move {
            let mut watch = registry(&members).watch("market", None).expect("a name");
            until(&mut watch, |watch| places(watch).len() == 3).await;
            until(&mut watch, |watch| is_stale_since(watch, why)).await;
            let seen = until(&mut watch, |watch| watch.freshness() == Freshness::Current).await;
            let expected = [EndpointChange::Added(Arc::new(Endpoint::new("tcp://d:1")))];
            assert_eq!(seen, expected, "{why}");
        };
        runtime::block_on(followed).expect("a core");
        server.abort();
    }
}

#[test]
fn list_without_end_is_an_error() {
    let more = |list: RangeResponse| RangeResponse { more: true, ..list };
    for (answer, why) in [
        (more(list(5, &[])), "tells nothing"),
        (more(list(5, &["a"])), "not in their order"),
        (RangeResponse { header: None, ..list(5, &["a"]) }, "before it is at more than 0"),
    ] {
        let server = Liar::new([answer], Vec::new()).serve();
        let members = [authority(&server)];
        let read = async move { registry(&members).snapshot("market").await };
        let read = runtime::block_on(runtime::timeout(LIMIT, read)).expect("a core");
        let error = read.expect("an answer in time").expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
        server.abort();
    }
}

#[test]
fn member_that_says_nothing_is_left_for_another() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    let server = Registry::new().serve_on(server).threads(1).start().expect("the server starts");
    let members = [silent.local_addr().expect("bound").to_string(), authority(&server)];
    let registered = async move {
        // Each begins with a member at random.
        for round in 0..8 {
            let registry = registry(&members);
            let service = format!("market-{round}");
            let mut watch = registry.watch(&service, None).expect("a name");
            let ttl = Duration::from_secs(10);
            let held = registry.register(&service, Endpoint::new("tcp://a:1"), ttl);
            until(&mut watch, |watch| places(watch) == ["a:1"]).await;
            held.expect("valid").deregister().await.expect("deregistered");
        }
    };
    runtime::block_on(runtime::timeout(LIMIT, registered)).expect("a core").expect("in time");
    drop(silent);
    server.abort();
}

#[test]
fn member_that_tells_nonsense_is_left_for_another() {
    let liar = Liar::new([list(5, &["b", "a"])], Vec::new()).serve();
    let truth = Registry::new();
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    let server = truth.serve_on(server).threads(1).start().expect("the server starts");
    let members = [authority(&liar), authority(&server)];
    let followed = async move {
        let KeyValue { key, value, .. } = value("c", 0);
        truth.put(PutRequest { key, value, ..PutRequest::default() }).await.expect("it is put");
        // Each begins with a member at random.
        for _ in 0..8 {
            let mut watch = registry(&members).watch("market", None).expect("a name");
            until(&mut watch, |watch| places(watch) == ["c:1"]).await;
        }
    };
    runtime::block_on(followed).expect("a core");
    liar.abort();
    server.abort();
}

#[test]
fn member_that_lies_to_every_watch_is_asked_ever_less_often() {
    let lie = response(6, vec![put(KeyValue { key: "passwords".into(), ..value("c", 6) })]);
    let liar = Liar::new([list(5, &["a"])], vec![vec![lie]; 5]);
    let (server, told) = (liar.serve(), Arc::clone(&liar.told));
    let members = [authority(&server)];
    let followed = async move {
        let begun = runtime::now_exact();
        let mut watch = registry(&members).watch("market", None).expect("a name");
        until(&mut watch, |_| told.lock().expect("no panic").is_empty()).await;
        // Half of 100, 200, 400 and 800 ms.
        let took = runtime::now_exact() - begun;
        assert!(took >= Duration::from_millis(750), "five watches in {took:?}");
    };
    runtime::block_on(followed).expect("a core");
    server.abort();
}

#[test]
fn changes_that_are_too_long_are_made_up_for_by_the_list() {
    let mut large = value("c", 6);
    large.value = vec![b' '; limits::RESPONSE_BYTES_MAX as usize].into();
    let liar = Liar::new(
        [list(5, &["a"]), list(6, &["a", "b"])],
        vec![vec![response(6, vec![put(large)])]],
    );
    let server = liar.serve();
    let members = [authority(&server)];
    let followed = async move {
        let mut watch = registry(&members).watch("market", None).expect("a name");
        until(&mut watch, |watch| places(watch) == ["a:1"]).await;
        until(&mut watch, |watch| places(watch) == ["a:1", "b:1"]).await;
    };
    runtime::block_on(followed).expect("a core");
    server.abort();
}
