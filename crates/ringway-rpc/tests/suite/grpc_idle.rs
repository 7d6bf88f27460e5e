//! What an idle connection of gRPC costs the server's process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::allocations::ALLOCATOR;
use crate::support::alone::alone;
use crate::support::echo::{Echo, serve};
use crate::support::frames::*;
use crate::support::grpc_caller::framed;
use crate::support::{LIMIT, end, socket_addr};

/// As many descriptors at both ends as a process may have without asking for more.
const CONNECTIONS: usize = 450;

/// Bytes for each connection that has said its settings and no more, and for one that has made one call.
const FRESH_MAX: usize = 4_300;
const CALLED_MAX: usize = 5_300;

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

    /// A call as other implementations make it: its fields stay in the server's table.
    fn call(&mut self) {
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
        let message = frame(DATA, 1, 1, &framed(&[7; 47]));
        self.write(&[frame(HEADERS, END_HEADERS, 1, &block), message].concat());
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

/// Bytes that the server holds for each of many connections.
fn each(begin: impl Fn(SocketAddr) -> Idle) -> usize {
    let handle = serve(&Echo::default(), |server| server);
    let address = socket_addr(&handle);
    // What all connections share is there.
    let mut idle: Vec<_> = (0..10).map(|_| begin(address)).collect();
    idle.reserve(CONNECTIONS + 1);
    let before = held();
    (0..CONNECTIONS).for_each(|_| idle.push(begin(address)));
    // Who is answered behind them: their turns are over.
    let mut last = Idle::connect(address);
    last.call();
    let each = (held() - before) / CONNECTIONS;
    drop((idle, last));
    end(handle);
    each
}

#[test]
fn a_connection_that_has_said_its_settings_holds_little() {
    alone(|| {
        let each = each(Idle::connect);
        println!("{each} bytes for each idle connection");
        assert!(each <= FRESH_MAX, "{each} bytes for each idle connection");
    });
}

#[test]
fn so_does_one_that_has_made_a_call() {
    alone(|| {
        let each = each(|address| {
            let mut idle = Idle::connect(address);
            idle.call();
            idle
        });
        println!("{each} bytes for each idle connection");
        assert!(each <= CALLED_MAX, "{each} bytes for each idle connection");
    });
}
