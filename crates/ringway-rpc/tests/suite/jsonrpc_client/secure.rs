//! The same client over TLS, and over a Unix socket with a path.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use ringway_net::{ClientTls, ServerTls};
use ringway_rpc::{Client, JsonRpcClient, ServerHandle};

use super::run;
use crate::support::math::{MathClient, Plain, serve_math};
use crate::support::{end, eventually, socket_addr};

fn tls() -> (ServerTls, ClientTls) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let server = ServerTls::from_pem(made.cert.pem(), made.signing_key.serialize_pem());
    let client = ClientTls::new().roots_pem(made.cert.pem()).expect("a certificate");
    (server.expect("they belong together"), client)
}

/// A socket's path, which is gone at the end.
struct SocketPath(PathBuf);

impl SocketPath {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("ringway-jsonrpc-{}.sock", std::process::id())))
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(&self.0);
    }
}

/// Makes calls of each kind.
#[track_caller]
fn check(handle: ServerHandle, plain: &Plain, client: Client, has_subscriptions: bool) {
    let math = MathClient::new(client.clone());
    let untyped = JsonRpcClient::new(client).expect("it speaks JSON-RPC");
    run(move || async move {
        assert_eq!(math.subtract(42, 23).await?, 19);
        let text = "ab".repeat(50_000); // more than a record of TLS
        assert_eq!(math.shout(text.clone()).await?, text.to_uppercase());
        assert!(math.fail("json".into()).await.expect_err("a failure").is_not_found());

        let mut batch = untyped.batch();
        batch.call("sum", [1, 2, 4]);
        batch.notify("notify_hello", [7]);
        batch.call("subtract", (42, 23));
        let replies = batch.send().await?;
        let sum: i64 = replies[0].clone()?.parse()?;
        let difference: i64 = replies[1].clone()?.parse()?;
        assert_eq!((replies.len(), sum, difference), (2, 7, 19));

        untyped.notify("update", [1, 2, 3]).await?;

        let mut texts = math.repeat("tick".into(), 3);
        if has_subscriptions {
            for _ in 0..3 {
                assert_eq!(texts.next().await?.as_deref(), Some("tick"));
            }
            assert_eq!(texts.next().await?, None);
        } else {
            assert!(texts.next().await.expect_err("one answer").is_unimplemented());
        }
        assert_eq!(math.sum(vec![1, 2]).await?, 3);
        Ok(())
    });
    eventually("notifications are carried out", || plain.seen.notified.load(Ordering::SeqCst) == 2);
    end(handle);
}

fn check_over_tls(scheme: &str, has_subscriptions: bool) {
    let (server, trusted) = tls();
    let plain = Plain::default();
    let address = "tls://127.0.0.1:0".parse().expect("an address");
    let handle = serve_math(address, &plain, |it| it.tls(server));
    let url = format!("{scheme}://localhost:{}", socket_addr(&handle).port());

    let stranger = MathClient::connect(&url).expect("an address");
    let refused = stranger.subtract(2, 1).wait().expect_err("nobody has signed for the server");
    assert!(refused.is_unavailable() && refused.is_not_executed(), "{refused}");

    let client = Client::builder().address(&*url).tls(trusted).build().expect("an address");
    check(handle, &plain, client, has_subscriptions);
}

#[test]
fn each_kind_of_call_is_made_on_lines_over_tls() {
    check_over_tls("jsonrpc+tls", true);
}

#[test]
fn each_kind_of_call_is_made_by_https() {
    check_over_tls("https", false);
}

#[test]
fn each_kind_of_call_is_made_over_wss() {
    check_over_tls("wss", true);
}

#[test]
fn each_kind_of_call_is_made_over_the_path_of_a_unix_socket() {
    let (path, plain) = (SocketPath::new(), Plain::default());
    let address = format!("unix://{}", path.0.display()).parse().expect("an address");
    let handle = serve_math(address, &plain, |server| server);
    let client = Client::connect(format!("jsonrpc+unix://{}", path.0.display()));
    check(handle, &plain, client.expect("an address"), true);
}
