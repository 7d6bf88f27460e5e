//! A call of framed messages: what its client sends goes to the handler, and what the handler says comes
//! back, both at once where the client can do that.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ringway_http::Request;
use ringway_runtime::{now, timeout, yield_now};

use super::coder::Coder;
use super::envelopes::Envelopes;
use super::protocol::{CompressionFields, Framed};
use super::request::{CallStart, too_late};
use crate::call::status::Status;
use crate::limits;
use crate::server::core::ServerCore;
use crate::server::direct::{DirectCalls, DirectRequest};
use crate::server::direct_stream::{DirectEvent, DirectStream, DirectUpload};
use crate::server::dispatch::takes_one_message;

/// A call under way, with the rest of its request.
pub(super) struct Exchange {
    call: DirectStream,
    upload: Option<Upload>,
}

type Upload = Pin<Box<dyn Future<Output = Result<(), Status>>>>;

impl Exchange {
    /// Begins the call of a request. A method that takes one message begins when that is there.
    ///
    /// # Errors
    /// When the request is no call of the method.
    pub(super) async fn begin(
        core: &Rc<ServerCore>,
        calls: &DirectCalls,
        method_index: usize,
        framed: Framed,
        request: Request,
    ) -> Result<(Self, Rc<Coder>), Status> {
        let (headers, fields) = (request.headers(), CompressionFields::of(framed.framing));
        let start = CallStart::read(headers, method_index)?;
        let coder = Rc::new(Coder::new(core, method_index, framed.label, headers, fields)?);
        let (codec, message_max) = (coder.codec(Some(framed.framing)), coder.message_bytes_max());
        let is_stream = !takes_one_message(core.entry(method_index).method().kind);
        let body = match is_stream {
            true => request.into_body().endless(limits::WEB_STREAM_SILENCE),
            false => request.into_body().of_any_length(), // its message has a bound
        };
        let envelopes = Envelopes::new(framed.framing, body, message_max);
        if is_stream {
            let (head, meta) = start.begin(codec, std::time::Duration::ZERO)?;
            let call = calls.open_stream(head, meta);
            let upload = Box::pin(upload(envelopes, Rc::clone(&coder), call.upload()));
            return Ok((Self { call, upload: Some(upload) }, coder));
        }
        let began = now();
        let message = match start.timeout() {
            None => envelopes.single().await?,
            Some(left) => {
                timeout(left, envelopes.single()).await.map_err(|_elapsed| too_late())??
            }
        };
        let (head, meta) = start.begin(codec, now().saturating_duration_since(began))?;
        let translation = coder.translation(message.is_compressed);
        let message = message.bytes.into_bytes();
        let call = calls.open_single(DirectRequest { head, meta, message, translation });
        Ok((Self::of_whole(call), coder))
    }

    /// A call whose one message is there.
    pub(super) fn of_whole(call: DirectStream) -> Self {
        Self { call, upload: None }
    }

    /// A call whose messages are all there. Each is made when the handler takes it, since they may be many.
    pub(super) fn of_messages(
        call: DirectStream,
        messages: impl Iterator<Item = Result<Bytes, Status>> + 'static,
    ) -> Self {
        let to = call.upload();
        let upload = Box::pin(async move {
            for (at, message) in messages.enumerate() {
                to.ready().await;
                to.push(message?);
                // They need no socket, so a handler that takes each at once would never wait.
                if at % limits::WEB_MESSAGES_AT_ONCE == limits::WEB_MESSAGES_AT_ONCE - 1 {
                    yield_now().await;
                }
            }
            to.end();
            Ok(())
        });
        Self { call, upload: Some(upload) }
    }

    /// The next event of the call; none follows its end.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<DirectEvent> {
        self.call.begin(cx);
        if let Some(upload) = &mut self.upload
            && let Poll::Ready(outcome) = upload.as_mut().poll(cx)
        {
            self.upload = None;
            if let Err(status) = outcome {
                self.call.fail(&status);
            }
        }
        self.call.poll_event(cx)
    }
}

/// Sends the messages of a request to their handler, no faster than it takes them.
async fn upload(
    mut envelopes: Envelopes,
    coder: Rc<Coder>,
    call: DirectUpload,
) -> Result<(), Status> {
    loop {
        call.ready().await;
        let Some(message) = envelopes.next().await? else { break };
        call.push(coder.decode(message.is_compressed, message.bytes.into_bytes())?);
    }
    call.end();
    Ok(())
}
