//! Calls of JSON-RPC to methods that no trait describes.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ringway_wire::jsonrpc::{Incoming, close_notification, decode_responses};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::Call;
use super::handle::Client;
use super::jsonrpc::{TextForm, open_params, status_of};
use super::options::CallOptions;
use super::renewed::RenewedStream;
use super::server_address::ToServerAddresses;
use crate::call::codec::{Codec, JSON, unreadable_reply};
use crate::call::json_shape::Shape;
use crate::call::method::{Kind, Method};
use crate::call::status::Status;
use crate::limits;
use crate::stream::streaming::Streaming;

/// A client of JSON-RPC servers for methods of any name, with any JSON.
///
/// It is a [`Client`] with its connections, options, retries, interceptors and balancing, so it is cheap to clone
/// and may be used on any thread. In metrics its calls are `jsonrpc/Call`, `jsonrpc/Notify` and so on.
///
/// Parameters are what serde makes of them: an array (of a tuple, a `Vec`) or an object (of a struct, a map). Any
/// other value is a parameter alone, and `()` is none.
///
/// ```no_run
/// use ringway_rpc::{JsonRpcClient, Status};
///
/// # async fn run() -> Result<(), Status> {
/// let client = JsonRpcClient::connect("jsonrpc+tcp://127.0.0.1:9000")?;
/// let difference: i64 = client.call("subtract", (42, 23)).await?;
/// client.notify("update", [1, 2, 3]).await?;
///
/// let mut batch = client.batch();
/// batch.call("sum", [1, 2, 4]);
/// batch.call("get_data", ());
/// let replies = batch.send().await?;
/// let sum: i64 = replies[0].clone()?.parse()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct JsonRpcClient {
    client: Client,
}

static CALL: Method = Method::new("jsonrpc/Call", Kind::Unary);
static NOTIFY: Method = Method::new("jsonrpc/Notify", Kind::Unary);
static BATCH: Method = Method::new("jsonrpc/Batch", Kind::Unary);
static SUBSCRIBE: Method = Method::new("jsonrpc/Subscribe", Kind::ServerStream);

impl JsonRpcClient {
    /// Makes a client of the JSON-RPC servers at one or several addresses. It connects when the first call is
    /// made.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when an address is malformed or not of JSON-RPC, or when there is none.
    pub fn connect(addresses: impl ToServerAddresses) -> Result<Self, Status> {
        Self::new(Client::connect(addresses)?)
    }

    /// Makes calls over `client`, with its options.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when its servers speak another protocol than JSON-RPC.
    pub fn new(client: Client) -> Result<Self, Status> {
        match client.speaks_json() {
            true => Ok(Self { client }),
            false => Err(Status::invalid_argument("the client's servers do not speak JSON-RPC")),
        }
    }

    /// The same client with other default options.
    #[must_use]
    pub fn with(&self, options: CallOptions) -> Self {
        Self { client: self.client.with(options) }
    }

    /// The client below, for its metrics and servers.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Calls a method. The call fails with INTERNAL if its result is not an `R`.
    pub fn call<P: Serialize, R>(&self, method: &str, params: P) -> Call<R>
    where
        R: Serialize + DeserializeOwned + 'static,
    {
        self.client.unary_of(&CALL, TextForm::Call.codec(), request(method, &params), Codec::json())
    }

    /// Sends a notification. It is over when the connection has taken it: nothing is known of the server.
    pub fn notify<P: Serialize>(&self, method: &str, params: P) -> Call<()> {
        let text = request(method, &params).map(|text| closed(text.to_vec()));
        self.client.unary_of(&NOTIFY, TextForm::Notification.codec(), text, nothing())
    }

    /// Calls a method whose result is the id of a subscription, and reads what it brings. Dropping the stream
    /// sends `rpc.unsubscribe`.
    pub fn subscribe<P: Serialize, R>(&self, method: &str, params: P) -> Streaming<R>
    where
        R: Serialize + DeserializeOwned + 'static,
    {
        let (form, text) = (TextForm::Subscription.codec(), request(method, &params));
        self.client.server_stream_of(&SUBSCRIBE, form, text, Codec::json())
    }

    /// The same for as long as the server is reached again: a subscription that is lost with its connection is
    /// made again, and its reader told of the gap.
    pub fn subscribe_again<P: Serialize, R>(&self, method: &str, params: P) -> RenewedStream<R>
    where
        R: Serialize + DeserializeOwned + 'static,
    {
        let (client, text) = (self.client.clone(), request(method, &params));
        RenewedStream::new(move || {
            let form = TextForm::Subscription.codec();
            client.server_stream_of(&SUBSCRIBE, form, text.clone(), Codec::json())
        })
    }

    /// Begins a batch of calls and notifications, which are one text.
    pub fn batch(&self) -> JsonRpcBatch<'_> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let text = number.to_le_bytes().to_vec();
        JsonRpcBatch { client: self, number, text, messages: 0, calls: 0, failure: None }
    }

    /// Waits until a server answers `rpc.ping`. One that has no such method answers as well.
    ///
    /// # Errors
    /// The status of the call, such as UNAVAILABLE or DEADLINE_EXCEEDED.
    pub async fn ping(&self) -> Result<(), Status> {
        let text = request("rpc.ping", &());
        match self.client.unary_of(&CALL, TextForm::Call.codec(), text, nothing()).await {
            Err(status) if status.json_rpc_code().is_some() || status.is_unimplemented() => Ok(()),
            answered => answered,
        }
    }
}

impl fmt::Debug for JsonRpcClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonRpcClient").finish_non_exhaustive()
    }
}

/// Calls and notifications that are sent as one text, made by [`JsonRpcClient::batch`].
#[must_use = "a batch is sent by `send`"]
pub struct JsonRpcBatch<'a> {
    client: &'a JsonRpcClient,
    number: u64,
    /// The number, then the messages without the end of the array.
    text: Vec<u8>,
    messages: usize,
    calls: usize,
    failure: Option<Status>,
}

impl JsonRpcBatch<'_> {
    /// Adds a call. Returns the place of its reply.
    pub fn call<P: Serialize>(&mut self, method: &str, params: P) -> usize {
        let id = format!(",\"id\":\"b{}.{}\"}}", self.number, self.calls);
        self.add(method, &params, id.as_bytes());
        self.calls += 1;
        self.calls - 1
    }

    /// Adds a notification, which has no reply.
    pub fn notify<P: Serialize>(&mut self, method: &str, params: P) {
        self.add(method, &params, b"}");
    }

    fn add<P: Serialize>(&mut self, method: &str, params: &P, end: &[u8]) {
        match request(method, params) {
            Ok(text) => {
                self.text.push(if self.messages == 0 { b'[' } else { b',' });
                self.text.extend_from_slice(&text);
                self.text.extend_from_slice(end);
                self.messages += 1;
            }
            Err(status) => drop(self.failure.get_or_insert(status)),
        }
    }

    /// Sends it. Returns a reply or a failure for each call, in the order in which they were added.
    ///
    /// # Errors
    /// The status of the whole, as of a lost connection; INVALID_ARGUMENT for more than 1,000 messages.
    pub async fn send(mut self) -> Result<Vec<Result<JsonReply, Status>>, Status> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.messages > limits::JSONRPC_BATCH_MAX {
            let (messages, most) = (self.messages, limits::JSONRPC_BATCH_MAX);
            let why = format!("a batch has {messages} messages, above {most}");
            return Err(Status::invalid_argument(why));
        }
        if self.messages == 0 {
            return Ok(Vec::new());
        }
        self.text.push(b']');
        let client = &self.client.client;
        if self.calls == 0 {
            let text = Ok(Bytes::from(self.text).slice(NUMBER_LEN..));
            let form = TextForm::Notification.codec();
            client.unary_of(&BATCH, form, text, nothing()).await?;
            return Ok(Vec::new());
        }
        let form = TextForm::Batch.codec();
        let reply = client.unary_of(&BATCH, form, Ok(self.text.into()), Codec::raw()).await?;
        let (is_ours, text) = reply.split_first().unwrap_or((&0, &[]));
        replies(text, *is_ours == 1, self.number, self.calls)
    }
}

/// Bytes of the number in front of a batch's text.
const NUMBER_LEN: usize = size_of::<u64>();

impl fmt::Debug for JsonRpcBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonRpcBatch").field("messages", &self.messages).finish_non_exhaustive()
    }
}

/// The result of a call of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonReply(Box<str>);

impl JsonReply {
    /// The result as the server has written it.
    pub fn json(&self) -> &str {
        &self.0
    }

    /// Reads the result.
    ///
    /// # Errors
    /// INTERNAL when it is not an `R`.
    pub fn parse<R: DeserializeOwned>(&self) -> Result<R, Status> {
        serde_json::from_str(&self.0).map_err(|error| {
            unreadable_reply(Status::internal(error.to_string()).with_source(error))
        })
    }
}

/// The replies of a batch, by the places in their ids.
fn replies(
    text: &[u8],
    is_ours: bool,
    batch: u64,
    calls: usize,
) -> Result<Vec<Result<JsonReply, Status>>, Status> {
    let prefix = format!("b{batch}.");
    let missing = || Err(Status::internal("the answer to the batch has no reply to this call"));
    let mut replies: Vec<_> = (0..calls).map(|_| missing()).collect();
    let all = decode_responses(text, limits::JSONRPC_BATCH_MAX);
    let all = all.map_err(|fault| unreadable_reply(Status::internal(fault.to_string())))?;
    for incoming in all {
        let Ok(Incoming::Response(response)) = incoming else { continue };
        let id = response.id.text().unwrap_or_default();
        let place = id.strip_prefix(&*prefix).and_then(|place| place.parse::<usize>().ok());
        if let Some(reply) = place.and_then(|place| replies.get_mut(place)) {
            *reply = match &response.outcome {
                Ok(result) => Ok(JsonReply((*result).into())),
                Err(error) => Err(status_of(error, is_ours)),
            };
        }
    }
    Ok(replies)
}

/// A request up to its id.
fn request<P: Serialize>(method: &str, params: &P) -> Result<Bytes, Status> {
    let mut text = Vec::new();
    // An array is the parameters, also one of arrays; null is none.
    let shape = || Shape::List { of_lists: true };
    let written = open_params(method, shape, &mut text, |out| {
        let start = out.len();
        serde_json::to_writer(&mut *out, params).map_err(|error| {
            let why = format!("the parameters cannot be encoded as JSON: {error}");
            Status::invalid_argument(why).with_source(error)
        })?;
        if &out[start..] == b"null" {
            out.truncate(start);
            out.extend_from_slice(b"[]");
        }
        Ok(())
    });
    written.map_err(Status::not_executed)?;
    Ok(text.into())
}

fn closed(mut text: Vec<u8>) -> Bytes {
    close_notification(&mut text);
    text.into()
}

/// Reads any reply as none.
fn nothing() -> Codec<()> {
    Codec { id: JSON, encode: |(), _| Ok(None), decode: |_| Ok(()), json: None }
}
