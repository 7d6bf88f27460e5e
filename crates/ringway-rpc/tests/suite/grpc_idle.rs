//! What an idle connection of gRPC costs the server's process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::allocations::ALLOCATOR;
use crate::support::alone::alone;
use crate::support::echo::{Echo, serve};
use crate::support::frames::*;
use crate::support::grpc_caller::framed;
use crate::support::{LIMIT, end, eventually, socket_addr};

/// As many descriptors at both ends as a process may have without asking for more.
const CONNECTIONS: usize = 450;

/// Bytes for each connection that rests, whatever it has done before.
const BYTES_MAX: usize = 3 << 10;

/// Client side by hand, without memory of its own but the descriptor.
struct Idle(TcpStream);

impl Idle {
    fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_read_timeout(Some(LIMIT)).expect("a time above zero");
        let mut idle = Self(socket);
        idle.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        idle.write(&[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, 1, 0, &[])].concat());
        idle.read_until(SETTINGS, 1);
        idle
    }

    /// A call as other implementations make it: the fields of the first stay in the server's table,
    /// and later ones name them by their indices.
    fn call(&mut self, number: u32) {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/echo.Echo/Say"),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("user-agent", "by hand"),
        ];
        let mut block = head(&fields);
        let mut at = 0;
        for (name, value) in fields {
            block[at] = 0x40; // a literal that goes into the table
            at += 3 + name.len() + value.len();
        }
        if number > 0 {
            let newest = 0x80 | 62; // the last of the fields, behind the static table
            block = (newest..).take(fields.len()).collect();
            block.reverse();
        }
        let stream = 2 * number + 1;
        let message = frame(DATA, 1, stream, &framed(&[7; 47]));
        self.write(&[frame(HEADERS, END_HEADERS, stream, &block), message].concat());
        self.read_until(HEADERS, 1);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server reads");
    }

    /// Reads frames up to one of this type with this flag.
    fn read_until(&mut self, kind: u8, flag: u8) {
        loop {
            let (mut header, mut payload) = ([0; 9], [0; 256]);
            self.0.read_exact(&mut header).expect("a frame");
            let len = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            self.0.read_exact(&mut payload[..len]).expect("its payload");
            if header[3] == kind && header[4] & flag == flag {
                return;
            }
        }
    }
}

/// Bytes that are allocated.
fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn check(calls: u32) {
    let handle = serve(&Echo::default(), |server| server);
    let address = socket_addr(&handle);
    let begin = || {
        let mut idle = Idle::connect(address);
        (0..calls).for_each(|number| idle.call(number));
        idle
    };
    // What all connections share is there.
    let mut idle: Vec<_> = (0..10).map(|_| begin()).collect();
    idle.reserve(CONNECTIONS);
    let before = held();
    (0..CONNECTIONS).for_each(|_| idle.push(begin()));
    let each = || held().saturating_sub(before) / CONNECTIONS;
    println!("{} bytes for each connection that has made {calls} calls just now", each());
    eventually("they rest", || each() <= BYTES_MAX);
    drop(idle);
    end(handle);
}

#[test]
fn a_connection_that_rests_holds_little_whatever_it_has_done() {
    alone(|| {
        [0, 1, 5].into_iter().for_each(check);
    });
}

/// Requests of one connection that are open at once.
const OPEN: usize = 500;

/// What a request costs that has begun and does not end, and what it counts.
fn check_open(path: &str, kind: &str) {
    let handle = serve(&Echo::default(), |server| server);
    let mut idle = Idle::connect(socket_addr(&handle));
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", kind),
    ];
    let block = head(&fields);
    let open = |idle: &mut Idle, from: usize, to: usize| {
        let heads = (from..to).map(|at| frame(HEADERS, END_HEADERS, 2 * at as u32 + 1, &block));
        idle.write(&heads.collect::<Vec<_>>().concat());
        idle.write(&frame(PING, 0, 0, &[0; 8]));
        idle.read_until(PING, 1); // all of them have been taken in
    };
    open(&mut idle, 0, 10);
    let before = held();
    open(&mut idle, 10, 10 + OPEN);
    // A few begin in each turn.
    let each = || held().saturating_sub(before) / OPEN;
    let (mut last, mut same) = (0, 0);
    eventually("they have begun", || {
        same = if each() == last { same + 1 } else { 0 };
        last = each();
        same > 20_000
    });
    let counts = handle.stats().unread_bytes as usize / (10 + OPEN);
    println!("{path}, {kind}: {last} bytes for each open request, which counts {counts}");
    assert!(last <= counts, "{last} bytes, and {counts} are counted");
    drop(idle);
    end(handle);
}

#[test]
fn an_open_request_counts_what_it_takes() {
    alone(|| {
        check_open("/echo.Echo/Say", "application/octet-stream");
        check_open("/echo.Echo/Chat", "application/connect+octet-stream");
    });
}
