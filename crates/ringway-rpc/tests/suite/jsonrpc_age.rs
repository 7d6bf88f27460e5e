//! JSON-RPC connections end at their maximum age and with their server: over TCP, POST and WebSocket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringway_http::{Client, WebSocketMessage};
use ringway_net::Connection;
use ringway_rpc::testing::{TestServer, simulate};
use ringway_rpc::{Server, ServerHandle, Status};
use ringway_runtime::{block_on, timeout};

use crate::support::json_lines::JsonLines;
use crate::support::math::{MathServer, Plain, serve_math};
use crate::support::{LIMIT, end, eventually, socket_addr, wait};

const SUM: &str = r#"{"jsonrpc":"2.0","method":"sum","params":[1,2],"id":1}"#;
const NEVER: &str = r#"{"jsonrpc":"2.0","method":"never","id":2}"#;
const SOON: Duration = Duration::from_millis(100);

fn serve(plain: &Plain, set: impl FnOnce(Server) -> Server) -> ServerHandle {
    serve_math("tcp://127.0.0.1:0".parse().expect("an address"), plain, set)
}

/// Calls with POST and reads until the connection ends.
fn post(handle: &ServerHandle, text: &str) -> String {
    let mut socket = TcpStream::connect(socket_addr(handle)).expect("the server listens");
    socket.set_read_timeout(Some(LIMIT)).expect("a time above zero");
    let length = text.len();
    let head = "POST / HTTP/1.1\r\nhost: here\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {length}\r\n\r\n{text}");
    socket.write_all(request.as_bytes()).expect("the server takes it");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer and its end");
    answer
}

/// Sends a text over WebSocket. Returns the texts received until the end.
fn converse(handle: &ServerHandle, text: &'static str) -> Vec<String> {
    let url = format!("ws://{}/rpc", socket_addr(handle));
    let told = block_on(async move {
        let mut socket = Client::new().websocket(&url).await?;
        socket.send_text(text).await?;
        let mut told = Vec::new();
        while let Some(message) = socket.recv().await? {
            let WebSocketMessage::Text(text) = message else { panic!("{message:?}") };
            told.push(text);
        }
        Ok::<_, ringway_http::Error>(told)
    });
    told.expect("it runs").expect("an orderly end")
}

fn lines(handle: &ServerHandle, text: &str) -> Vec<String> {
    let mut connection = JsonLines::tcp(socket_addr(handle));
    connection.send(format!("{text}\n"));
    std::iter::from_fn(|| connection.try_line()).collect()
}

#[test]
fn idle_connections_end_at_their_age() {
    let handle = serve(&Plain::default(), |server| server.max_connection_age(SOON));
    // On a slow machine the connection may reach its age before the call.
    for told in [lines(&handle, SUM), converse(&handle, SUM)] {
        assert!(matches!(&told[..], [answer] if answer.contains("\"id\":1")), "{told:?}");
    }
    end(handle);
}

#[test]
fn calls_that_outlive_the_age_of_their_connection_have_its_grace() {
    let plain = Plain::default();
    let handle =
        serve(&plain, |server| server.max_connection_age(SOON).max_connection_age_grace(SOON));
    for told in [lines(&handle, NEVER), converse(&handle, NEVER), vec![post(&handle, NEVER)]] {
        let [answer] = &told[..] else { panic!("{told:?}") };
        assert!(answer.contains("has reached its age") && answer.contains("\"id\":2"), "{answer}");
    }
    let ended = || plain.seen.dropped.load(Ordering::SeqCst);
    eventually("the handlers end", || ended() == plain.seen.begun.load(Ordering::SeqCst));
    end(handle);
}

#[test]
fn calls_that_outlive_their_server_are_told() {
    let ways: [fn(&ServerHandle) -> Vec<String>; 3] = [
        |handle| lines(handle, NEVER),
        |handle| converse(handle, NEVER),
        |handle| vec![post(handle, NEVER)],
    ];
    for way in ways {
        let plain = Plain::default();
        let handle = serve(&plain, |server| server.drain_timeout(SOON));
        let (other, seen) = (handle.clone(), plain.seen.clone());
        let drain = std::thread::spawn(move || {
            eventually("it has begun", || seen.begun.load(Ordering::SeqCst) == 1);
            other.shutdown();
        });
        let told = way(&handle);
        drain.join().expect("no panic");
        let [answer] = &told[..] else { panic!("{told:?}") };
        assert!(answer.contains("\"id\":2") && answer.contains("-32014"), "{answer}");
        wait(handle);
    }
}

/// Reads until the connection ends, for as long as it may last.
async fn all(connection: &mut Connection, lasts: Duration) -> Result<String, Status> {
    let mut told = String::new();
    let whole = timeout(lasts, async {
        while let Ok(Some(view)) = connection.recv().await {
            told += &String::from_utf8_lossy(&view);
        }
    });
    whole.await.map_err(|_elapsed| Status::deadline_exceeded("the connection goes on"))?;
    Ok(told)
}

#[test]
fn requests_that_still_wait_when_the_time_of_calls_is_over_are_never_executed() {
    const AGE: Duration = Duration::from_secs(10);
    let plain = Plain::default();
    let seen = plain.seen.clone();
    simulate(1, async move {
        let set_up = |server: Server| {
            let server = server.service(MathServer::new(plain)).in_flight_per_connection_max(1);
            server.max_connection_age(AGE).max_connection_age_grace(AGE)
        };
        let server = TestServer::start_with(set_up)?;
        let mut connection = ringway_net::Client::new(server.address())?.open().await?;
        let [running, waiting] = [NEVER, &NEVER.replace("\"id\":2", "\"id\":3")];
        connection.send(format!("{running}\n{waiting}\n").into_bytes()).await?;
        let told = all(&mut connection, 4 * AGE).await?;
        let answers: Vec<_> = told.lines().collect();
        let is_unexecuted = |id| {
            let of = answers.iter().find(|answer| answer.ends_with(&format!("\"id\":{id}}}")));
            of.expect("an answer").contains(r#""executed":false"#)
        };
        assert_eq!((is_unexecuted(2), is_unexecuted(3)), (false, true), "{told}");
        Ok(())
    })
    .expect("both are answered");
    assert_eq!(seen.begun.load(Ordering::SeqCst), 1);
}
