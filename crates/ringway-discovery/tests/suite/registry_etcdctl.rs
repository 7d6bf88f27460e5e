//! The same commands of `etcdctl` for real etcd and for our registry, which have to answer the same.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use regex::Regex;
use ringway_discovery::{Registry, Revision};
use ringway_rpc::{Server, ServerHandle};

use crate::support::etcd::{Etcd, is_installed};
use crate::support::etcdctl::{Etcdctl, Step};
use crate::support::{LIMIT, authority, end, eventually, serve};

const fn run(words: &'static str) -> Step {
    Step { words, input: "", until: None }
}

const fn with_input(words: &'static str, input: &'static str) -> Step {
    Step { words, input, until: None }
}

const fn until(words: &'static str, until: &'static str) -> Step {
    Step { words, input: "", until: Some(until) }
}

const STEPS: &[Step] = &[
    // Revisions 2 to 5.
    run("put a/1 one"),
    run("put a/2 two -w json"),
    run("put a/3 three"),
    run("put a/1 uno --prev-kv"),
    run("get a/1"),
    run("get a/1 -w json"),
    run("get a/1 --print-value-only"),
    run("get nothing -w json"),
    run("get a --prefix"),
    run("get a --prefix --keys-only"),
    run("get a --prefix --count-only -w json"),
    run("get a --prefix --limit 2 -w json"),
    run("get a --prefix --sort-by VALUE --order DESCEND"),
    run("get a --prefix --sort-by MODIFY --order ASCEND -w json"),
    run("get a --prefix --sort-by CREATE --order DESCEND --limit 2 -w json"),
    run("get a --prefix --sort-by VERSION"),
    run("get a/1 --rev 2"),
    run("get a --prefix --rev 3 -w json"),
    run("get a/1 --rev 99"),
    run("get a/1 a/3 -w json"),
    run("get a/2 --from-key"),
    run("get '' --from-key --count-only -w json"),
    run("get a/1 --consistency s"),
    // Revisions 6 to 9.
    run("put --ignore-value a/1"),
    run("put --ignore-value nothing"),
    run("del a/3 --prev-kv"),
    run("del nothing -w json"),
    run("put a/3 drei"),
    run("del a/1 a/3 -w json"),
    // Leases.
    run("lease grant 30"),
    run("lease list"),
    run("lease list -w json"),
    run("put l/1 x --lease=$LEASE"),
    // Of one key, since etcd tells them in no order.
    run("lease timetolive $LEASE --keys"),
    run("lease timetolive $LEASE --keys -w json"),
    run("put l/2 y --lease=$LEASE"),
    run("put l/1 z --ignore-lease"),
    run("get l --prefix -w json"),
    run("lease timetolive $LEASE"),
    run("lease keep-alive --once $LEASE"),
    run("lease keep-alive --once $LEASE -w json"),
    run("put x y --lease=1234"),
    run("lease keep-alive --once 1234"),
    run("lease revoke $LEASE"),
    run("lease revoke $LEASE"),
    run("lease timetolive $LEASE"),
    run("get l --prefix -w json"),
    run("lease grant 1"),
    run("lease grant 9000000001"),
    // Transactions.
    with_input("txn", "mod(\"a/3\") > \"0\"\n\nput t/1 yes\nget a/3\n\nput t/1 no\n\n"),
    with_input(
        "txn -w json",
        "value(\"a/3\") = \"drei\"\nver(\"t/1\") = \"7\"\n\nget t/1\n\nput t/2 no\nget a --prefix\ndel t/1\n\n",
    ),
    with_input("txn", "create(\"none\") = \"0\"\n\nget a --prefix\ndel a/3\n\n\n"),
    with_input("txn", "\nput t/1 a\nput t/1 b\n\n\n"),
    with_input("txn -w json", "\nget t --prefix --rev 1000\n\n\n"),
    run("lock m echo held"),
    // Watches of what has happened.
    run("put w/1 first"),
    run("put w/2 second"),
    run("del w/1"),
    run("put w/9 END"),
    until("watch w --prefix --rev 10", "END"),
    until("watch w --prefix --rev 10 --prev-kv", "END"),
    until("watch w/1 w/99 --rev 10 -w json", "}"),
    until("watch w/9 --rev 1", "END"),
    // Compaction.
    run("compaction 8"),
    run("compaction 8"),
    run("compaction 1000"),
    run("get a/1 --rev 3"),
    run("get a --prefix --rev 8 -w json"),
    run("watch a --prefix --rev 3"),
    // The server.
    run("endpoint health"),
    run("endpoint status -w json"),
    run("member list"),
    run("member list -w json"),
    run("alarm list"),
    run("alarm disarm"),
    run("user list"),
    run("role list"),
    run("endpoint hashkv"),
    run("endpoint hashkv --rev 3"),
    run("endpoint hashkv --rev 1000"),
    run("defrag"),
];

#[test]
fn etcdctl_gets_the_same_answers_as_from_etcd() {
    let Some(etcd) = Etcd::start().filter(|_| is_installed("etcdctl")) else {
        eprintln!("skipped: this test needs the Debian packages etcd-server and etcd-client");
        return;
    };
    // The steps name revisions, and etcd begins with 1.
    let registry = Registry::builder().first_revision(Revision(1)).open();
    let registry = ringway_runtime::block_on(registry).expect("a core").expect("in memory");
    let handle = serve(&registry);
    let (mut theirs, mut ours) = (Etcdctl::new(&etcd.authority), Etcdctl::new(&authority(&handle)));
    let mut differences = String::new();
    for step in STEPS {
        let (expected, answer) = (theirs.run(step), ours.run(step));
        assert!(!expected.contains("connection refused"), "{}: {expected}", step.words);
        if answer != expected {
            differences += &format!("{}\netcd: {expected}\nours: {answer}\n", step.words);
        }
    }
    assert!(differences.is_empty(), "{differences}");
    end(handle);
}

/// Opens the registry of a folder, and serves it there.
fn serve_at(folder: &Path, address: &str) -> ServerHandle {
    let opening = Registry::builder().data(folder);
    let registry = ringway_runtime::block_on(async move { opening.open().await });
    let registry = registry.expect("a core").expect("a folder of a registry");
    let server = Server::bind(address).expect("a free address");
    registry.serve_on(server).threads(1).start().expect("the server starts")
}

#[test]
fn a_watch_of_etcdctl_goes_on_after_a_restart_and_misses_nothing() {
    if !is_installed("etcdctl") {
        return eprintln!("skipped: this test needs the Debian package etcd-client");
    }
    let folder = tempfile::tempdir().expect("a directory");
    let first = serve_at(folder.path(), "tcp://127.0.0.1:0");
    let at = authority(&first);
    let mut watch = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &at, "watch", "k", "--rev", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is installed");
    let (told, values) = mpsc::channel();
    let lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    std::thread::spawn(move || {
        // Each change is told as PUT, the key, and the value.
        let numbers = lines.map_while(Result::ok).filter_map(|line| line.parse::<u32>().ok());
        numbers.for_each(|number| _ = told.send(number));
    });
    let client = RefCell::new(Etcdctl::new(&at));
    let changes = |numbers: Range<u32>| {
        for number in numbers {
            let words: &'static str = format!("put k {number}").leak();
            assert_eq!(client.borrow_mut().run(&run(words)), "OK\n");
            assert_eq!(values.recv_timeout(LIMIT), Ok(number));
        }
    };
    changes(0..3);
    end(first);
    let second = serve_at(folder.path(), &format!("tcp://{at}"));
    changes(3..6);
    end(second);
    watch.kill().expect("it watches for ever");
    watch.wait().expect("it was started");
}

/// The status and the body of a page, without the last part of etcd's version.
fn page(authority: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(authority).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.lines().next().expect("a status").to_owned();
    let patch = Regex::new(r#"(\d+\.\d+)\.\d+""#).expect("a pattern");
    (status, patch.replace_all(body, "$1.x\"").into_owned())
}

#[test]
fn version_and_health_are_told_by_pages_as_by_etcd() {
    let handle = serve(&Registry::new());
    let ours = ["/version", "/health"].map(|path| page(&authority(&handle), path));
    let ok = "HTTP/1.1 200 OK".to_owned();
    let version = r#"{"etcdserver":"3.4.x","etcdcluster":"3.4.x"}"#;
    assert_eq!(ours[0], (ok.clone(), version.to_owned()));
    assert_eq!(ours[1], (ok, r#"{"health":"true"}"#.to_owned()));
    end(handle);
    // Other versions than that of Debian 12 tell more.
    let Some(etcd) = Etcd::start() else {
        return eprintln!("half skipped: this test needs the Debian package etcd-server");
    };
    let pages = || ["/version", "/health"].map(|path| page(&etcd.authority, path));
    eventually("etcd knows its version", || !pages()[0].1.contains("not_decided"));
    let theirs = pages();
    let is_same_version = theirs[0].1.contains("3.4.x\",\"etcdcluster");
    assert!(!is_same_version || theirs == ours, "{theirs:?}");
}
