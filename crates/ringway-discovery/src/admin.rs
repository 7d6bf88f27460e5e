//! What people do to a registry: list, add, remove and drain endpoints, on a registry server or on etcd.

use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{CallOptions, Client};

use crate::endpoint::{Endpoint, Error, Health};
use crate::etcd::api::etcdserverpb::{
    Compare, DeleteRangeRequest, KvClient, LeaseClient, LeaseTimeToLiveRequest, PutRequest,
    RangeRequest, RequestOp, TxnRequest, compare, request_op,
};
use crate::etcd::api::mvccpb::KeyValue;
use crate::etcd::config::{User, address};
use crate::etcd::keys::ServiceKeys;
use crate::etcd::token::{self, Token};
use crate::limits;

/// Lists and changes the endpoints of a registry, as `ringway registry` does. It is not for servers, which register by
/// an [`Announcement`](crate::Announcement).
///
/// ```no_run
/// use ringway_discovery::RegistryAdmin;
///
/// # async fn list() -> Result<(), ringway_discovery::Error> {
/// let registry = RegistryAdmin::connect(&["10.0.0.1:2379"], None).await?;
/// for listed in registry.list(Some("market")).await? {
///     println!("{} at revision {}", listed.address, listed.revision);
/// }
/// # Ok(())
/// # }
/// ```
pub struct RegistryAdmin {
    kv: KvClient,
    leases: LeaseClient,
    namespace: String,
}

/// An endpoint in a registry.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ListedEndpoint {
    /// The service that it offers.
    pub service: String,
    /// Its address.
    pub address: String,
    /// What is known of it, or why its value is not that of an endpoint.
    pub endpoint: Result<Endpoint, Error>,
    /// The revision of its last change.
    pub revision: i64,
    /// The time that is left of its lease. `None` if it has none and stays until it is removed.
    pub expires_in: Option<Duration>,
}

impl RegistryAdmin {
    /// Connects to members of a registry, each written as for [`EtcdConfig::new`](crate::EtcdConfig::new). `user` is a
    /// name and a password, which a registry without users does not look at.
    ///
    /// # Errors
    /// Fails if an address is malformed, or if the user is not let in.
    pub async fn connect(members: &[&str], user: Option<(&str, &str)>) -> Result<Self, Error> {
        let mut builder = Client::builder();
        for member in members {
            builder = builder.address(address(member)?);
        }
        let options = CallOptions::new().timeout(limits::ADMIN_TIMEOUT);
        let mut client = builder.options(options.clone()).build().map_err(|it| failed(&it))?;
        let user = user
            .map(|(name, password)| User { name: name.to_owned(), password: password.to_owned() });
        let token = token::ask(client.clone(), user.as_ref(), limits::ADMIN_TIMEOUT).await;
        if let Token::Known(token) = token.map_err(|status| failed(&status))? {
            client = client.with(options.metadata("token", token));
        }
        let (kv, leases) = (KvClient::new(client.clone()), LeaseClient::new(client));
        Ok(Self { kv, leases, namespace: limits::NAMESPACE.to_owned() })
    }

    /// Sets what all keys begin with; the default is `ringway/`.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// The endpoints of a service, or of all, in the order of their keys, as they were at one moment.
    ///
    /// # Errors
    /// Fails if the registry cannot be reached, or if it has more than 100,000 endpoints.
    pub async fn list(&self, service: Option<&str>) -> Result<Vec<ListedEndpoint>, Error> {
        let prefix = match service {
            Some(service) => format!("{}{service}/", self.namespace),
            None => self.namespace.clone(),
        };
        let (mut first, end) = (Bytes::from(prefix.clone()), Bytes::from(after(prefix)));
        let (mut listed, mut revision) = (Vec::new(), 0);
        loop {
            let request = RangeRequest {
                key: first.clone(),
                range_end: end.clone(),
                limit: limits::ADMIN_PAGE_KEYS,
                revision,
                ..RangeRequest::default()
            };
            let page = self.kv.range(request).await.map_err(|status| failed(&status))?;
            if revision == 0 {
                revision = page.header.map_or(0, |header| header.revision);
            }
            let Some(last) = page.kvs.last() else {
                return Ok(listed);
            };
            first = Bytes::from([&last.key[..], b"\0"].concat());
            let is_last = !page.more;
            for entry in page.kvs {
                listed.extend(self.listed(entry).await?);
            }
            if is_last {
                return Ok(listed);
            }
            if listed.len() > limits::ADMIN_KEYS_MAX {
                let most = limits::ADMIN_KEYS_MAX;
                return Err(Error::new(format!(
                    "there are more than {most} endpoints: name a service"
                )));
            }
        }
    }

    async fn listed(&self, entry: KeyValue) -> Result<Option<ListedEndpoint>, Error> {
        let Some((service, address)) = names_of(&entry.key, &self.namespace) else {
            return Ok(None);
        };
        let expires_in = match entry.lease {
            0 => None,
            id => {
                let request = LeaseTimeToLiveRequest { id, keys: false };
                let left = self.leases.lease_time_to_live(request).await;
                let seconds = left.map_err(|status| failed(&status))?.ttl.max(0);
                Some(Duration::from_secs(seconds.unsigned_abs()))
            }
        };
        Ok(Some(ListedEndpoint {
            endpoint: Endpoint::from_json(&entry.value),
            service,
            address,
            revision: entry.mod_revision,
            expires_in,
        }))
    }

    /// Adds an endpoint that stays until it is removed, or replaces that of the same address.
    ///
    /// # Errors
    /// Fails if the address is malformed, if nobody could read the endpoint because its service has no valid name or it
    /// is too long, or if the registry cannot be reached.
    pub async fn put(&self, service: &str, endpoint: &Endpoint) -> Result<(), Error> {
        let (key, value) = entry(&self.namespace, service, endpoint)?;
        let request = PutRequest { key, value, ..PutRequest::default() };
        self.kv.put(request).await.map(drop).map_err(|status| failed(&status))
    }

    /// Removes an endpoint. A server that has registered itself there is not told, and comes back when it has to
    /// register anew. Returns whether the endpoint was there.
    ///
    /// # Errors
    /// Fails if the registry cannot be reached.
    pub async fn remove(&self, service: &str, address: &str) -> Result<bool, Error> {
        let key = self.key(service, address);
        let request = DeleteRangeRequest { key, ..DeleteRangeRequest::default() };
        let answer = self.kv.delete_range(request).await.map_err(|status| failed(&status))?;
        Ok(answer.deleted > 0)
    }

    /// Changes whether an endpoint takes calls; its lease stays. Clients finish their calls to one that drains, and make
    /// no new ones. Returns whether the endpoint was there.
    ///
    /// # Errors
    /// Fails if the value is not that of an endpoint, if it changes all the time, or if the registry cannot be reached.
    pub async fn set_health(
        &self,
        service: &str,
        address: &str,
        health: Health,
    ) -> Result<bool, Error> {
        let key = self.key(service, address);
        for _ in 0..limits::ADMIN_ATTEMPTS {
            let request = RangeRequest { key: key.clone(), ..RangeRequest::default() };
            let answer = self.kv.range(request).await.map_err(|status| failed(&status))?;
            let Some(entry) = answer.kvs.into_iter().next() else {
                return Ok(false);
            };
            let endpoint = Endpoint::from_json(&entry.value)?.with_health(health);
            if self.replace(&entry, &endpoint).await? {
                return Ok(true);
            }
        }
        Err(Error::new(format!("{address} is changed all the time by somebody else")))
    }

    /// Replaces an endpoint that nobody has changed meanwhile. Returns whether that is so.
    async fn replace(&self, entry: &KeyValue, endpoint: &Endpoint) -> Result<bool, Error> {
        let is_unchanged = Compare {
            result: compare::CompareResult::Equal.into(),
            target: compare::CompareTarget::Mod.into(),
            key: entry.key.clone(),
            target_union: Some(compare::TargetUnion::ModRevision(entry.mod_revision)),
            ..Compare::default()
        };
        let put = PutRequest {
            key: entry.key.clone(),
            value: endpoint.to_json().into(),
            ignore_lease: true,
            ..PutRequest::default()
        };
        let request = TxnRequest {
            compare: vec![is_unchanged],
            success: vec![RequestOp { request: Some(request_op::Request::RequestPut(put)) }],
            failure: Vec::new(),
        };
        let answer = self.kv.txn(request).await.map_err(|status| failed(&status))?;
        Ok(answer.succeeded)
    }

    fn key(&self, service: &str, address: &str) -> Bytes {
        format!("{}{service}/{address}", self.namespace).into()
    }
}

/// An endpoint as a key and its value, if watches would take it.
fn entry(namespace: &str, service: &str, endpoint: &Endpoint) -> Result<(Bytes, Bytes), Error> {
    let keys = ServiceKeys::new(namespace, service)?;
    endpoint.to_host().map_err(|status| Error::new(status.message()))?;
    let value = endpoint.to_json();
    Endpoint::from_json(value.as_bytes())?;
    Ok((keys.of(endpoint).into(), value.into()))
}

/// The service and the address in a key.
fn names_of(key: &[u8], namespace: &str) -> Option<(String, String)> {
    let names = std::str::from_utf8(key).ok()?.strip_prefix(namespace)?;
    let before_scheme = names.find("://").unwrap_or(names.len());
    let slash = names[..before_scheme].rfind('/')?;
    Some((names[..slash].to_owned(), names[slash + 1..].to_owned()))
}

/// The key after all that begin with this prefix.
fn after(prefix: String) -> Vec<u8> {
    let mut end = prefix.into_bytes();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0] // all keys, as etcd writes it
}

fn failed(status: &ringway_rpc::Status) -> Error {
    Error::new(status.to_string())
}

#[cfg(test)]
mod tests {
    use ringway_rpc::{Server, Status};

    use super::*;
    use crate::etcd::api::etcdserverpb::{
        CompactionRequest, CompactionResponse, DeleteRangeResponse, Kv, KvServer, PutResponse,
        RangeResponse, TxnResponse,
    };
    use crate::server::Registry;

    /// A registry in which one more endpoint is put after each list.
    struct Changing(Registry);

    impl Kv for Changing {
        async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
            let answer = self.0.range(request).await;
            put(&self.0, "z").await;
            answer
        }

        async fn put(&self, request: PutRequest) -> Result<PutResponse, Status> {
            self.0.put(request).await
        }

        async fn delete_range(
            &self,
            request: DeleteRangeRequest,
        ) -> Result<DeleteRangeResponse, Status> {
            self.0.delete_range(request).await
        }

        async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
            self.0.txn(request).await
        }

        async fn compact(&self, request: CompactionRequest) -> Result<CompactionResponse, Status> {
            self.0.compact(request).await
        }
    }

    async fn put(registry: &Registry, host: &str) {
        let endpoint = Endpoint::new(format!("tcp://{host}:1"));
        let (key, value) = entry("ringway/", "market", &endpoint).expect("valid");
        let request = PutRequest { key, value, ..PutRequest::default() };
        registry.put(request).await.expect("it is put");
    }

    #[test]
    fn a_list_is_that_of_one_moment() {
        let registry = Registry::new();
        let service = KvServer::new(Changing(registry.clone()));
        let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").service(service);
        let handle = server.threads(1).start().expect("the server starts");
        let at = handle.addresses()[0].to_string();
        let listed = ringway_runtime::block_on(async move {
            let count = limits::ADMIN_PAGE_KEYS + 1;
            for number in 0..count {
                put(&registry, &format!("a{number}")).await;
            }
            let admin = RegistryAdmin::connect(&[&at], None).await.expect("an address");
            (admin.list(Some("market")).await.expect("a list").len(), count)
        });
        let (listed, count) = listed.expect("a core");
        assert_eq!(i64::try_from(listed), Ok(count), "what came meanwhile is not listed");
        handle.shutdown();
        handle.wait().expect("it ends in order");
    }

    #[test]
    fn an_endpoint_that_nobody_could_read_is_not_put() {
        let good = Endpoint::new("tcp://a:1");
        let (key, _) = entry("ringway/", "market", &good).expect("watches would take it");
        assert_eq!(key, "ringway/market/tcp://a:1");
        let long = good.clone().with("key", "x".repeat(limits::ENDPOINT_BYTES_MAX));
        for (service, endpoint) in [("", &good), ("a//b", &good), ("market", &long)] {
            assert!(entry("ringway/", service, endpoint).is_err(), "{service}");
        }
        assert!(entry("ringway/", "market", &Endpoint::new("a:1")).is_err());
    }

    #[test]
    fn keys_have_a_service_and_an_address() {
        for (key, service, address) in [
            ("ringway/market/tcp://10.0.0.1:1", "market", "tcp://10.0.0.1:1"),
            ("ringway/a/b/unix:///run/a", "a/b", "unix:///run/a"),
            ("ringway/market/10.0.0.1:1", "market", "10.0.0.1:1"),
        ] {
            let names = names_of(key.as_bytes(), "ringway/").expect(key);
            assert_eq!(names, (service.to_owned(), address.to_owned()));
        }
        for key in [&b"other/market/tcp://a:1"[..], b"ringway/market", b"ringway/\xFF/a"] {
            assert_eq!(names_of(key, "ringway/"), None);
        }
    }

    #[test]
    fn a_prefix_ends_before_the_next_key() {
        assert_eq!(after("ringway/".to_owned()), b"ringway0");
        assert_eq!(after(String::new()), [0]);
    }
}
