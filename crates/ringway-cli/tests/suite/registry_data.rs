//! `ringway serve registry` with its data in a folder, killed while clients write.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use ringway_discovery::etcd_api::etcdserverpb::{KvClient, PutRequest, RangeRequest};
use ringway_rpc::Client;
use ringway_runtime::{block_on, spawn};

use crate::support::{Ringway, run};

const KILLS: u64 = 20;
const WRITES: usize = 10_000;
const CLIENTS: u64 = 32;

/// The last value of each client's key that was sent, and the last that was acknowledged.
#[derive(Default)]
struct Written {
    sent: BTreeMap<u64, u64>,
    acknowledged: BTreeMap<u64, u64>,
    count: usize,
}

fn start(data: &Path) -> (Ringway, KvClient) {
    let data = data.display();
    let words = format!("serve registry --listen tcp://127.0.0.1:0 --cores 0 --data {data}");
    let server = Ringway::start(&words);
    let address = server.line().replace("listening on tcp://", "grpc://");
    (server, KvClient::new(Client::connect(address.as_str()).expect("an address")))
}

/// Each client writes its key, one value after the other, until the server is gone. It is killed after so many writes.
async fn write(server: Ringway, kv: KvClient, written: Rc<RefCell<Written>>, kill_at: usize) {
    let server = Rc::new(server);
    let clients = (0..CLIENTS).map(|client| {
        let (server, kv, written) = (Rc::clone(&server), kv.clone(), Rc::clone(&written));
        let mut value = written.borrow().sent.get(&client).copied().unwrap_or(0);
        spawn(async move {
            loop {
                value += 1;
                written.borrow_mut().sent.insert(client, value);
                let (key, text) = (client.to_string().into(), value.to_string().into());
                let request = PutRequest { key, value: text, ..PutRequest::default() };
                if kv.put(request).await.is_err() {
                    return;
                }
                let mut written = written.borrow_mut();
                written.acknowledged.insert(client, value);
                written.count += 1;
                if written.count == kill_at {
                    server.kill();
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    for client in clients {
        client.await.expect("it does not panic");
    }
}

/// Checks that everything is there that was acknowledged, and nothing that was not sent.
async fn check(kv: &KvClient, written: &Written) {
    let (key, range_end) = ("\0".into(), "\0".into());
    let request = RangeRequest { key, range_end, ..RangeRequest::default() };
    let response = kv.range(request).await.expect("it answers");
    let number = |bytes: &[u8]| -> u64 {
        std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).expect("a number")
    };
    let found: BTreeMap<u64, u64> =
        response.kvs.iter().map(|kv| (number(&kv.key), number(&kv.value))).collect();
    for (client, value) in &written.acknowledged {
        let found = found.get(client).copied().unwrap_or(0);
        assert!(found >= *value, "client {client}: {found} is there, {value} was acknowledged");
    }
    for (client, value) in &found {
        assert!(written.sent.get(client) >= Some(value), "client {client} has not sent {value}");
    }
}

#[test]
fn acknowledged_writes_survive_twenty_kills() {
    let folder = tempfile::tempdir().expect("a directory");
    let data = folder.path().join("registry");
    let random = RandomState::new();
    let mut last = Written::default();
    for round in 1..=KILLS {
        let (server, kv) = start(&data);
        let share = WRITES * round as usize / KILLS as usize;
        let kill_at = share - random.hash_one(round) as usize % 250;
        last = block_on(async move {
            check(&kv, &last).await;
            let written = Rc::new(RefCell::new(last));
            write(server, kv, Rc::clone(&written), kill_at).await;
            written.take()
        })
        .expect("a core");
        assert!(last.count >= kill_at, "round {round}: {}", last.count);
    }
    let (_server, kv) = start(&data);
    block_on(async move { check(&kv, &last).await }).expect("a core");
}

#[test]
fn a_folder_has_one_registry_at_a_time() {
    let folder = tempfile::tempdir().expect("a directory");
    let (_server, _) = start(folder.path());
    let data = folder.path().display();
    let second = run(&format!("serve registry --listen tcp://127.0.0.1:0 --data {data}"));
    assert_eq!(second.status.code(), Some(1));
    assert!(second.err.contains("is in use by another registry"), "{}", second.err);
}

/// A file that may not grow any more stands for a disk that fails: unlike a full one, it does not pass.
#[test]
fn a_registry_whose_log_fails_ends_with_an_error() {
    let folder = tempfile::tempdir().expect("a directory");
    let script = format!(
        "trap '' XFSZ; ulimit -f 2100; exec {} serve registry --listen tcp://127.0.0.1:0 --cores 0 --data {}",
        env!("CARGO_BIN_EXE_ringway"),
        folder.path().display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::null());
    let mut server =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("there is a shell");
    let mut line = String::new();
    let mut out = BufReader::new(server.stdout.take().expect("piped"));
    out.read_line(&mut line).expect("it listens");
    let address = line.trim().replace("listening on tcp://", "grpc://");
    let kv = KvClient::new(Client::connect(address.as_str()).expect("an address"));
    let refusal = block_on(async move {
        for _ in 0..2_000 {
            let (key, value) = ("key".into(), vec![b'v'; 1_000].into());
            if let Err(status) = kv.put(PutRequest { key, value, ..PutRequest::default() }).await {
                return Some(status);
            }
        }
        None
    });
    let refusal = refusal.expect("a core").expect("it has no room for two megabytes");
    assert!(refusal.message().contains("takes no changes any more"), "{refusal}");
    let ended = server.wait_with_output().expect("it ends by itself");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("takes no changes any more"), "{said}");
}
