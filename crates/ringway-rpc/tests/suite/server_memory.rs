//! The memory that a server keeps for handlers that do not read.

use bytes::Bytes;
use ringway_rpc::{Code, Server, ServerHandle, Status, Streaming, service};
use ringway_wire::native::{Body, StreamId};

use crate::support::caller::Caller;
use crate::support::{end, eventually, socket_addr};

#[service(package = "memory", crate = "ringway_rpc")]
trait Depot {
    async fn say(&self, word: Bytes) -> Result<Bytes, Status>;
    /// Counts received bytes.
    async fn count(&self, goods: Streaming<Bytes>) -> Result<u64, Status>;
    /// Never reads.
    async fn stall(&self, goods: Streaming<Bytes>) -> Result<u64, Status>;
    /// Drops its stream and continues.
    async fn refuse(&self, goods: Streaming<Bytes>) -> Result<u64, Status>;
}

struct Everywhere;

impl Depot for Everywhere {
    async fn say(&self, word: Bytes) -> Result<Bytes, Status> {
        Ok(word)
    }

    async fn count(&self, mut goods: Streaming<Bytes>) -> Result<u64, Status> {
        let mut count = 0;
        while let Some(part) = goods.next().await? {
            count += part.len() as u64;
        }
        Ok(count)
    }

    async fn stall(&self, goods: Streaming<Bytes>) -> Result<u64, Status> {
        let _goods = goods;
        std::future::pending().await
    }

    async fn refuse(&self, goods: Streaming<Bytes>) -> Result<u64, Status> {
        drop(goods);
        std::future::pending().await
    }
}

const MIB: usize = 1 << 20;

/// Bytes that one receive of a server may bring before the budget is checked.
const AT_ONCE: u64 = 256 << 10;

fn serve(unread_bytes_max: usize) -> ServerHandle {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port");
    let server = server.threads(1).unread_bytes_max(unread_bytes_max);
    server.service(DepotServer::new(Everywhere)).start().expect("it starts")
}

fn open(caller: &mut Caller, method: &'static str) -> StreamId {
    caller.open_with(method, None, false, |_| {})
}

fn fill(caller: &mut Caller, stream: StreamId, bytes: usize) {
    for _ in 0..bytes / 10_000 {
        caller.send(stream, &[7; 10_000], false);
    }
}

fn end_now(handle: ServerHandle, caller: Caller) {
    drop(caller);
    eventually("all calls have ended", || handle.stats().in_flight == 0);
    eventually("nothing is kept for them", || handle.stats().unread_bytes == 0);
    end(handle);
}

#[test]
fn thousand_stalled_streams_stay_within_the_bound_and_affect_no_other() {
    let max = 4 * MIB;
    let handle = serve(max);
    let mut caller = Caller::connect(socket_addr(&handle));
    caller.call("memory.Depot/Say", b"the settings have come").ok();
    let healthy = open(&mut caller, "memory.Depot/Count");
    let stalled: Vec<_> = (0..1_000).map(|_| open(&mut caller, "memory.Depot/Stall")).collect();
    eventually("they run", || handle.stats().in_flight == 1_001);
    for (sent, &stream) in stalled.iter().enumerate() {
        fill(&mut caller, stream, 20_000);
        fill(&mut caller, healthy, 20_000);
        let unread = handle.stats().unread_bytes;
        assert!(unread <= max as u64 + AT_ONCE, "{unread} bytes are kept after {sent} streams");
    }
    caller.finish(healthy);
    let count = caller.answer(healthy).ok();
    assert_eq!(count, prost::Message::encode_to_vec(&20_000_000_u64), "the healthy one had all");
    caller.call("memory.Depot/Say", b"who had to be ended was ended").ok();
    let exhausted = handle.stats().exhausted;
    let least = (20_000_000 - max as u64 - AT_ONCE) / 20_000;
    assert!((least..1_000).contains(&exhausted), "{exhausted} streams were ended");
    assert!(handle.stats().unread_bytes <= max as u64);
    // No more streams were ended than needed, and the remaining ones continue.
    let mut ended = stalled.clone();
    ended.retain(|&stream| caller.machine.send(stream, Body::Copy(b""), true).is_err());
    assert_eq!(ended.len() as u64, exhausted);
    for stream in ended {
        assert_eq!(caller.answer(stream).code, Code::ResourceExhausted);
    }
    assert_eq!(handle.stats().in_flight as u64, 1_000 - exhausted);
    end_now(handle, caller);
}

#[test]
fn who_keeps_the_most_pays_first_in_however_many_calls() {
    let handle = serve(4 * MIB);
    let [mut modest, mut greedy] = [(); 2].map(|()| Caller::connect(socket_addr(&handle)));
    for caller in [&mut modest, &mut greedy] {
        caller.call("memory.Depot/Say", b"the settings have come").ok();
    }
    let one = open(&mut modest, "memory.Depot/Stall");
    fill(&mut modest, one, 250_000);
    eventually("it is kept", || handle.stats().unread_bytes >= 250_000);
    for _ in 0..100 {
        let stream = open(&mut greedy, "memory.Depot/Stall");
        fill(&mut greedy, stream, 60_000);
    }
    greedy.call("memory.Depot/Say", b"who had to be ended was ended").ok();
    assert!(handle.stats().exhausted >= 20);
    modest.call("memory.Depot/Say", b"others are served").ok();
    assert!(modest.machine.send(one, Body::Copy(b""), true).is_ok(), "the largest call goes on");
    drop(modest);
    end_now(handle, greedy);
}

#[test]
fn incomplete_calls_count_with_their_own_memory() {
    let max = 2 * MIB;
    let handle = serve(max);
    let mut callers: Vec<_> = (0..6).map(|_| Caller::connect(socket_addr(&handle))).collect();
    for caller in &mut callers {
        caller.call("memory.Depot/Say", b"the settings have come").ok();
        for _ in 0..1_000 {
            // One byte each, without an end.
            caller.open_with("memory.Depot/Say", Some(b"x"), false, |_| {});
        }
        caller.call("memory.Depot/Say", b"all have come").ok();
        let unread = handle.stats().unread_bytes;
        assert!(unread <= max as u64 + AT_ONCE, "{unread} bytes are kept");
    }
    let exhausted = handle.stats().exhausted;
    assert!((1_000..6_000).contains(&exhausted), "{exhausted} streams were ended");
    drop(callers);
    eventually("nothing is kept for them", || handle.stats().unread_bytes == 0);
    end(handle);
}

#[test]
fn above_half_of_the_bound_clients_get_smaller_windows() {
    let handle = serve(4 * MIB);
    let mut caller = Caller::connect(socket_addr(&handle));
    caller.call("memory.Depot/Say", b"the settings have come").ok();
    // Whether the client may send 300 KB at once.
    let takes_much = |caller: &mut Caller| {
        caller.call("memory.Depot/Say", b"settings come before the answer").ok();
        let stream = open(caller, "memory.Depot/Stall");
        fill(caller, stream, 300_000);
        let all = caller.machine.unsent(stream) == 0;
        caller.cancel(stream, "");
        all
    };
    assert!(takes_much(&mut caller));
    let stalled: Vec<_> = (0..3).map(|_| open(&mut caller, "memory.Depot/Stall")).collect();
    for &stream in &stalled {
        fill(&mut caller, stream, MIB);
    }
    eventually("it is kept", || handle.stats().unread_bytes > 3 * MIB as u64 - 100_000);
    assert!(!takes_much(&mut caller));
    for stream in stalled {
        caller.cancel(stream, "");
    }
    eventually("it is forgotten, and the client told so", || takes_much(&mut caller));
    assert_eq!(handle.stats().exhausted, 0);
    end_now(handle, caller);
}

#[test]
fn messages_without_a_reader_are_not_kept() {
    let handle = serve(4 * MIB);
    let mut caller = Caller::connect(socket_addr(&handle));
    caller.call("memory.Depot/Say", b"the settings have come").ok();
    for _ in 0..20 {
        let stream = open(&mut caller, "memory.Depot/Refuse");
        fill(&mut caller, stream, MIB);
    }
    caller.call("memory.Depot/Say", b"all of it has come").ok();
    eventually("it is dropped", || handle.stats().unread_bytes == 0);
    assert_eq!((handle.stats().exhausted, handle.stats().in_flight), (0, 20));
    end_now(handle, caller);
}

#[test]
fn unread_replies_stay_within_their_bound() {
    // Four times as much may be kept of replies.
    let handle = serve(4 * MIB);
    let mut caller = Caller::connect(socket_addr(&handle));
    caller.call("memory.Depot/Say", b"the settings have come").ok();
    // The least credit, and nothing is read meanwhile.
    let word = vec![7; 900_000];
    let calls: Vec<_> = (0..40).map(|_| caller.open("memory.Depot/Say", &word)).collect();
    eventually("half of them are ended", || handle.stats().exhausted >= 20);
    let mut good = Caller::connect(socket_addr(&handle));
    good.call("memory.Depot/Say", b"nobody else is hurt").ok();
    let answers: Vec<_> = calls.iter().map(|&call| caller.answer(call)).collect();
    let served = answers.iter().filter(|answer| answer.code == Code::Ok).count();
    assert!((10..=20).contains(&served), "{served} answers came");
    for answer in answers {
        let is_ended = answer.code == Code::ResourceExhausted;
        assert!(is_ended || answer.ok().len() == 900_000);
    }
    end_now(handle, caller);
}
