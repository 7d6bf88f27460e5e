//! The service Watch.
//!
//! A stream has many watches. They are positions in the store's history, so a stream that its client does not read
//! holds nothing but these, and is told in the end that they were compacted.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::iter::Peekable;
use std::ops::Bound;
use std::pin::pin;
use std::task::{Context, Poll};

use prost::Message;
use ringway_rpc::{Sink, Status, Streaming};
use ringway_runtime as runtime;

use super::listeners::{ListenerId, Listeners, Unseen};
use super::watcher::{Seen, Watcher};
use super::{Registry, until_stopped};
use crate::etcd::api::etcdserverpb::watch_request::RequestUnion;
use crate::etcd::api::etcdserverpb::{
    ResponseHeader, Watch, WatchCreateRequest, WatchRequest, WatchResponse,
};
use crate::etcd::api::mvccpb::Event;
use crate::limits;

impl Watch for Registry {
    async fn watch(
        &self,
        requests: Streaming<WatchRequest>,
        responses: Sink<WatchResponse>,
    ) -> Result<(), Status> {
        until_stopped(WatchStream::new(self, responses).serve(requests)).await
    }
}

enum Happened {
    Request(Result<Option<WatchRequest>, Status>),
    Change,
    Interval,
}

/// One stream of a client, with its watches by their ids.
struct WatchStream<'a> {
    registry: &'a Registry,
    listener: ListenerId,
    watchers: BTreeMap<i64, Watcher>,
    /// The watches that may not have seen all that there is, apart from what the listener has noted meanwhile.
    behind: BTreeSet<i64>,
    /// Watches that have ended by a compaction, whose cancellation is answered all the same.
    ended: BTreeSet<i64>,
    /// Bytes of the keys that the watches name.
    bytes: usize,
    next_id: i64,
    responses: Sink<WatchResponse>,
}

impl Drop for WatchStream<'_> {
    fn drop(&mut self) {
        let waker = self.registry.state().listeners.leave(self.listener);
        drop(waker);
    }
}

impl<'a> WatchStream<'a> {
    fn new(registry: &'a Registry, responses: Sink<WatchResponse>) -> Self {
        let listener = registry.state().listeners.join();
        let (watchers, behind, ended) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { registry, listener, watchers, behind, ended, bytes: 0, next_id: 0, responses }
    }

    /// Serves the stream until its client is gone. One that has ended its requests is still told of changes, as by etcd.
    async fn serve(mut self, mut requests: Streaming<WatchRequest>) -> Result<(), Status> {
        let mut progress = pin!(runtime::sleep(limits::WATCH_PROGRESS_INTERVAL));
        let mut has_requests = true;
        loop {
            let happened = {
                let mut next = pin!(requests.next());
                poll_fn(|cx| {
                    if has_requests && let Poll::Ready(request) = next.as_mut().poll(cx) {
                        return Poll::Ready(Happened::Request(request));
                    }
                    if self.poll_changed(cx) {
                        return Poll::Ready(Happened::Change);
                    }
                    progress.as_mut().poll(cx).map(|_| Happened::Interval)
                })
                .await
            };
            match happened {
                Happened::Request(request) => match request? {
                    Some(WatchRequest { request_union: Some(request) }) => {
                        self.request(request).await?
                    }
                    Some(WatchRequest { request_union: None }) => {}
                    None => has_requests = false,
                },
                Happened::Change => self.deliver().await?,
                Happened::Interval => {
                    progress.set(runtime::sleep(limits::WATCH_PROGRESS_INTERVAL));
                    self.progress_of_quiet().await?;
                }
            }
        }
    }

    /// Whether something has changed that a watch may see. If not, the task is woken when it does.
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> bool {
        let waker = cx.waker().clone();
        let mut state = self.registry.state();
        let changed = state.listeners.take_changed(self.listener);
        note_behind(&mut self.watchers, &mut self.behind, changed);
        if !self.behind.is_empty() {
            return true;
        }
        let former = state.listeners.wait(self.listener, waker);
        drop(state);
        drop(former);
        false
    }

    async fn request(&mut self, request: RequestUnion) -> Result<(), Status> {
        match request {
            RequestUnion::CreateRequest(request) => self.create(request).await,
            RequestUnion::CancelRequest(request) => self.cancel(request.watch_id).await,
            RequestUnion::ProgressRequest(_) => self.progress(NO_WATCH).await,
        }
    }

    async fn create(&mut self, request: WatchCreateRequest) -> Result<(), Status> {
        self.registry.expire_leases();
        let id = match request.watch_id {
            0 => self.free_id(),
            id => id,
        };
        let is_chosen_here = request.watch_id == 0;
        let response = {
            let mut state = self.registry.state();
            let watcher = Watcher::new(id, &request, state.visible());
            let refusal = match request.start_revision {
                ..0 => Some(COMPACTED), // etcd 3.4 takes it, and tells nothing
                _ => self.refusal(&watcher, &state.listeners),
            };
            let mut response = WatchResponse {
                header: self.registry.header(&state),
                watch_id: id,
                created: true,
                ..WatchResponse::default()
            };
            if let Some(reason) = refusal {
                response.watch_id = NO_WATCH;
                response.canceled = true;
                reason.clone_into(&mut response.cancel_reason);
            } else {
                state.listeners.watch(self.listener, id, watcher.range.clone());
                self.bytes += watcher.bytes;
                if !watcher.is_synced(state.visible()) {
                    self.behind.insert(id);
                }
                self.watchers.insert(id, watcher);
                if is_chosen_here {
                    self.next_id = id.wrapping_add(1) & i64::MAX;
                }
            }
            response
        };
        self.responses.send(response).await?;
        Ok(())
    }

    /// Why there cannot be this watch.
    fn refusal(&self, watcher: &Watcher, all: &Listeners) -> Option<&'static str> {
        let Watcher { id, bytes, .. } = *watcher;
        if watcher.range.is_empty() {
            Some("mvcc: watcher range is empty")
        } else if self.watchers.contains_key(&id) || self.ended.contains(&id) {
            Some("mvcc: duplicate watch ID provided on the WatchStream")
        } else if self.watchers.len() >= limits::WATCHES_PER_STREAM_MAX {
            Some("etcdserver: too many watches on this stream")
        } else if self.bytes + bytes > limits::WATCHED_BYTES_PER_STREAM_MAX {
            Some("etcdserver: the keys of the watches on this stream are too long")
        } else if !all.has_room(bytes) {
            Some("etcdserver: too many watches of all clients")
        } else {
            None
        }
    }

    fn free_id(&self) -> i64 {
        let mut id = self.next_id;
        while self.watchers.contains_key(&id) || self.ended.contains(&id) {
            id = id.wrapping_add(1) & i64::MAX;
        }
        id
    }

    async fn cancel(&mut self, id: i64) -> Result<(), Status> {
        if !self.forget(id) && !self.ended.remove(&id) {
            return Ok(());
        }
        let response = {
            let mut state = self.registry.state();
            state.listeners.unwatch(self.listener, id);
            let header = self.registry.header(&state);
            WatchResponse { header, watch_id: id, canceled: true, ..WatchResponse::default() }
        };
        self.responses.send(response).await?;
        Ok(())
    }

    /// Removes a watch that was compacted.
    fn end(&mut self, id: i64) {
        self.forget(id);
        self.ended.insert(id);
        if self.ended.len() > limits::WATCHES_PER_STREAM_MAX {
            self.ended.pop_first();
        }
    }

    /// Removes a watch; false if there was none.
    fn forget(&mut self, id: i64) -> bool {
        self.behind.remove(&id);
        let watcher = self.watchers.remove(&id);
        self.bytes -= watcher.as_ref().map_or(0, |watcher| watcher.bytes);
        watcher.is_some()
    }

    /// Tells the revision up to which this watch, or the whole stream, has seen everything.
    async fn progress(&mut self, id: i64) -> Result<(), Status> {
        self.deliver().await?;
        if id != NO_WATCH && !self.watchers.contains_key(&id) {
            return Ok(()); // its end was told
        }
        let header = self.header_of_seen(id);
        self.responses
            .send(WatchResponse { header, watch_id: id, ..WatchResponse::default() })
            .await?;
        Ok(())
    }

    /// The header with the revision that a watch, or each of the stream, has seen. More may have come for one while
    /// another was served.
    fn header_of_seen(&mut self, id: i64) -> Option<ResponseHeader> {
        let mut state = self.registry.state();
        note_behind(
            &mut self.watchers,
            &mut self.behind,
            state.listeners.take_changed(self.listener),
        );
        let header = self.registry.header(&state)?;
        let concerned = self.behind.iter().filter(|behind| id == NO_WATCH || **behind == id);
        let seen = concerned.filter_map(|id| self.watchers.get(id)).map(Watcher::seen).min();
        let revision = seen.map_or(header.revision, |seen| seen.0.min(header.revision));
        Some(ResponseHeader { revision, ..header })
    }

    async fn progress_of_quiet(&mut self) -> Result<(), Status> {
        let wanting: Vec<i64> = self
            .watchers
            .values()
            .filter(|watcher| watcher.wants_progress)
            .map(|watcher| watcher.id)
            .collect();
        for id in wanting {
            self.progress(id).await?;
        }
        Ok(())
    }

    /// Sends the next of what each watch has not seen. One that is always behind, because its client reads slowly, holds
    /// up neither the others nor the requests. It holds the store for one batch of one watch at a time.
    async fn deliver(&mut self) -> Result<(), Status> {
        let changed = self.registry.state().listeners.take_changed(self.listener);
        note_behind(&mut self.watchers, &mut self.behind, changed);
        let (mut last, mut served) = (None, 0);
        while let Some(id) = self.next_behind(last) {
            match self.next_batch(id) {
                NextChanges::Told(response) => self.tell(response).await?,
                NextChanges::Foreign => runtime::yield_now().await,
                NextChanges::End => {
                    served += 1;
                    if served % limits::WATCHES_AT_ONCE == 0 {
                        runtime::yield_now().await;
                    }
                }
            }
            last = Some(id);
        }
        Ok(())
    }

    /// Sends changes of a watch: in parts, if they are many and its client has asked for that.
    async fn tell(&mut self, mut response: WatchResponse) -> Result<(), Status> {
        let takes_parts =
            self.watchers.get(&response.watch_id).is_some_and(|watcher| watcher.takes_fragments);
        if takes_parts {
            let mut rest = std::mem::take(&mut response.events).into_iter().peekable();
            response.events = next_part(&mut rest);
            while rest.peek().is_some() {
                let (header, watch_id) = (response.header, response.watch_id);
                let events = std::mem::replace(&mut response.events, next_part(&mut rest));
                let part = WatchResponse {
                    header,
                    watch_id,
                    events,
                    fragment: true,
                    ..Default::default()
                };
                self.responses.send(part).await?;
            }
        }
        self.responses.send(response).await?;
        Ok(())
    }

    /// The next watch that may not have seen everything, in the order of their ids.
    fn next_behind(&self, last: Option<i64>) -> Option<i64> {
        let begin = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.behind.range((begin, Bound::Unbounded)).next().copied()
    }

    /// The next changes for a watch, or its end because they were compacted.
    fn next_batch(&mut self, id: i64) -> NextChanges {
        let mut state = self.registry.state();
        let present = state.visible();
        let Some(watcher) = self.watchers.get_mut(&id).filter(|it| !it.is_synced(present)) else {
            self.behind.remove(&id);
            return NextChanges::End;
        };
        let header = self.registry.header(&state);
        match watcher.see(&state.store, present) {
            Ok(Seen { events, more }) => {
                if !more {
                    self.behind.remove(&id);
                }
                match (events.is_empty(), more) {
                    (true, true) => NextChanges::Foreign,
                    (true, false) => NextChanges::End,
                    (false, _) => NextChanges::Told(WatchResponse {
                        header,
                        watch_id: id,
                        events,
                        ..WatchResponse::default()
                    }),
                }
            }
            Err(compacted) => {
                state.listeners.unwatch(self.listener, id);
                drop(state);
                self.end(id);
                NextChanges::Told(WatchResponse {
                    header,
                    watch_id: id,
                    canceled: true,
                    compact_revision: compacted.first.0,
                    cancel_reason: COMPACTED.to_owned(),
                    ..WatchResponse::default()
                })
            }
        }
    }
}

/// Takes the events of one part: one at least.
fn next_part(rest: &mut Peekable<impl Iterator<Item = Event>>) -> Vec<Event> {
    let mut part = Vec::from_iter(rest.next());
    let mut bytes = part.iter().map(Event::encoded_len).sum::<usize>();
    while let Some(event) = rest.next_if(|event| {
        bytes += event.encoded_len();
        bytes <= limits::WATCH_PART_BYTES
    }) {
        part.push(event);
    }
    part
}

/// Notes what has changed for the watches of a stream. One that was not behind has seen everything before.
fn note_behind(watchers: &mut BTreeMap<i64, Watcher>, behind: &mut BTreeSet<i64>, changed: Unseen) {
    for (id, from) in changed {
        if let Some(watcher) = watchers.get_mut(&id)
            && behind.insert(id)
        {
            watcher.has_seen_before(from);
        }
    }
}

/// What a watch hears next.
enum NextChanges {
    Told(WatchResponse),
    /// Nothing yet: many changes were of other keys.
    Foreign,
    /// Nothing.
    End,
}

const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";

/// The id in responses that concern no single watch.
const NO_WATCH: i64 = -1;
