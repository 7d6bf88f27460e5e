//! `ringway registry` and the addresses of services, as a user meets them.

use ringway_discovery::etcd_api::etcdserverpb::{ClusterClient, MemberListRequest};
use ringway_rpc::Client;

use crate::support::{Ringway, run};

/// A registry server, and the flag that names it.
fn registry() -> (Ringway, String) {
    let server = Ringway::start("serve registry --listen tcp://127.0.0.1:0 --cores 0");
    let at = server.line().replace("listening on tcp://", "");
    (server, at)
}

fn ok(words: &str) -> String {
    let ended = run(words);
    assert_eq!(ended.status.code(), Some(0), "{words}: {}", ended.err);
    ended.out
}

#[test]
fn endpoints_are_put_listed_drained_and_removed() {
    let (_server, at) = registry();
    let on = format!("registry --at {at}");
    let header = "SERVICE  ADDRESS  HEALTH  WEIGHT  ZONE  VERSION  LEASE\n";
    assert_eq!(ok(&format!("{on} ls")), header);
    ok(&format!("{on} put market tcp://10.0.0.1:9000 --weight 3 --zone eu --version 2 --with a=b"));
    ok(&format!("{on} put shop tcp://10.0.0.2:9000"));
    let all = ok(&format!("{on} ls"));
    let words: Vec<Vec<&str>> = all.lines().map(|line| line.split_whitespace().collect()).collect();
    let market = ["market", "tcp://10.0.0.1:9000", "serving", "3", "eu", "2", "-"];
    assert_eq!(words[1], market);
    assert_eq!(words[2], ["shop", "tcp://10.0.0.2:9000", "serving", "1", "-", "-", "-"]);
    ok(&format!("{on} drain market tcp://10.0.0.1:9000"));
    let listed = ok(&format!("{on} ls market"));
    assert!(listed.contains("draining") && !listed.contains("shop"), "{listed}");
    ok(&format!("{on} drain --undo market tcp://10.0.0.1:9000"));
    assert!(ok(&format!("{on} ls market")).contains("serving"));
    ok(&format!("{on} rm market tcp://10.0.0.1:9000"));
    assert_eq!(ok(&format!("{on} ls market")), header);
    for words in ["rm market tcp://10.0.0.1:9000", "drain market tcp://10.0.0.1:9000"] {
        let ended = run(&format!("{on} {words}"));
        assert_eq!(ended.status.code(), Some(1));
        assert!(ended.err.contains("market has no endpoint tcp://10.0.0.1:9000"), "{}", ended.err);
    }
}

#[test]
fn the_registry_is_named_before_or_behind_the_command() {
    let (_server, at) = registry();
    for words in [format!("registry ls --at tcp://{at}"), format!("registry --at http://{at} ls")] {
        assert!(ok(&words).starts_with("SERVICE"));
    }
}

#[test]
fn clients_are_told_what_was_advertised() {
    let advertised = "http://registry.example:2379";
    let words = format!(
        "serve registry --listen tcp://127.0.0.1:0 --cores 0 --advertise-client-urls {advertised}"
    );
    let server = Ringway::start(&words);
    let address = server.line().replace("listening on ", "");
    let told = ringway_runtime::block_on(async move {
        let cluster = ClusterClient::new(Client::connect(address.as_str()).expect("an address"));
        let members = cluster.member_list(MemberListRequest::default()).await;
        members.expect("it answers").members.remove(0).client_ur_ls
    });
    assert_eq!(told.expect("a core"), [advertised]);
}

#[test]
fn failures_are_told() {
    for (words, said) in [
        ("registry --at 127.0.0.1:1 ls", "127.0.0.1:1"),
        ("registry --at ftp://a:1 ls", "is not a member of a registry"),
        ("registry --at 127.0.0.1:1 put market ftp://a:1", "`ftp://a:1` is not an address"),
        (
            "serve registry --listen tcp://127.0.0.1:0 --advertise-client-urls http://0.0.0.0:2379",
            "the client's own machine",
        ),
    ] {
        let ended = run(words);
        assert_eq!(ended.status.code(), Some(1), "{words}");
        assert!(ended.err.contains(said), "{words}: {}", ended.err);
    }
}

#[test]
fn changes_are_watched() {
    let (_server, at) = registry();
    let watch = Ringway::start(&format!("registry --at {at} watch market"));
    let on = format!("registry --at {at}");
    ok(&format!("{on} put market tcp://10.0.0.1:9000 --zone eu"));
    assert_eq!(watch.line(), "+ tcp://10.0.0.1:9000 serving weight=1 zone=eu");
    ok(&format!("{on} drain market tcp://10.0.0.1:9000"));
    assert_eq!(watch.line(), "~ tcp://10.0.0.1:9000 draining weight=1 zone=eu");
}

#[test]
fn calls_find_their_server() {
    let (_registry, at) = registry();
    let server = Ringway::start("serve rpc --listen tcp://127.0.0.1:0 --cores 0");
    let address = server.line().replace("listening on ", "");
    ok(&format!("registry --at {at} put echo {address}"));
    let port = address.rsplit(':').next().expect("a port");
    let file = std::env::temp_dir().join(format!("ringway-hosts-{}", std::process::id()));
    std::fs::write(&file, format!("{address}\n")).expect("a place for it");
    for source in [
        format!("etcd://{at}/echo"),
        format!("dns://localhost:{port}"),
        format!("file://{}", file.display()),
    ] {
        assert_eq!(ok(&format!("call {source} ringway.bench.Echo/Say hello")), "hello\n");
        assert!(ok(&format!("call {source} --list")).contains("ringway.bench.Echo"));
        for suite in ["rpc", "stream"] {
            let words = "-c 2 -d 0.1 --warmup 0.02 --repeat 1 --format json";
            let report = ok(&format!("bench {suite} --addr {source} {words}"));
            let report: serde_json::Value = serde_json::from_str(&report).expect("one object");
            let row = &report["rows"][0];
            assert_eq!(row["parameters"]["server"], source);
            assert!(row["verified"].as_u64() > Some(0) && row["errors"] == 0, "{row}");
        }
    }
    std::fs::remove_file(&file).expect("it is there");
}
