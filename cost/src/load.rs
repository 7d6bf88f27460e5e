//! The clients: one connection each, and one operation after the other on each lane of it.

use std::error::Error;
use std::net::SocketAddr;

use bytes::Bytes;
use ringway_discovery::etcd_api::etcdserverpb::{KvClient, PutRequest, RangeRequest};
use ringway_mongo::Collection;
use ringway_mongo::bson::{RawDocumentBuf, rawdoc};
use ringway_rpc::{CallOptions, Client, Status};
use ringway_runtime::io::Stream;
use ringway_runtime::spawn;

use crate::echo::{EchoClient, Greeting};
use crate::rows::Work;

/// A client that is connected.
pub(crate) enum Load {
    Calls { client: EchoClient, payload: Bytes, lanes: u32 },
    Greetings { client: EchoClient, lanes: u32 },
    Frames { client: EchoClient, a_stream: u32, window: u32 },
    Echo { stream: Stream, bytes: usize },
    Connect { client: ringway_http::Client, url: String },
    Get { client: ringway_http::Client, url: String },
    FindOne(Collection<RawDocumentBuf>),
    InsertOne(Collection<RawDocumentBuf>),
    Put(KvClient),
    Range(KvClient),
}

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Keys that a range finds.
const KEYS: u32 = 10;

impl Load {
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn connect(work: Work, address: SocketAddr) -> Outcome<Self> {
        let echo = |scheme| Ok::<_, Status>(EchoClient::new(dial(scheme, address)?));
        Ok(match work {
            Work::Calls { protocol, bytes, lanes } => {
                let payload = vec![7; bytes].into();
                Self::Calls { client: echo(protocol.scheme())?, payload, lanes }
            }
            Work::Greetings { protocol, lanes } => {
                Self::Greetings { client: echo(protocol.scheme())?, lanes }
            }
            Work::Frames { a_stream, window } => {
                Self::Frames { client: echo("tcp")?, a_stream, window }
            }
            Work::Echo { bytes } => {
                let stream = Stream::connect(&address.into()).await?;
                stream.with_socket(|socket| socket.set_tcp_nodelay(true))?;
                Self::Echo { stream, bytes }
            }
            Work::Connect => {
                let url = format!("http://{address}/cost.Echo/Greet");
                Self::Connect { client: ringway_http::Client::new(), url }
            }
            Work::Get => {
                let url = format!("http://{address}/greet/Ada");
                Self::Get { client: ringway_http::Client::new(), url }
            }
            Work::FindOne => Self::FindOne(books(address)?),
            Work::InsertOne => Self::InsertOne(books(address)?),
            Work::Put { .. } => Self::Put(KvClient::new(dial("grpc", address)?)),
            Work::Range => Self::Range(filled(KvClient::new(dial("grpc", address)?)).await?),
        })
    }

    /// Does so many operations.
    ///
    /// # Errors
    /// One of them failed, or its answer is wrong.
    pub(crate) async fn run(&mut self, count: u32) -> Outcome {
        match self {
            Self::Calls { client, payload, lanes } => {
                let (client, payload) = (client.clone(), payload.clone());
                on_lanes(*lanes, count, move || call(client.clone(), payload.clone())).await
            }
            Self::Greetings { client, lanes } => {
                let client = client.clone();
                on_lanes(*lanes, count, move || greet(client.clone())).await
            }
            Self::Frames { client, a_stream, window } => {
                for _ in 0..count / *a_stream {
                    frames(client, *a_stream, *window).await?;
                }
                Ok(())
            }
            Self::Echo { stream, bytes } => echo(stream, *bytes, count).await,
            Self::Connect { client, url } => {
                for _ in 0..count {
                    let body = Bytes::from_static(br#"{"name":"Ada Lovelace","age":36}"#);
                    let reply = client.post(url, "application/json", body.clone()).await?;
                    check(reply.into_body().bytes(1 << 10).await? == body)?;
                }
                Ok(())
            }
            Self::Get { client, url } => {
                for _ in 0..count {
                    let reply = client.get(url).await?;
                    check(reply.into_body().bytes(1 << 10).await? == "Hello!")?;
                }
                Ok(())
            }
            Self::FindOne(books) => {
                for _ in 0..count {
                    check(books.find_one(rawdoc! { "_id": 7 }).await?.is_some())?;
                }
                Ok(())
            }
            Self::InsertOne(books) => {
                for _ in 0..count {
                    let book = rawdoc! { "n": 7, "text": "one of many", "price": 1.5 };
                    books.insert_one(&book).await?;
                }
                Ok(())
            }
            Self::Put(kv) => put(kv, "cost/key", count).await,
            Self::Range(kv) => {
                let request = RangeRequest {
                    key: "cost/".into(),
                    range_end: "cost0".into(),
                    ..RangeRequest::default()
                };
                for _ in 0..count {
                    check(kv.range(request.clone()).await?.kvs.len() == KEYS as usize)?;
                }
                Ok(())
            }
        }
    }
}

/// A message of the streams.
const FRAME: Bytes = Bytes::from_static(&[7; 128]);

fn check(is_right: bool) -> Result<(), &'static str> {
    if is_right { Ok(()) } else { Err("an answer is wrong") }
}

/// Shares `count` operations out to tasks that run at the same time.
async fn on_lanes<F>(lanes: u32, count: u32, operation: impl Fn() -> F + Clone + 'static) -> Outcome
where
    F: Future<Output = Result<(), Status>> + 'static,
{
    let lane = |_| {
        let operation = operation.clone();
        spawn(async move {
            for _ in 0..count / lanes {
                operation().await?;
            }
            Ok::<_, Status>(())
        })
    };
    let running: Vec<_> = (0..lanes).map(lane).collect();
    for lane in running {
        lane.await??;
    }
    Ok(())
}

/// A client of one connection, whose calls have no timer: its cost would depend on the time.
fn dial(scheme: &str, address: SocketAddr) -> Result<Client, Status> {
    let options = CallOptions::new().no_timeout();
    let address = format!("{scheme}://{address}");
    Client::builder().address(&*address).connections_max(1).options(options).build()
}

async fn call(client: EchoClient, payload: Bytes) -> Result<(), Status> {
    let reply = client.say(payload.clone()).await?;
    check(reply == payload).map_err(Status::internal)
}

async fn greet(client: EchoClient) -> Result<(), Status> {
    let reply = client.greet(Greeting { name: "Ada Lovelace".to_owned(), age: 36 }).await?;
    check(reply.age == 36).map_err(Status::internal)
}

async fn frames(client: &EchoClient, a_stream: u32, window: u32) -> Outcome {
    let (mut messages, mut replies) = client.chat();
    for frame in 0..a_stream {
        if frame >= window {
            check(replies.next().await?.is_some_and(|reply| reply == FRAME))?;
        }
        messages.send(FRAME).await?;
    }
    messages.finish();
    for _ in 0..window.min(a_stream) {
        check(replies.next().await?.is_some_and(|reply| reply == FRAME))?;
    }
    Ok(check(replies.next().await?.is_none())?)
}

async fn echo(stream: &Stream, bytes: usize, count: u32) -> Outcome {
    let message = Bytes::from(vec![7; bytes]);
    for _ in 0..count {
        stream.send(message.clone());
        let mut received = 0;
        while received < bytes {
            received += stream.recv().await?.ok_or("the server has closed")?.len();
        }
        check(received == bytes)?;
    }
    Ok(())
}

fn books(address: SocketAddr) -> Outcome<Collection<RawDocumentBuf>> {
    let options = ringway_mongo::ClientOptions::parse(&format!("mongodb://{address}"))?;
    Ok(ringway_mongo::Client::new(options.pool_size_max(1)).database("cost").collection("books"))
}

async fn put(kv: &KvClient, key: &str, count: u32) -> Outcome {
    let (key, value) = (key.to_owned().into(), vec![b'v'; 64].into());
    let request = PutRequest { key, value, ..PutRequest::default() };
    for _ in 0..count {
        check(kv.put(request.clone()).await?.header.is_some())?;
    }
    Ok(())
}

async fn filled(kv: KvClient) -> Outcome<KvClient> {
    for number in 0..KEYS {
        put(&kv, &format!("cost/{number}"), 1).await?;
    }
    Ok(kv)
}
