//! A name server that answers what a test wants.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A record of an answer.
#[derive(Clone)]
pub(crate) enum Record {
    Address(Ipv4Addr),
    /// The name is an alias of this one.
    Alias(&'static str),
    /// Priority, weight, port and target.
    Service(u16, u16, u16, &'static str),
    /// The name cannot be looked up: SERVFAIL.
    Failure,
}

/// What is answered to a question.
#[derive(Clone)]
pub(crate) enum Reply {
    /// The records of this name, each with this TTL in seconds.
    Records(u32, Vec<(&'static str, Record)>),
    /// NXDOMAIN.
    NoSuchName,
    /// SERVFAIL.
    Failure,
    /// Bytes that are no message.
    Nonsense,
}

/// A running name server. It ends with the process.
pub(crate) struct NameServer {
    pub(crate) at: SocketAddr,
    reply: Arc<Mutex<Reply>>,
    asked: Arc<AtomicUsize>,
}

const A: u16 = 1;
const CNAME: u16 = 5;
const SRV: u16 = 33;

impl NameServer {
    pub(crate) fn start(reply: Reply) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let at = socket.local_addr().expect("it is bound");
        let reply = Arc::new(Mutex::new(reply));
        let asked = Arc::<AtomicUsize>::default();
        let server = Self { at, reply: Arc::clone(&reply), asked: Arc::clone(&asked) };
        thread::spawn(move || {
            let mut bytes = [0; 2048];
            while let Ok((len, from)) = socket.recv_from(&mut bytes) {
                asked.fetch_add(1, Ordering::SeqCst);
                let reply = reply.lock().expect("no panic").clone();
                let answer = answer(&bytes[..len], &reply);
                socket.send_to(&answer, from).expect("the resolver waits");
            }
        });
        server
    }

    /// The questions that have come.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn reply(&self, reply: Reply) {
        *self.reply.lock().expect("no panic") = reply;
    }
}

/// Answers a question as RFC 1035, section 4, has it.
fn answer(question: &[u8], reply: &Reply) -> Vec<u8> {
    let name_len = question[12..].iter().position(|byte| *byte == 0).expect("its end") + 1;
    let asked = &question[12..12 + name_len + 4];
    let kind = u16::from_be_bytes([asked[name_len], asked[name_len + 1]]);
    let (code, ttl, records) = match reply {
        Reply::Nonsense => return vec![0xFF; 7],
        Reply::NoSuchName => (3, 0, &[][..]),
        Reply::Failure => (2, 0, &[][..]),
        Reply::Records(ttl, records) => (0, *ttl, &records[..]),
    };
    let is_asked = |(name, record): &&(&str, Record)| {
        let of_kind = match record {
            Record::Address(_) => kind == A,
            Record::Service(..) => kind == SRV,
            Record::Alias(_) => true,
            Record::Failure => true,
        };
        of_kind && asked[..name_len].eq_ignore_ascii_case(&encoded(name))
    };
    let mut found: Vec<_> = records.iter().filter(is_asked).collect();
    let fails = found.iter().any(|(_, record)| matches!(record, Record::Failure));
    let code = if fails { 2 } else { code };
    found.retain(|_| !fails);
    let mut out = question[..2].to_vec();
    out.extend([0x81, 0x80 | code, 0, 1, 0, u8::try_from(found.len()).expect("a few"), 0, 0, 0, 0]);
    out.extend(asked);
    for (_, record) in found {
        out.extend([0xC0, 12]); // the name of the question
        let kind = if matches!(record, Record::Alias(_)) { CNAME } else { kind };
        out.extend(kind.to_be_bytes());
        out.extend([0, 1]);
        out.extend(ttl.to_be_bytes());
        let data = match record {
            Record::Address(ip) => ip.octets().to_vec(),
            Record::Alias(target) => encoded(target),
            Record::Service(priority, weight, port, target) => {
                let mut data = [*priority, *weight, *port].map(u16::to_be_bytes).concat();
                data.extend(encoded(target));
                data
            }
            Record::Failure => unreachable!("such an answer has no records"),
        };
        out.extend(u16::try_from(data.len()).expect("short").to_be_bytes());
        out.extend(data);
    }
    out
}

fn encoded(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        out.push(u8::try_from(label.len()).expect("short"));
        out.extend(label.as_bytes());
    }
    out.push(0);
    out
}
