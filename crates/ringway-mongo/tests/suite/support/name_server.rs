//! A name server that answers from a table.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};
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
    NameServer::start(table).at
}

/// A name server whose records change.
pub(crate) struct NameServer {
    pub(crate) at: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

/// What a name server says.
pub(crate) struct Zone {
    pub(crate) records: Vec<Row>,
    /// How long records are valid, in seconds.
    pub(crate) ttl: u32,
    /// Whether it answers.
    pub(crate) mood: Mood,
    /// Questions that it got.
    pub(crate) questions: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Answers,
    /// No answer comes.
    Silent,
    /// It says that there is no such name.
    KnowsNoName,
}

impl NameServer {
    /// Starts a server, which ends with the process.
    pub(crate) fn start(records: &[Row]) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let at = socket.local_addr().expect("it is bound");
        let (records, ttl, mood) = (records.to_vec(), 86_400, Mood::Answers);
        let zone = Arc::new(Mutex::new(Zone { records, ttl, mood, questions: 0 }));
        let shared = Arc::clone(&zone);
        thread::spawn(move || {
            let mut bytes = [0; 2048];
            while let Ok((len, from)) = socket.recv_from(&mut bytes) {
                let mut zone = shared.lock().expect("no panic");
                zone.questions += 1;
                if zone.mood != Mood::Silent {
                    let answer = answer(&bytes[..len], &zone);
                    socket.send_to(&answer, from).expect("the resolver waits");
                }
            }
        });
        Self { at, zone }
    }

    pub(crate) fn zone(&self) -> MutexGuard<'_, Zone> {
        self.zone.lock().expect("no panic")
    }
}

const TXT: u16 = 16;
const SRV: u16 = 33;

/// Answers a question as RFC 1035, section 4, and RFC 2782 have it.
fn answer(question: &[u8], zone: &Zone) -> Vec<u8> {
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
    let has_name = zone.mood != Mood::KnowsNoName;
    let records = zone.records.iter().filter(|row| has_name && is_asked(row));
    let found: Vec<_> = records.map(|(_, record)| record).collect();
    let mut out = question[..2].to_vec();
    let code = if has_name { 0x80 } else { 0x83 };
    out.extend([0x81, code, 0, 1, 0, u8::try_from(found.len()).expect("a few"), 0, 0, 0, 0]);
    out.extend(asked);
    for record in found {
        out.extend([0xC0, 12]); // the name of the question
        out.extend([kind.to_be_bytes(), [0, 1]].concat());
        out.extend(zone.ttl.to_be_bytes());
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
