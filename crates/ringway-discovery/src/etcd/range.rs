//! Reading all endpoints of a service.

use super::api::etcdserverpb::{KvClient, RangeRequest};
use super::api::mvccpb::KeyValue;
use super::failure::Failure;
use super::keys::ServiceKeys;
use super::members::Members;
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
        let response = members
            .ask(async |channel| KvClient::new(channel.unary()).range(request.clone()).await)
            .await?;
        let header = response.header.unwrap_or_default();
        if listed.revision == 0 {
            (listed.cluster, listed.revision) = (header.cluster_id, header.revision);
        }
        let has_more = response.more;
        if !response.kvs.is_sorted_by(|one, next| one.key < next.key)
            || response.kvs.first().is_some_and(|value| *value.key < *first)
        {
            return Err(Failure::of_member("the registry tells keys that are not in their order"));
        }
        listed.values.extend(response.kvs);
        if listed.values.len() > limits::ENDPOINTS_MAX {
            let why = format!("the service has more than {} endpoints", limits::ENDPOINTS_MAX);
            return Err(Failure::of_request(why));
        }
        if !has_more {
            return Ok(listed);
        }
        let Some(last) = listed.values.last() else {
            return Err(Failure::of_member(
                "the registry says that there is more, and tells nothing",
            ));
        };
        // The key right after the last one.
        first = last.key.to_vec();
        first.push(0);
    }
}
