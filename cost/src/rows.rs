//! The table of rows.

use std::fmt;

/// One kind of work, done again and again over one connection.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    /// Operations before the counted ones: pools fill, tables grow, code is translated.
    warm: u32,
    /// Operations that are counted.
    counted: u32,
    /// Whether the server is one of ours.
    has_server: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// Unary calls of bytes.
    Calls {
        protocol: Protocol,
        bytes: usize,
        lanes: u32,
    },
    /// Unary calls of JSON messages.
    Greetings {
        protocol: Protocol,
        lanes: u32,
    },
    /// Streams of so many frames of 128 bytes, each echoed, with at most `window` unanswered; one
    /// operation is one frame.
    Frames {
        a_stream: u32,
        window: u32,
    },
    /// Bytes on a plain connection.
    Echo {
        bytes: usize,
    },
    /// A call by POST as Connect has it.
    Connect,
    /// A request of HTTP/1.1 to a router.
    Get,
    /// One document by its `_id`.
    FindOne,
    InsertOne,
    /// One key of a registry.
    Put {
        folder: bool,
    },
    /// Ten keys of a registry.
    Range,
}

#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    Native,
    Grpc,
    JsonLines,
    JsonPost,
}

impl Protocol {
    /// What an address begins with.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Native => "tcp",
            Self::Grpc => "grpc",
            Self::JsonLines => "jsonrpc+tcp",
            Self::JsonPost => "http",
        }
    }
}

const fn row(name: &'static str, work: Work, warm: u32, counted: u32) -> Row {
    let has_server = !matches!(work, Work::FindOne | Work::InsertOne);
    Row { name, work, warm, counted, has_server }
}

const fn calls(protocol: Protocol, bytes: usize, lanes: u32) -> Work {
    Work::Calls { protocol, bytes, lanes }
}

/// Each line of the table in `cost/table.txt` begins with one of these names.
pub(crate) const ROWS: &[Row] = &[
    row("echo-64", Work::Echo { bytes: 64 }, 200, 400),
    row("echo-16k", Work::Echo { bytes: 16 << 10 }, 200, 400),
    row("call-1", calls(Protocol::Native, 64, 1), 200, 400),
    row("call-100", calls(Protocol::Native, 64, 100), 2000, 4000),
    row("call-64k", calls(Protocol::Native, 64 << 10, 1), 200, 200),
    row("frame-w1", Work::Frames { a_stream: 16, window: 1 }, 320, 640),
    row("frame-w8", Work::Frames { a_stream: 16, window: 8 }, 640, 1600),
    row("stream-of-1", Work::Frames { a_stream: 1, window: 1 }, 200, 400),
    row("grpc-1", calls(Protocol::Grpc, 64, 1), 200, 400),
    row("grpc-100", calls(Protocol::Grpc, 64, 100), 2000, 4000),
    row("connect", Work::Connect, 200, 400),
    row("json-1", Work::Greetings { protocol: Protocol::JsonLines, lanes: 1 }, 200, 400),
    row("json-8", Work::Greetings { protocol: Protocol::JsonLines, lanes: 8 }, 400, 1600),
    row("json-post", Work::Greetings { protocol: Protocol::JsonPost, lanes: 1 }, 200, 400),
    row("http-get", Work::Get, 200, 400),
    row("mongo-find", Work::FindOne, 200, 400),
    row("mongo-insert", Work::InsertOne, 200, 400),
    row("registry-put", Work::Put { folder: false }, 200, 400),
    row("registry-range", Work::Range, 200, 400),
    row("registry-log", Work::Put { folder: true }, 200, 400),
];

/// As xtask reads it.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { name, warm, counted, has_server, .. } = self;
        let sides = if *has_server { "both" } else { "client" };
        write!(f, "{name} {warm} {counted} {sides}")
    }
}
