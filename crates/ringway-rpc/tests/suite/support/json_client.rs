//! Clients of JSON-RPC over each of its transports, and servers by hand.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

use ringway_rpc::{Server, ServerHandle};

use super::LIMIT;
use super::math::{MathClient, Plain, serve_math};

/// A way for texts of JSON-RPC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Tcp,
    Unix,
    Post,
    Socket,
}

impl Transport {
    pub(crate) const ALL: [Self; 4] = [Self::Tcp, Self::Unix, Self::Post, Self::Socket];

    /// Those over which a server may send texts that answer none.
    pub(crate) const BOTH_WAYS: [Self; 3] = [Self::Tcp, Self::Unix, Self::Socket];
}

/// A server of the methods of the specification's examples, and how to reach it.
pub(crate) struct Served {
    pub(crate) handle: ServerHandle,
    pub(crate) plain: Plain,
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn start(transport: Transport, set: impl FnOnce(Server) -> Server) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("unix://@ringway-jsonrpc-{}-{number}", std::process::id());
        let address = match transport {
            Transport::Unix => name.as_str(),
            Transport::Tcp | Transport::Post | Transport::Socket => "tcp://127.0.0.1:0",
        };
        let plain = Plain::default();
        let handle = serve_math(address.parse().expect("an address"), &plain, set);
        let at = handle.addresses().first().expect("an address").to_string();
        let url = match transport {
            Transport::Tcp | Transport::Unix => format!("jsonrpc+{at}"),
            Transport::Post => at.replace("tcp://", "http://"),
            Transport::Socket => at.replace("tcp://", "ws://"),
        };
        Self { handle, plain, url }
    }

    pub(crate) fn client(&self) -> MathClient {
        MathClient::connect(&self.url).expect("an address")
    }
}

/// A server by hand, which listens.
pub(crate) struct Hand {
    listener: TcpListener,
    pub(crate) url: String,
}

/// A client's connection to it: texts on lines.
pub(crate) struct HandConnection {
    reader: BufReader<TcpStream>,
    pub(crate) writer: TcpStream,
}

impl Hand {
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("jsonrpc+tcp://{}", listener.local_addr().expect("it is bound"));
        Self { listener, url }
    }

    /// Accepts a connection and answers its ping with `pong`, the member of a response and its value.
    pub(crate) fn accept(&self, pong: &str) -> HandConnection {
        self.accept_saying(&format!(r#"{{"jsonrpc":"2.0",{pong},"id":ID}}"#))
    }

    /// The same with a whole answer, in which ID stands for the id.
    pub(crate) fn accept_saying(&self, answer: &str) -> HandConnection {
        let (writer, _) = self.listener.accept().expect("a client");
        writer.set_read_timeout(Some(LIMIT)).expect("a time above zero");
        let reader = BufReader::new(writer.try_clone().expect("a descriptor"));
        let mut connection = HandConnection { reader, writer };
        let ping = connection.request().expect("a ping");
        assert_eq!(ping["method"], "rpc.ping");
        connection.say(&answer.replace("ID", &ping["id"].to_string()));
        connection
    }
}

impl HandConnection {
    /// The next text; `None` at the end.
    pub(crate) fn text(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line),
        }
    }

    /// The next text as JSON.
    pub(crate) fn request(&mut self) -> Option<serde_json::Value> {
        Some(serde_json::from_str(&self.text()?).expect("JSON"))
    }

    /// Sends a line, which a client may refuse by closing the connection.
    pub(crate) fn say(&mut self, line: &str) {
        let _gone = self.writer.write_all(format!("{line}\n").as_bytes());
    }

    /// Answers a request with a result.
    pub(crate) fn answer(&mut self, request: &serde_json::Value, result: &str) {
        self.say(&format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{}}}"#, request["id"]));
    }
}
