//! A name server that answers from a table.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

/// A record: its name, and what it has.
pub(crate) type Row = (&'static str, Record);

/// What a record has.
#[derive(Clone, Copy)]
pub(crate) enum Record {
    /// A port and a target.
    Service(u16, &'static str),
    /// The strings of one TXT record.
    Text(&'static [&'static str]),
}

/// Starts a server, which ends with the process. A name that is not in the table has no records.
pub(crate) fn start(table: &'static [Row]) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let at = socket.local_addr().expect("it is bound");
    thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            socket.send_to(&answer(&bytes[..len], table), from).expect("the resolver waits");
        }
    });
    at
}

const TXT: u16 = 16;
const SRV: u16 = 33;

/// Answers a question as RFC 1035, section 4, and RFC 2782 have it.
fn answer(question: &[u8], table: &[Row]) -> Vec<u8> {
    let name_len = question[12..].iter().position(|byte| *byte == 0).expect("its end") + 1;
    let asked = &question[12..12 + name_len + 4];
    let kind = u16::from_be_bytes([asked[name_len], asked[name_len + 1]]);
    let is_asked = |(name, record): &&Row| {
        let of_kind = match record {
            Record::Service(..) => kind == SRV,
            Record::Text(_) => kind == TXT,
        };
        of_kind && asked[..name_len].eq_ignore_ascii_case(&encoded(name))
    };
    let found: Vec<_> = table.iter().filter(is_asked).map(|(_, record)| record).collect();
    let mut out = question[..2].to_vec();
    out.extend([0x81, 0x80, 0, 1, 0, u8::try_from(found.len()).expect("a few"), 0, 0, 0, 0]);
    out.extend(asked);
    for record in found {
        out.extend([0xC0, 12]); // the name of the question
        out.extend([kind.to_be_bytes(), [0, 1]].concat());
        out.extend(86_400_u32.to_be_bytes());
        let data = match record {
            Record::Service(port, target) => {
                [&[0, 0, 0, 0][..], &port.to_be_bytes(), &encoded(target)].concat()
            }
            Record::Text(strings) => strings.iter().flat_map(|text| label(text)).collect(),
        };
        out.extend(u16::try_from(data.len()).expect("short").to_be_bytes());
        out.extend(data);
    }
    out
}

fn encoded(name: &str) -> Vec<u8> {
    name.split('.').flat_map(label).chain([0]).collect()
}

fn label(text: &str) -> Vec<u8> {
    let len = u8::try_from(text.len()).expect("short");
    [&[len], text.as_bytes()].concat()
}
