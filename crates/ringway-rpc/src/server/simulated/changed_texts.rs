//! Sessions of protocols that are text: JSON-RPC on lines, HTTP/1.1 with all that it carries, and WebSocket. They
//! are put together at random, then [changed](super::mutation).

use std::sync::LazyLock;
use std::time::Duration;

use ringway_wire::websocket::{CloseCode, put_binary, put_close, put_ping, put_pong, put_text};

use super::mutation::changes::{Changes, change};
use super::mutation::random::Random;
use super::mutation::{HOUR, Protocol, check};

/// What the client says in a session, piece by piece.
type Session = Vec<Vec<u8>>;

static LINES: LazyLock<Vec<Session>> = LazyLock::new(|| sessions(lines));
static REQUESTS: LazyLock<Vec<Session>> = LazyLock::new(|| sessions(requests));
static SOCKETS: LazyLock<Vec<Session>> = LazyLock::new(|| sessions(socket));

#[test]
fn servers_stand_changed_sessions_of_json_rpc_and_others_notice_nothing() {
    check(&Protocol {
        test: "servers_stand_changed_sessions_of_json_rpc",
        sessions: || LINES.iter().collect(),
        mutate: |frames, others, random| change(&OF_LINES, frames, others, random),
        patience: HOUR,
        forgiven: None,
    });
}

#[test]
fn servers_stand_changed_sessions_of_http_and_others_notice_nothing() {
    check(&Protocol {
        test: "servers_stand_changed_sessions_of_http",
        sessions: || REQUESTS.iter().collect(),
        mutate: |frames, others, random| change(&OF_REQUESTS, frames, others, random),
        patience: PATIENCE,
        forgiven: Some(EARLY),
    });
}

#[test]
fn servers_stand_changed_sessions_of_websocket_and_others_notice_nothing() {
    check(&Protocol {
        test: "servers_stand_changed_sessions_of_websocket",
        sessions: || SOCKETS.iter().collect(),
        mutate: |frames, others, random| change(&OF_SOCKETS, frames, others, random),
        patience: HOUR,
        forgiven: None,
    });
}

/// How long handlers of HTTP wait: a simulated server is not told that a client has gone whose requests it does not
/// read meanwhile, if those are long.
const PATIENCE: Duration = Duration::from_secs(2);

/// hyper 1.12 asserts this when a request is malformed behind one whose reply, which came early, waits to be sent.
const EARLY: &str = "assertion failed: self.can_write_head()";

const OF_LINES: Changes = Changes {
    fields: &[(0, 1), (1, 1), (20, 1), (30, 1), (40, 2)],
    is_big_endian: true,
    settings: |random| {
        [b"\n".to_vec(), b"[".repeat(200), b"\xff\n".to_vec()][random.below(3)].clone()
    },
    own: line,
};

const OF_REQUESTS: Changes = Changes {
    fields: &[(0, 1), (5, 1), (30, 1), (60, 1), (80, 2)],
    is_big_endian: true,
    settings: |random| {
        [&b"\r\n"[..], b"0\r\n\r\n", b"5\r\nhello\r\n", b"ffffffff\r\n"][random.below(4)].to_vec()
    },
    own: request,
};

/// The numbers are those of a frame's head.
const OF_SOCKETS: Changes = Changes {
    fields: &[(0, 1), (0, 1), (1, 1), (2, 2), (2, 4), (6, 1)],
    is_big_endian: true,
    settings: control,
    own: message,
};

fn sessions(one: fn(&mut Random) -> Session) -> Vec<Session> {
    (0..48).map(|seed| one(&mut Random::new(seed))).collect()
}

fn lines(random: &mut Random) -> Session {
    (0..1 + random.below(12)).map(|_| line(random)).collect()
}

fn line(random: &mut Random) -> Vec<u8> {
    let mut line = text(random).into_bytes();
    line.extend([&b"\n"[..], b"\r\n"][random.below(2)]);
    line
}

fn requests(random: &mut Random) -> Session {
    (0..1 + random.below(8)).map(|_| request(random)).collect()
}

fn socket(random: &mut Random) -> Session {
    let path = ["/", "/rpc"][random.below(2)];
    let handshake = format!(
        "GET {path} HTTP/1.1\r\nhost: here\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let mut session = vec![handshake.into_bytes()];
    session.extend((0..1 + random.below(12)).map(|_| match random.below(6) {
        0 => control(random),
        _ => message(random),
    }));
    session
}

const MASK: Option<[u8; 4]> = Some([1, 2, 3, 4]);

/// A message, perhaps in two fragments.
fn message(random: &mut Random) -> Vec<u8> {
    let (text, mut frame) = (text(random), Vec::new());
    match random.below(8) {
        0 => {
            let (front, rest) = text.split_at(text.floor_char_boundary(text.len() / 2));
            put_text(front, MASK, &mut frame);
            frame[0] &= 0x7F;
            let at = frame.len();
            put_text(rest, MASK, &mut frame);
            frame[at] &= 0xF0;
        }
        1 => put_binary(text.as_bytes(), MASK, &mut frame),
        _ => put_text(&text, MASK, &mut frame),
    }
    frame
}

fn control(random: &mut Random) -> Vec<u8> {
    let mut frame = Vec::new();
    match random.below(4) {
        0 => put_close(CloseCode::NORMAL, "enough", MASK, &mut frame),
        1 => put_pong(b"here", MASK, &mut frame),
        _ => put_ping(b"there?", MASK, &mut frame),
    }
    frame
}

/// A text of JSON-RPC.
fn text(random: &mut Random) -> String {
    if random.below(5) > 0 {
        return call(random);
    }
    let calls: Vec<_> = (0..1 + random.below(6)).map(|_| call(random)).collect();
    format!("[{}]", calls.join(", "))
}

fn call(random: &mut Random) -> String {
    let methods = [
        "a.B/Tell",
        "Tell",
        "a.B/Tell",
        "a.B/Watch",
        "a.B/C0",
        "a.B/C1",
        "a.B/No",
        "Check",
        "rpc.ping",
        "rpc.discover",
        "rpc.unsubscribe",
    ];
    let method = methods[random.below(methods.len())];
    let long = "x".repeat([0, 10, 5_000, 100_000][random.below(4) * random.below(2)]);
    let params = match random.below(6) {
        0 => String::new(),
        1 => r#","params":{"service":"a.B"}"#.to_owned(),
        2 => format!(r#","params":[{}]"#, 524_288 + random.below(4)),
        3 => format!(r#","params":{{"text":"{long}"}}"#),
        _ => format!(r#","params":["{long}"]"#),
    };
    let id = match random.below(8) {
        0 => String::new(),
        1 => r#","id":null"#.to_owned(),
        2 => format!(r#","id":"{}""#, "i".repeat([1, 5_000][random.below(2)])),
        _ => format!(r#","id":{}"#, random.below(4)),
    };
    let context = match random.below(8) {
        0 => format!(r#","ringway":{{"timeout_ms":{}}}"#, random.below(100)),
        _ => String::new(),
    };
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}{id}{context}}}"#)
}

/// A request of HTTP/1.1, mostly one that suits its method.
fn request(random: &mut Random) -> Vec<u8> {
    let (path, kind, body) = match random.below(8) {
        0 | 1 => (["/", "/rpc"][random.below(2)], "application/json", text(random).into_bytes()),
        2 => ("/a.B/Tell", "application/json", b"\"text\"".to_vec()),
        3 => (
            ["/a.B/C0", "/a.B/C1"][random.below(2)],
            "application/octet-stream",
            b"octets".to_vec(),
        ),
        4 => (STREAMS[random.below(3)], "application/connect+octet-stream", envelopes(random)),
        5 => (STREAMS[random.below(3)], "application/grpc-web+octet-stream", envelopes(random)),
        6 => ("/a.B/C0", "application/grpc-web-text+octet-stream", b"AAAAAAVoZWxsbw==".to_vec()),
        _ => (OTHERS[random.below(OTHERS.len())], "text/plain", Vec::new()),
    };
    let verb = match random.below(8) {
        0 => ["GET", "HEAD", "OPTIONS"][random.below(3)],
        _ if kind == "text/plain" => "GET",
        _ => "POST",
    };
    let host = ["localhost", "localhost", "localhost", "here", "evil.example"][random.below(5)];
    let field = FIELDS[random.below(3 * FIELDS.len()).min(FIELDS.len() - 1)];
    let head = format!("{verb} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: {kind}\r\n{field}");
    [head.into_bytes(), content(&body, random)].concat()
}

const STREAMS: [&str; 3] = ["/a.B/C1", "/a.B/C2", "/a.B/C3"];

const OTHERS: [&str; 5] = ["/metrics", "/console/data", "/console/services", "/readyz", "/a.B/No"];

/// The last one, nothing, is the most frequent.
const FIELDS: [&str; 8] = [
    "connection: close\r\n",
    "origin: http://evil.example\r\n",
    "connect-timeout-ms: 20\r\n",
    "grpc-timeout: 1m\r\n",
    "content-encoding: gzip\r\n",
    "expect: 100-continue\r\n",
    "key-bin: AAAA,AA==\r\n",
    "",
];

/// The end of a head, and the body.
fn content(body: &[u8], random: &mut Random) -> Vec<u8> {
    if random.below(4) > 0 {
        let length = format!("content-length: {}\r\n\r\n", body.len());
        return [length.as_bytes(), body].concat();
    }
    let mut chunks = b"transfer-encoding: chunked\r\n\r\n".to_vec();
    for piece in body.chunks(1 + random.below(50_000)) {
        chunks.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        chunks.extend(piece);
        chunks.extend(b"\r\n");
    }
    chunks.extend(b"0\r\n\r\n");
    chunks
}

fn envelopes(random: &mut Random) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..random.below(5) {
        let message = vec![7; [0, 5, 10_000, 100_000][random.below(4)]];
        all.push([0, 0, 0, 1, 2][random.below(5)]);
        all.extend((message.len() as u32).to_be_bytes());
        all.extend(message);
    }
    all
}
