//! Registries that lie about leases.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use super::*;
use crate::contract::RegistrationState;
use crate::etcd::api::etcdserverpb::{
    Lease, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseServer,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};

/// A registry that grants leases, and does not know them when a key is put with one.
#[derive(Clone)]
struct Forgetful {
    /// What it grants, given what is asked for.
    grant: fn(LeaseGrantRequest) -> LeaseGrantResponse,
    /// Is told when it is asked for a lease.
    asked: Sender<Instant>,
}

impl Forgetful {
    fn new(grant: fn(LeaseGrantRequest) -> LeaseGrantResponse) -> (Self, Receiver<Instant>) {
        let (asked, receiver) = mpsc::channel();
        (Self { grant, asked }, receiver)
    }

    fn serve(&self) -> ServerHandle {
        let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
        let server = server.service(KvServer::new(self.clone()));
        let server = server.service(LeaseServer::new(self.clone()));
        server.threads(1).start().expect("the server starts")
    }
}

fn unknown<T>() -> Result<T, Status> {
    Err(Status::not_found("etcdserver: requested lease not found"))
}

impl Kv for Forgetful {
    async fn range(&self, _: RangeRequest) -> Result<RangeResponse, Status> {
        unknown()
    }

    async fn put(&self, _: PutRequest) -> Result<PutResponse, Status> {
        unknown()
    }

    async fn delete_range(&self, _: DeleteRangeRequest) -> Result<DeleteRangeResponse, Status> {
        unknown()
    }

    async fn txn(&self, _: TxnRequest) -> Result<TxnResponse, Status> {
        unknown()
    }

    async fn compact(&self, _: CompactionRequest) -> Result<CompactionResponse, Status> {
        unknown()
    }
}

impl Lease for Forgetful {
    async fn lease_grant(&self, request: LeaseGrantRequest) -> Result<LeaseGrantResponse, Status> {
        _ = self.asked.send(Instant::now()); // nobody may count any more
        Ok((self.grant)(request))
    }

    async fn lease_revoke(&self, _: LeaseRevokeRequest) -> Result<LeaseRevokeResponse, Status> {
        unknown()
    }

    async fn lease_keep_alive(
        &self,
        _: Streaming<LeaseKeepAliveRequest>,
        _: Sink<LeaseKeepAliveResponse>,
    ) -> Result<(), Status> {
        unknown()
    }

    async fn lease_time_to_live(
        &self,
        _: LeaseTimeToLiveRequest,
    ) -> Result<LeaseTimeToLiveResponse, Status> {
        unknown()
    }

    async fn lease_leases(&self, _: LeaseLeasesRequest) -> Result<LeaseLeasesResponse, Status> {
        unknown()
    }
}

fn as_asked(request: LeaseGrantRequest) -> LeaseGrantResponse {
    LeaseGrantResponse { id: request.id, ttl: request.ttl, ..LeaseGrantResponse::default() }
}

const TTL: Duration = Duration::from_secs(10);

#[test]
fn member_whose_leases_are_none_is_left_for_another() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    let server = Registry::new().serve_on(server).threads(1).start().expect("the server starts");
    for grant in [
        |request| LeaseGrantResponse { ttl: 0, ..as_asked(request) },
        |request| LeaseGrantResponse { id: 7, ..as_asked(request) },
    ] {
        let liar = Forgetful::new(grant).0.serve();
        let members = [authority(&liar), authority(&server)];
        let registered = async move {
            // Each begins with a member at random.
            for _ in 0..8 {
                let registry = registry(&members);
                let endpoint = Endpoint::new("tcp://a:1");
                let mut held = registry.register("market", endpoint, TTL).expect("valid");
                held.registered().await.expect("nobody else does");
                held.deregister().await.expect("the other member is there");
            }
        };
        runtime::block_on(runtime::timeout(LIMIT, registered)).expect("a core").expect("in time");
        liar.abort();
    }
    server.abort();
}

#[test]
fn member_that_forgets_leases_at_once_is_asked_ever_less_often() {
    let (liar, asked) = Forgetful::new(as_asked);
    let server = liar.serve();
    let registry = registry(&[authority(&server)]);
    let held = registry.register("market", Endpoint::new("tcp://a:1"), TTL).expect("valid");
    let [first, .., last] = [(); 5].map(|()| asked.recv_timeout(LIMIT).expect("it is asked"));
    // Half of 100, 200, 400 and 800 ms.
    assert!(last - first >= Duration::from_millis(750), "five leases in {:?}", last - first);
    assert!(matches!(held.state(), RegistrationState::Registering(Some(_))), "{}", held.state());
    server.abort();
}
