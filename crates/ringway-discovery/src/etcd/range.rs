//! Reading all endpoints of a service.

use ringway_rpc::Status;

use super::api::etcdserverpb::{KvClient, RangeRequest, RangeResponse};
use super::api::mvccpb::KeyValue;
use super::failure::Failure;
use super::keys::ServiceKeys;
use super::members::{Channel, Members};
use crate::limits;

/// What a registry has of a service at one revision.
pub(super) struct Listed {
    pub(super) cluster: u64,
    pub(super) revision: i64,
    pub(super) values: Vec<KeyValue>,
}

/// Reads all keys of a service, as they are at one revision. The answer is that of a majority of the cluster.
pub(super) async fn read(members: &Members, keys: &ServiceKeys) -> Result<Listed, Failure> {
    let mut listed = Listed { cluster: 0, revision: 0, values: Vec::new() };
    let mut first = keys.first();
    loop {
        let request = RangeRequest {
            key: first.clone().into(),
            range_end: keys.end().into(),
            limit: limits::RANGE_PAGE,
            revision: listed.revision,
            ..RangeRequest::default()
        };
        let response = members.ask(async |channel| page(channel, request.clone()).await).await?;
        let header = response.header.unwrap_or_default();
        if listed.revision == 0 {
            (listed.cluster, listed.revision) = (header.cluster_id, header.revision);
        }
        if listed.cluster != header.cluster_id {
            return Err(Failure::of_request("the registry became another one while it was read"));
        }
        let has_more = response.more;
        listed.values.extend(response.kvs);
        if listed.values.len() > limits::ENDPOINTS_MAX {
            let why = format!("the service has more than {} endpoints", limits::ENDPOINTS_MAX);
            return Err(Failure::of_request(why));
        }
        if !has_more {
            return Ok(listed);
        }
        let Some(last) = listed.values.last() else {
            return Ok(listed); // a page with more behind it is not empty
        };
        // The key right after the last one.
        first = last.key.to_vec();
        first.push(0);
    }
}

/// Reads one page. What cannot be one is the fault of the member, and another one is asked.
async fn page(channel: &Channel, request: RangeRequest) -> Result<RangeResponse, Status> {
    let first = request.key.clone();
    let page = KvClient::new(channel.unary()).range(request).await?;
    let is_sorted = page.kvs.is_sorted_by(|one, next| one.key < next.key)
        && page.kvs.first().is_none_or(|value| value.key >= first);
    if !is_sorted {
        return Err(Status::unavailable("the registry tells keys that are not in their order"));
    }
    if page.more && page.kvs.is_empty() {
        return Err(Status::unavailable("the registry says that there is more, and tells nothing"));
    }
    Ok(page)
}
