//! Puts load on a method of the user's: the same request again and again, in a closed or an open
//! loop.

use std::cell::RefCell;
use std::error::Error;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use ringway_rpc::{Client, Kind, Status, Streaming};
use ringway_runtime::{sleep, spawn, yield_now};

use super::dial::dial_by;
use super::engine::Part;
use super::open_loop::{self, Work};
use super::outcome::CoreOutcome;
use super::score::Score;
use crate::args::{Access, CallJob, Pace};
use crate::call::{Expected, KnownMethod, whole_message};
use crate::foreign::printable;
use crate::limits;

/// A call that can be repeated.
pub(super) struct UserCall {
    access: Access,
    known: KnownMethod,
    request: Bytes,
    expected: Option<Expected>,
}

impl UserCall {
    /// Asks the server about the method, and parses the request and the expected reply.
    ///
    /// # Errors
    /// There is no such server or method, or the request or the expected reply is not of its type.
    pub(super) fn prepare(job: &CallJob) -> Result<Arc<Self>, Box<dyn Error>> {
        let (access, name, is_binary) = (job.access.clone(), job.method.clone(), job.is_binary);
        let found = ringway_runtime::block_on(async move {
            let client = access.client().map_err(|error| error.to_string())?;
            let known = KnownMethod::find(&access, &client, &name, is_binary).await;
            known.map_err(|error| error.to_string())
        });
        let known = found?.map_err(|why| printable(&why).into_owned())?;
        let request = whole_message(&job.message, is_binary)?;
        let request = known.transcoder.request(&request)?;
        let expected = job.expect.as_ref().map(|text| known.transcoder.expected(text)).transpose();
        let expected = expected.map_err(|why| format!("--expect is {why}"))?;
        Ok(Arc::new(Self { access: job.access.clone(), known, request, expected }))
    }

    /// Returns the length of the request in bytes.
    pub(super) fn request_len(&self) -> u32 {
        self.request.len() as u32
    }

    /// Makes a new client and connects it by a first question.
    async fn connect(self: Arc<Self>) -> Result<Client, Status> {
        let client = self.access.client().map_err(|error| Status::internal(error.to_string()))?;
        KnownMethod::ask(&self.access, &client).await?;
        Ok(client)
    }

    /// Makes one call; `look` sees each reply.
    async fn ask(&self, client: &Client, mut look: impl FnMut(Bytes)) -> Result<(), Status> {
        let KnownMethod { method, codec_in, codec_out, .. } = &self.known;
        let request = self.request.clone();
        match method.kind() {
            Kind::Unary => look(client.unary(method, *codec_in, *codec_out, request).await?),
            Kind::ServerStream => {
                let replies = client.server_stream(method, *codec_in, *codec_out, request);
                all(replies, look).await?;
            }
            Kind::ClientStream => {
                let (mut sink, reply) = client.client_stream(method, *codec_in, *codec_out);
                // A finished call accepts no more messages; its other half tells how it ended.
                _ = sink.send(request).await;
                sink.finish();
                look(reply.await?);
            }
            Kind::Bidi => {
                let (mut sink, replies) = client.bidi(method, *codec_in, *codec_out);
                _ = sink.send(request).await;
                sink.finish();
                all(replies, look).await?;
            }
        }
        Ok(())
    }
}

async fn all(mut replies: Streaming<Bytes>, mut look: impl FnMut(Bytes)) -> Result<(), Status> {
    while let Some(reply) = replies.next().await? {
        look(reply);
    }
    Ok(())
}

/// Makes calls over the connections of `part` at the requested rate.
pub(super) async fn run(part: Part, call: Arc<UserCall>, pace: Pace) -> io::Result<CoreOutcome> {
    let score = Score::new();
    let connecting = Arc::clone(&call);
    let connected = dial_by(&part, &score, move || Arc::clone(&connecting).connect()).await;
    part.wait_for_all(1).await;
    let clients: Vec<Client> = connected.into_iter().map(|(_, client)| client).collect();
    let work = Rc::new(UserCalls { call, clients, right: RefCell::new(Bytes::new()) });
    match pace {
        Pace::Closed { depth } => {
            let lanes = work.clients.iter().flat_map(|client| (0..depth).map(move |_| client));
            let lane = |client: &Client| {
                spawn(Rc::clone(&work).run_lane(client.clone(), Rc::clone(&score)))
            };
            score.keep(&part, lanes.map(lane).collect()).await
        }
        Pace::Open { rate, .. } => {
            let work = (!work.clients.is_empty()).then_some(work);
            open_loop::run(&part, rate, work, &score).await
        }
    }
}

/// The calls of one core.
struct UserCalls {
    call: Arc<UserCall>,
    clients: Vec<Client>,
    /// The reply that was last found correct; another one with the same bytes is also correct.
    right: RefCell<Bytes>,
}

impl UserCalls {
    async fn run_lane(self: Rc<Self>, client: Client, score: Rc<Score>) {
        while !score.is_over() {
            match self.one(&client, Instant::now(), &score).await {
                Ok(()) => {}
                // Asking a server that is gone or full as fast as this loop can would teach nothing.
                Err(status) if status.is_unavailable() || status.is_not_executed() => {
                    sleep(limits::FAILED_CALL_PAUSE).await;
                }
                // A call may fail before it leaves the core, so the core's other tasks get a turn.
                Err(_) => yield_now().await,
            }
        }
    }

    /// Makes one call, measures its latency from `begun`, and counts its outcome.
    async fn one(&self, client: &Client, begun: Instant, score: &Score) -> Result<(), Status> {
        let (mut is_right, mut replies) = (true, 0_u64);
        let look = |reply| {
            replies += 1;
            is_right &= self.check(reply, score);
        };
        let ended = self.call.ask(client, look).await;
        match &ended {
            Ok(()) if replies == 0 && self.call.expected.is_some() => {
                score.compared(false, || "a call ended without a reply".to_owned());
            }
            Ok(()) if is_right => {
                score.add(1);
                score.time(begun, Instant::now());
            }
            Ok(()) => {}
            Err(status) => score.fail_by_status(status),
        }
        ended
    }

    fn check(&self, reply: Bytes, score: &Score) -> bool {
        let Some(expected) = &self.call.expected else {
            return true;
        };
        let mut right = self.right.borrow_mut();
        let is_right = (!right.is_empty() && *right == reply) || expected.is(&reply);
        score.compared(is_right, || self.complaint(&reply));
        if is_right {
            *right = reply;
        }
        is_right
    }

    fn complaint(&self, reply: &Bytes) -> String {
        let text = self.call.known.transcoder.reply(reply).unwrap_or_else(String::into_bytes);
        let text: String = String::from_utf8_lossy(&text).chars().take(SHOWN_CHARS).collect();
        format!("a reply is not what --expect says: {}", printable(&text))
    }
}

impl Work for Rc<UserCalls> {
    async fn call(&self, sequence: u64, due: Instant, score: &Score) {
        let client = &self.clients[sequence as usize % self.clients.len()];
        _ = self.one(client, due, score).await; // it is counted
    }
}

/// Characters shown of a wrong reply: enough to see the difference.
const SHOWN_CHARS: usize = 200;
