//! A server on a thread, which answers as a test says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bson::{Document, RawDocument, RawDocumentBuf, doc};
use ringway_wire::mongo::OpMsg;

/// What a server does with one command.
pub(crate) enum Answer {
    /// A proper reply.
    Reply(Document),
    /// Any bytes; `{to}` of the command is in `Command::id`.
    Bytes(Vec<u8>),
    /// Nothing, and the connection stays.
    Silence,
    /// These bytes, and then the end.
    End(Vec<u8>),
}

pub(crate) struct Command {
    pub(crate) id: i32,
    /// Which connection of the server it came on, from 0.
    pub(crate) connection: usize,
    pub(crate) body: Document,
    /// The names of its fields, of which one may come twice.
    pub(crate) names: Vec<String>,
    /// Bytes of its message.
    pub(crate) len: usize,
    /// Whether several replies are allowed.
    pub(crate) allows_more: bool,
    stream: TcpStream,
}

impl Command {
    /// Its name; `hello` also for the older name of that.
    pub(crate) fn name(&self) -> &str {
        match self.body.keys().next().map_or("", String::as_str) {
            "isMaster" => "hello",
            name => name,
        }
    }

    /// Its connection, for what is told later.
    pub(crate) fn stream(&self) -> TcpStream {
        self.stream.try_clone().expect("a descriptor")
    }

    /// Answers now, whatever is answered later.
    pub(crate) fn send(&self, bytes: &[u8]) {
        let _client_may_be_gone = (&self.stream).write_all(bytes);
    }
}

/// A server; its connections end with their clients.
pub(crate) struct Fake {
    /// For a client that uses the server as it is, so that each connection is one of its pool.
    pub(crate) address: String,
    /// `host:port`
    pub(crate) place: String,
    connections: Arc<AtomicUsize>,
    commands: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Fake {
    /// Serves; `hello` is answered as a standalone server does, all else by `answer`.
    pub(crate) fn serve(answer: impl Fn(&Command) -> Answer + Send + Sync + 'static) -> Self {
        Self::serve_all(move |command| match command.name() {
            "hello" => Answer::Reply(hello()),
            _ => answer(command),
        })
    }

    /// Serves; all is answered by `answer`, but the end of sessions. Clients tell of that at their own end, and it is
    /// confirmed and not counted.
    pub(crate) fn serve_all(answer: impl Fn(&Command) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(answer, false)
    }

    /// Serves; all is answered by `answer`, the end of sessions too.
    pub(crate) fn serve_to_the_end(
        answer: impl Fn(&Command) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start(answer, true)
    }

    fn start(
        answer: impl Fn(&Command) -> Answer + Send + Sync + 'static,
        wants_ends: bool,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("an address").to_string();
        let address = format!("mongodb://{place}/?directConnection=true");
        let (answer, connections) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
        let (commands, ended) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&connections);
        let (command_count, end_count) = (Arc::clone(&commands), Arc::clone(&ended));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, answer) = (stream.expect("a connection"), Arc::clone(&answer));
                let connection = count.fetch_add(1, Ordering::SeqCst);
                let (commands, ended) = (Arc::clone(&command_count), Arc::clone(&end_count));
                thread::spawn(move || {
                    talk(&stream, connection, &|command| {
                        if command.name() == "endSessions" && !wants_ends {
                            return Answer::Reply(doc! { "ok": 1.0 });
                        }
                        commands.fetch_add(1, Ordering::SeqCst);
                        answer(command)
                    });
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, place, connections, commands, ended }
    }

    /// Commands that it has got, `hello` among them.
    pub(crate) fn commands(&self) -> usize {
        self.commands.load(Ordering::SeqCst)
    }

    /// Connections that have ended.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    /// Connections that it has accepted.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn talk(mut stream: &TcpStream, connection: usize, answer: &dyn Fn(&Command) -> Answer) {
    while let Some(Received { id, body, names, len, allows_more }) = read(stream) {
        let stream_too = stream.try_clone().expect("a descriptor");
        let command = Command { id, connection, body, names, len, allows_more, stream: stream_too };
        let (bytes, ends) = match answer(&command) {
            Answer::Reply(document) => (reply(id, &document), false),
            Answer::Bytes(bytes) => (bytes, false),
            Answer::Silence => continue,
            Answer::End(bytes) => (bytes, true),
        };
        if stream.write_all(&bytes).is_err() || ends {
            let _closed = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

pub(crate) fn hello() -> Document {
    doc! {
        "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 21, "logicalSessionTimeoutMinutes": 30,
        "maxBsonObjectSize": 16 << 20, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "ok": 1.0,
    }
}

struct Received {
    id: i32,
    body: Document,
    names: Vec<String>,
    len: usize,
    allows_more: bool,
}

fn read(mut stream: &TcpStream) -> Option<Received> {
    let mut message = vec![0; 4];
    stream.read_exact(&mut message).ok()?;
    let len = u32::from_le_bytes(message[..4].try_into().expect("four")) as usize;
    message.resize(len, 0);
    stream.read_exact(&mut message[4..]).ok()?;
    let id = i32::from_le_bytes(message[4..8].try_into().expect("four"));
    let read = OpMsg::read(&message).expect("a command of ours is well formed");
    let mut body = Document::try_from(read.body()).expect("and so is its body");
    let names = read.body().iter().map(|field| field.expect("BSON").0.to_string()).collect();
    for sequence in read.sequences() {
        let documents = sequence.documents().map(|it| Document::try_from(it).expect("BSON"));
        body.insert(sequence.identifier(), documents.collect::<Vec<_>>());
    }
    Some(Received { id, body, names, len, allows_more: message[EXHAUST_AT] & 1 != 0 })
}

/// Where the flag `exhaustAllowed` is, the lowest one of its byte.
const EXHAUST_AT: usize = 16 + 2;

/// Batches of the cursor 7, each of which answers the one before and announces the next; the first answers the command
/// `to`. The last one ends the cursor if `is_end`, and announces nothing.
pub(crate) fn streamed_batches(to: i32, batches: Vec<Vec<Document>>, is_end: bool) -> Vec<Vec<u8>> {
    const MORE_TO_COME: u8 = 2;
    let last = batches.len() - 1;
    let batch = |(at, documents): (usize, Vec<Document>)| {
        let number = |at: usize| 1000 + i32::try_from(at).expect("few");
        let answers = if at == 0 { to } else { number(at - 1) };
        let id = if at == last && is_end { 0_i64 } else { 7 };
        let body = doc! { "cursor": { "id": id, "ns": "d.c", "nextBatch": documents }, "ok": 1.0 };
        let body = RawDocumentBuf::try_from(&body).expect("a document of the test");
        let mut bytes = message(number(at), answers, &body);
        if at < last {
            bytes[16] |= MORE_TO_COME;
        }
        bytes
    };
    batches.into_iter().enumerate().map(batch).collect()
}

/// The reply to the command `to`.
pub(crate) fn reply(to: i32, body: &Document) -> Vec<u8> {
    message(1, to, &RawDocumentBuf::try_from(body).expect("a document of the test"))
}

/// The same for a body that is encoded already.
pub(crate) fn raw_reply(to: i32, body: &RawDocument) -> Vec<u8> {
    message(1, to, body)
}

/// A message with its number and that of the command that it answers.
pub(crate) fn message(id: i32, to: i32, body: &RawDocument) -> Vec<u8> {
    let len = 16 + 4 + 1 + body.as_bytes().len();
    let mut out = Vec::new();
    for number in [len as i32, id, to, 2013, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.push(0);
    out.extend_from_slice(body.as_bytes());
    out
}

/// A batch that ends its cursor.
pub(crate) fn last_batch(documents: Vec<Document>) -> Document {
    doc! { "cursor": { "id": 0_i64, "ns": "d.c", "firstBatch": documents }, "ok": 1.0 }
}
