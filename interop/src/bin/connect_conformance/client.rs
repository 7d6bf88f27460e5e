//! The client under test: one call for each request of the suite.

use std::error::Error;
use std::io;
use std::time::Duration;

use prost::Message;
use prost_types::Any;
use ringway::net::ClientTls;
use ringway::rpc::{CallOptions, Client, ClientCompression, Response, Sink, Status, Streaming};
use ringway::runtime::{block_on, sleep, timeout};

use crate::messages::{self, RpcStatus, headers};
use crate::suite::client_compat_request::cancel::CancelTiming;
use crate::suite::client_compat_response::Result as Outcome;
use crate::suite::{
    BidiStreamRequest, BidiStreamResponse, ClientCompatRequest, ClientCompatResponse,
    ClientErrorResult, ClientResponseResult, ClientStreamRequest, ClientStreamResponse,
    Compression, ConformancePayload, ConformanceServiceClient, IdempotentUnaryResponse,
    ServerStreamResponse, StreamType, UnaryResponse, UnimplementedRequest, UnimplementedResponse,
};

/// Calls at a time; each has a core of its own.
const CALLS_MAX: usize = 4;

/// A guard against hanging: the suite's slowest call takes a second or two.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);

/// Makes the calls that the suite asks for, to the last one.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CALLS_MAX).map(|_| scope.spawn(call_all)).collect();
        for worker in workers {
            worker.join().expect("a worker does not panic")?;
        }
        Ok(())
    })
}

fn call_all() -> io::Result<()> {
    while let Some(request) = messages::read::<ClientCompatRequest>()? {
        let test_name = request.test_name.clone();
        let called = block_on(timeout(CALL_TIME_MAX, call(request)));
        let result = match called.map(|in_time| in_time.unwrap_or_else(|_| Err("hangs".into()))) {
            Ok(Ok(result)) => Outcome::Response(result),
            Ok(Err(message)) => Outcome::Error(ClientErrorResult { message }),
            Err(error) => Outcome::Error(ClientErrorResult { message: error.to_string() }),
        };
        messages::write(&ClientCompatResponse { test_name, result: Some(result) })?;
    }
    Ok(())
}

/// When the client leaves its call.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    Never,
    BeforeItsEnd,
    AfterItsEnd(Duration),
    AfterReplies(usize),
}

impl Leaves {
    fn of(request: &ClientCompatRequest) -> Self {
        let Some(cancel) = &request.cancel else { return Self::Never };
        match cancel.cancel_timing {
            Some(CancelTiming::BeforeCloseSend(())) => Self::BeforeItsEnd,
            Some(CancelTiming::AfterCloseSendMs(ms)) => {
                Self::AfterItsEnd(Duration::from_millis(ms.into()))
            }
            Some(CancelTiming::AfterNumResponses(replies)) => Self::AfterReplies(replies as usize),
            None => Self::AfterItsEnd(Duration::ZERO),
        }
    }
}

/// What has come of a call, and what the suite wants to become of it.
struct Seen {
    result: ClientResponseResult,
    leaves: Leaves,
    pause: Duration,
}

async fn call(request: ClientCompatRequest) -> Result<ClientResponseResult, String> {
    let client = connect(&request).map_err(|error| error.to_string())?;
    let service = ConformanceServiceClient::new(client).with(options(&request));
    let pause = Duration::from_millis(request.request_delay_ms.into());
    let leaves = Leaves::of(&request);
    let mut seen = Seen { result: ClientResponseResult::default(), leaves, pause };
    let mut messages = request.request_messages.iter();
    let first = || request.request_messages.first().ok_or("a request without a message");
    match request.method.as_deref().unwrap_or_default() {
        "Unary" => {
            sleep(pause).await;
            seen.await_reply(service.unary(unpacked(first()?)).full()).await;
        }
        "IdempotentUnary" => {
            sleep(pause).await;
            seen.await_reply(service.idempotent_unary(unpacked(first()?)).full()).await;
        }
        "Unimplemented" => {
            seen.await_reply(service.unimplemented(UnimplementedRequest {}).full()).await;
        }
        "ClientStream" => {
            let (mut requests, reply) = service.client_stream();
            seen.result.num_unsent_requests = messages.len() as i32;
            for message in messages {
                if !seen.send(&mut requests, unpacked::<ClientStreamRequest>(message)).await {
                    break;
                }
            }
            seen.end(requests);
            seen.await_reply(reply.full()).await;
        }
        "ServerStream" => {
            sleep(pause).await;
            let mut replies = service.server_stream(unpacked(first()?));
            seen.await_replies(&mut replies).await;
            seen.leave(replies);
        }
        "BidiStream" => {
            let (mut requests, mut replies) = service.bidi_stream();
            let is_full = request.stream_type() == StreamType::FullDuplexBidiStream;
            seen.result.num_unsent_requests = messages.len() as i32;
            let mut is_over = false;
            while let Some(message) = messages.next().filter(|_| !is_over) {
                if !seen.send(&mut requests, unpacked::<BidiStreamRequest>(message)).await {
                    break;
                }
                is_over = is_full && seen.await_one(&mut replies).await;
            }
            if !is_over {
                seen.end(requests);
                seen.await_replies(&mut replies).await;
            }
            seen.leave(replies);
        }
        other => return Err(format!("the service has no method {other}")),
    }
    Ok(seen.result)
}

impl Seen {
    /// Sends a request; `false` if the call takes no more of them.
    async fn send<T: 'static>(&mut self, requests: &mut Sink<T>, message: T) -> bool {
        sleep(self.pause).await;
        let is_sent = requests.send(message).await.is_ok();
        self.result.num_unsent_requests -= i32::from(is_sent);
        is_sent
    }

    fn end<T>(&self, requests: Sink<T>) {
        match self.leaves {
            Leaves::BeforeItsEnd => requests.cancel("the suite leaves before the end"),
            _ => requests.finish(),
        }
    }

    async fn await_reply<T: Reply>(
        &mut self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) {
        let outcome = match self.leaves {
            Leaves::AfterItsEnd(after) => {
                timeout(after, call).await.unwrap_or_else(|_| Err(left()))
            }
            _ => call.await,
        };
        match outcome {
            Ok(response) => {
                self.result.response_headers = headers(&response.metadata);
                self.result.response_trailers = headers(&response.trailers);
                self.result.payloads.extend(response.message.payload());
            }
            Err(status) => self.fail(&status),
        }
    }

    /// Takes replies until the stream is over or the client leaves.
    async fn await_replies<T: Reply>(&mut self, replies: &mut Streaming<T>) {
        let leaves = self.leaves;
        let reading = async { while !self.await_one(replies).await {} };
        let Leaves::AfterItsEnd(after) = leaves else { return reading.await };
        if timeout(after, reading).await.is_err() {
            self.fail(&left());
        }
    }

    /// Takes a reply; `true` if there is none to come.
    async fn await_one<T: Reply>(&mut self, replies: &mut Streaming<T>) -> bool {
        if self.leaves == Leaves::AfterReplies(self.result.payloads.len()) {
            self.fail(&left());
            return true;
        }
        if self.result.response_headers.is_empty() {
            match replies.metadata().await {
                Ok(metadata) => self.result.response_headers = headers(&metadata),
                Err(status) => {
                    self.fail(&status);
                    return true;
                }
            }
        }
        match replies.next().await {
            Ok(Some(reply)) => {
                self.result.payloads.extend(reply.payload());
                if self.leaves == Leaves::AfterReplies(self.result.payloads.len()) {
                    self.fail(&left());
                    return true;
                }
                false
            }
            Ok(None) => {
                self.result.response_trailers = replies.trailers().map(headers).unwrap_or_default();
                true
            }
            Err(status) => {
                self.fail(&status);
                true
            }
        }
    }

    /// Ends a stream whose client has seen enough of it.
    fn leave<T>(&self, replies: Streaming<T>) {
        if self.leaves != Leaves::Never {
            replies.cancel("the suite has seen enough");
        }
    }

    fn fail(&mut self, status: &Status) {
        let details = RpcStatus::decode(status.details().clone()).unwrap_or_default().details;
        let message = Some(status.message().to_owned());
        let code = i32::from(status.code().number());
        self.result.error = Some(crate::suite::Error { code, message, details });
        self.result.response_trailers = headers(status.metadata());
        if self.result.response_headers.is_empty() {
            self.result.response_headers = headers(status.initial_metadata());
        }
    }
}

fn left() -> Status {
    Status::cancelled("the client has left")
}

/// A message with a payload.
trait Reply: 'static {
    fn payload(self) -> Option<ConformancePayload>;
}

macro_rules! replies {
    ($($name:ty),*) => {$(
        impl Reply for $name {
            fn payload(self) -> Option<ConformancePayload> {
                Some(self.payload.unwrap_or_default())
            }
        }
    )*};
}

replies!(
    UnaryResponse,
    IdempotentUnaryResponse,
    ClientStreamResponse,
    ServerStreamResponse,
    BidiStreamResponse
);

impl Reply for UnimplementedResponse {
    fn payload(self) -> Option<ConformancePayload> {
        None
    }
}

fn unpacked<M: Message + Default>(message: &Any) -> M {
    M::decode(&*message.value).expect("a request of the suite")
}

fn connect(request: &ClientCompatRequest) -> Result<Client, Box<dyn Error>> {
    let is_tls = !request.server_tls_cert.is_empty();
    let scheme = if is_tls { "grpcs" } else { "grpc" };
    let address = format!("{scheme}://{}:{}", request.host, request.port);
    let mut builder = Client::builder().address(&*address);
    if is_tls {
        let mut tls = ClientTls::new().roots_pem(&request.server_tls_cert)?;
        if let Some(own) = &request.client_tls_creds {
            tls = tls.client_cert_pem(&own.cert, &own.key)?;
        }
        builder = builder.tls(tls);
    }
    if request.message_receive_limit > 0 {
        builder = builder.message_bytes_max(request.message_receive_limit);
    }
    let compression = ClientCompression::of_replies().request_bytes_min(0);
    builder = match request.compression() {
        Compression::Gzip => builder.compression(compression.gzip_requests()),
        Compression::Zstd => builder.compression(compression.zstd_requests()),
        _ => builder,
    };
    Ok(builder.build()?)
}

fn options(request: &ClientCompatRequest) -> CallOptions {
    let options = match request.timeout_ms {
        Some(ms) => CallOptions::new().timeout(Duration::from_millis(ms.into())),
        None => CallOptions::new().no_timeout(),
    };
    let values = request
        .request_headers
        .iter()
        .flat_map(|header| messages::values(header).map(|value| (header.name.as_str(), value)));
    values.fold(options, |options, (key, value)| options.metadata(key, value))
}
