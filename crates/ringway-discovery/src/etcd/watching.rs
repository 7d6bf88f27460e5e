//! The task that follows the endpoints of a service.
//!
//! ```text
//!  ──► read the list at R ──► watch from R + 1 ──► changes
//!             ▲                   │      ▲            │
//!             │                   │      └─ cut: another member, from the last revision seen
//!             └───── compacted, or not to be believed ┘
//! ```
//!
//! The list stays what it was until a better one is known.

use std::sync::Arc;

use ringway_rpc::{Sink, Streaming};
use ringway_runtime as runtime;

use super::api::etcdserverpb::watch_request::RequestUnion;
use super::api::etcdserverpb::{
    WatchClient, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use super::failure::{Failure, Fault};
use super::keys::ServiceKeys;
use super::listing::{Doubt, Listing};
use super::member::back_off;
use super::members::{Channel, Members};
use super::range;
use super::select::{First, first};
use super::shared::SharedState;
use super::watch::Published;
use crate::contract::Freshness;
use crate::endpoint::Error;
use crate::limits;

/// Follows one service for one watch.
pub(super) struct Watching {
    members: Arc<Members>,
    shared: Arc<SharedState<Published>>,
    keys: ServiceKeys,
    listing: Listing,
    /// The revision at which a majority of the cluster has told the whole list.
    listed_at: i64,
    needs_list: bool,
    /// Failures since the registry last told something that could be believed.
    failures: u32,
}

/// Why a stream of changes is over.
enum Cut {
    /// The stream has failed, or its member. Nothing is missed if it goes on elsewhere.
    Failed(Failure),
    /// Changes are missing, or not to be believed: the whole list is needed.
    NeedsList(Error),
}

impl From<Failure> for Cut {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Watching {
    pub(super) fn new(
        members: Arc<Members>,
        shared: Arc<SharedState<Published>>,
        keys: ServiceKeys,
    ) -> Self {
        let listing = Listing::new(keys.clone());
        Self { members, shared, keys, listing, listed_at: 0, needs_list: true, failures: 0 }
    }

    /// Follows the service until nobody watches it any more.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let dropped = shared.wait_as_task(|published| published.is_dropped.then_some(()));
        let follow = async {
            loop {
                self.turn().await;
            }
        };
        first::<_, ()>(dropped, follow).await;
    }

    /// Reads the list if that is needed, then follows it until the stream is cut.
    async fn turn(&mut self) {
        if self.needs_list {
            match self.read_list().await {
                Ok(()) => self.needs_list = false,
                Err(failure) => return self.failed(failure).await,
            }
        }
        let channel = match self.members.channel().await {
            Ok(channel) => channel,
            Err(failure) => return self.failed(failure).await,
        };
        match self.follow(&channel).await {
            Cut::Failed(failure) => {
                self.members.failed(&channel, &failure);
                self.failed(failure).await;
            }
            Cut::NeedsList(why) => {
                self.needs_list = true;
                let fault = Fault::Request;
                let error = Error::new(format!("{}: {why}", channel.name));
                self.failed(Failure { fault, error }).await;
            }
        }
    }

    async fn read_list(&mut self) -> Result<(), Failure> {
        let mut listed = range::read(&self.members, &self.keys).await?;
        let before = self.shared.read(|published| published.endpoints.len());
        let mut is_confirmed = false;
        if let Some(Doubt(why)) = self.listing.doubt(&listed, before) {
            self.stale(&why);
            runtime::sleep(self.members.config.hold).await;
            listed = range::read(&self.members, &self.keys).await?;
            is_confirmed = true;
        }
        self.listed_at = listed.revision;
        self.listing.replace(listed).map_err(|error| Failure { fault: Fault::Request, error })?;
        self.publish(is_confirmed);
        Ok(())
    }

    /// Takes changes over until the stream is cut.
    async fn follow(&mut self, channel: &Channel) -> Cut {
        let (mut requests, mut responses) = WatchClient::new(channel.stream()).watch();
        let create = WatchCreateRequest {
            key: self.keys.first().into(),
            range_end: self.keys.end().into(),
            start_revision: self.listing.revision() + 1,
            progress_notify: true,
            ..WatchCreateRequest::default()
        };
        if let Err(failure) =
            self.request(channel, &mut requests, RequestUnion::CreateRequest(create)).await
        {
            return Cut::Failed(failure);
        }
        loop {
            if let Err(cut) = self.next(channel, &mut requests, &mut responses).await {
                return cut;
            }
        }
    }

    /// Waits for the next response. A member that says nothing for long is asked whether it is there.
    async fn next(
        &mut self,
        channel: &Channel,
        requests: &mut Sink<WatchRequest>,
        responses: &mut Streaming<WatchResponse>,
    ) -> Result<(), Cut> {
        let config = &self.members.config;
        let (interval, limit) = (config.progress_interval, config.request_timeout);
        let response = match first(responses.next(), runtime::sleep(interval)).await {
            First::One(response) => response,
            First::Other(()) => {
                let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
                self.request(channel, requests, progress).await?;
                match first(responses.next(), runtime::sleep(limit)).await {
                    First::One(response) => response,
                    First::Other(()) => {
                        let why =
                            format!("{}: a watch was not answered in {limit:?}", channel.name);
                        return Err(Failure::of_member(why).into());
                    }
                }
            }
        };
        match response {
            Ok(Some(response)) => self.take(channel, response),
            Ok(None) => {
                let why = format!("{}: the registry has ended a watch", channel.name);
                Err(Failure::of_member(why).into())
            }
            // The changes may be too long for one response, which every member would send again, or this one has too much
            // to do.
            Err(status) if status.is_resource_exhausted() => {
                self.members.failed(channel, &Failure::of_call(&status, &channel.name));
                Err(Cut::NeedsList(Error::new(status.to_string())))
            }
            Err(status) => Err(Failure::of_call(&status, &channel.name).into()),
        }
    }

    async fn request(
        &self,
        channel: &Channel,
        requests: &mut Sink<WatchRequest>,
        request: RequestUnion,
    ) -> Result<(), Failure> {
        let limit = self.members.config.connect_timeout + self.members.config.request_timeout;
        let request = WatchRequest { request_union: Some(request) };
        match runtime::timeout(limit, requests.send(request)).await {
            // Why it has failed is with the responses.
            Ok(_) => Ok(()),
            Err(_) => {
                let why = format!("{}: a watch could not be asked in {limit:?}", channel.name);
                Err(Failure::of_member(why))
            }
        }
    }

    fn take(&mut self, channel: &Channel, response: WatchResponse) -> Result<(), Cut> {
        let header = response.header.unwrap_or_default();
        if response.canceled {
            return Err(self.cancelled(channel, &response));
        }
        if header.cluster_id != self.listing.cluster() {
            return Err(Cut::NeedsList(Error::new("the registry is another one now")));
        }
        let (known, is_confirmed) = (self.listing.revision(), self.listed_at);
        if response.created && header.revision < known && is_confirmed < known {
            let at = header.revision;
            let why = format!("a member is at revision {at}, and {known} is known");
            return Err(Cut::NeedsList(Error::new(why)));
        }
        if !response.events.is_empty() {
            self.listing.apply(response.events, header.revision).map_err(Cut::NeedsList)?;
        } else if !response.created && response.watch_id >= 0 {
            self.listing.progress(header.revision);
        }
        // A member may make each watch, and lie then: it is not asked again without a pause.
        if !response.created {
            self.failures = 0;
        }
        self.members.worked(channel);
        self.publish(false);
        Ok(())
    }

    /// Why the registry has ended a watch.
    fn cancelled(&self, channel: &Channel, response: &WatchResponse) -> Cut {
        if response.compact_revision > 0 {
            return Cut::NeedsList(Error::new("the changes that were missed are compacted"));
        }
        let reason = &response.cancel_reason;
        let why = format!("{}: the registry refuses a watch: {reason}", channel.name);
        match reason.contains("permission denied") || reason.contains("auth") {
            true => {
                // Some versions say this of a token that has expired.
                self.members.forget_token(channel);
                Failure::of_request(why).into()
            }
            false => Failure::of_member(why).into(),
        }
    }

    /// Notes a failure. If no other member helps, waits for a while.
    async fn failed(&mut self, failure: Failure) {
        self.stale(&failure.error);
        if failure.fault != Fault::Member {
            runtime::sleep(back_off(self.failures, limits::REFUSED_RETRY_MAX)).await;
        }
        self.failures = self.failures.saturating_add(1);
    }

    fn publish(&self, is_confirmed: bool) {
        let (endpoints, revision) = (self.listing.endpoints(), self.listing.revision());
        let was = self.shared.read(|published| published.freshness.clone());
        if let Freshness::Stale(_) = was {
            tracing::info!(keys = %self.name(), "the registry's list is current again");
        }
        self.shared.tell_owner(|published| {
            let is_same = published.endpoints == endpoints;
            published.is_new |= published.freshness != Freshness::Current || !is_same;
            // What its owner has not seen stays confirmed as long as it is the same.
            published.is_confirmed = is_confirmed || is_same && published.is_confirmed;
            published.freshness = Freshness::Current;
            (published.endpoints, published.revision) = (endpoints, revision);
        });
    }

    fn stale(&self, why: &Error) {
        let was = self.shared.read(|published| published.freshness.clone());
        let now = match was {
            Freshness::Unknown(_) => Freshness::Unknown(Some(why.clone())),
            Freshness::Current | Freshness::Stale(_) => Freshness::Stale(why.clone()),
        };
        if was == now {
            return;
        }
        tracing::warn!(keys = %self.name(), error = %why, "the list is kept as it was");
        self.shared.tell_owner(|published| {
            (published.freshness, published.is_new) = (now, true);
        });
    }

    fn name(&self) -> String {
        self.keys.first().escape_ascii().to_string()
    }
}
