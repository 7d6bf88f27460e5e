//! Putting an endpoint, unless its address is somebody else's by now.

use super::api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use super::api::etcdserverpb::request_op::Request;
use super::api::etcdserverpb::response_op::Response;
use super::api::etcdserverpb::{
    Compare, KvClient, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
};
use super::failure::Failure;
use super::members::Members;

/// A key with its value, to be put.
pub(super) struct OwnKey {
    pub(super) key: Vec<u8>,
    pub(super) value: String,
    /// The lease that it gets.
    pub(super) lease: i64,
    /// The lease that it had, if the same registration has put it before with another. A key without a lease is never
    /// a registration's.
    pub(super) former_lease: Option<i64>,
}

impl OwnKey {
    /// Puts it, whoever has put the key before.
    pub(super) async fn claim(&self, members: &Members) -> Result<(), Failure> {
        let request = self.request();
        members
            .ask(async |channel| KvClient::new(channel.unary()).put(request.clone()).await)
            .await?;
        Ok(())
    }

    /// Puts it if the key is there no more, or is that of this registration. Returns whether it is.
    pub(super) async fn keep(&self, members: &Members) -> Result<bool, Failure> {
        let mut condition = Condition::Lease(self.lease);
        for _ in 0..ATTEMPTS {
            let response = self.put_if(members, condition).await?;
            if response.succeeded {
                return Ok(true);
            }
            condition = match holder(&response) {
                None => Condition::Absent,
                Some(lease) if lease == self.lease || Some(lease) == self.former_lease => {
                    Condition::Lease(lease)
                }
                Some(_) => return Ok(false),
            };
        }
        Err(Failure::of_request("the key of the endpoint changes all the time"))
    }

    async fn put_if(
        &self,
        members: &Members,
        condition: Condition,
    ) -> Result<TxnResponse, Failure> {
        let read = RangeRequest { key: self.key.clone().into(), ..RangeRequest::default() };
        let request = TxnRequest {
            compare: vec![condition.on(&self.key)],
            success: vec![RequestOp { request: Some(Request::RequestPut(self.request())) }],
            failure: vec![RequestOp { request: Some(Request::RequestRange(read)) }],
        };
        members.ask(async |channel| KvClient::new(channel.unary()).txn(request.clone()).await).await
    }

    fn request(&self) -> PutRequest {
        PutRequest {
            key: self.key.clone().into(),
            value: self.value.clone().into(),
            lease: self.lease,
            ..PutRequest::default()
        }
    }
}

#[derive(Clone, Copy)]
enum Condition {
    /// The key is there and has this lease.
    Lease(i64),
    Absent,
}

impl Condition {
    fn on(self, key: &[u8]) -> Compare {
        let (target, value) = match self {
            Self::Lease(lease) => (CompareTarget::Lease, TargetUnion::Lease(lease)),
            Self::Absent => (CompareTarget::Version, TargetUnion::Version(0)),
        };
        Compare {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: key.to_vec().into(),
            target_union: Some(value),
            ..Compare::default()
        }
    }
}

/// The lease of the key that a transaction has read.
fn holder(response: &TxnResponse) -> Option<i64> {
    let read = response.responses.iter().find_map(|it| match &it.response {
        Some(Response::ResponseRange(range)) => Some(range),
        _ => None,
    })?;
    read.kvs.first().map(|value| value.lease)
}

/// Tries to put a key that others change between reading and putting it.
const ATTEMPTS: usize = 5;
