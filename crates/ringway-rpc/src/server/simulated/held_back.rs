//! Connections that their server does not read for a while: their clients are not to blame for that.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::io::Stream;
use ringway_runtime::sim::SimConfig;
use ringway_runtime::{Builder, JoinHandle, sleep, timeout, uptime};
use ringway_wire::native::{Body, Client, ClientEvent, Config, HEADER_LEN, Header, Open};

use super::left_over::Plain;
use super::mutation::sessions::append;
use super::{SimServer, accept, listen};
use crate::server::settings::Settings;

/// Longer than a client may take for its preface, or for the answer to a PING.
const PAUSE: Duration = Duration::from_secs(60);

/// Virtual time in which an answer has come.
const LIMIT: Duration = Duration::from_secs(5);

/// A client whose bytes are sent when the test wants.
struct HeldClient {
    stream: Stream,
    machine: Client,
    serving: JoinHandle<()>,
}

impl HeldClient {
    async fn of(server: &Rc<SimServer>) -> Self {
        let (listener, address) = listen();
        let serving = server.serve(address);
        let stream = accept(&listener).await;
        Self { stream, machine: Client::new(Config::default(), uptime()), serving }
    }

    /// The bytes of one more call, and of everything before it.
    fn call(&mut self) -> Vec<u8> {
        self.call_with(b"hi")
    }

    fn call_with(&mut self, message: &[u8]) -> Vec<u8> {
        let message = Some(Body::Copy(message));
        let open = Open { method: 1, name: "left.Over/Say", message, end: true, ..Open::default() };
        self.machine.open(open).expect("room");
        let mut said = Vec::new();
        self.machine.transmit(usize::MAX, &mut |out| append(&mut said, &out));
        said
    }

    /// Reads until a call is answered.
    async fn answer(&mut self) -> Option<Bytes> {
        loop {
            let view = self.stream.recv().await.ok()??;
            let mut input = &view[..];
            while let Some(event) = self.machine.receive(&mut input, uptime()).expect("sound") {
                if let ClientEvent::Response { message, .. } = event {
                    return message.map(|message| Bytes::copy_from_slice(&message));
                }
            }
            let mut windows = Vec::new();
            self.machine.transmit(usize::MAX, &mut |out| append(&mut windows, &out));
            let _pressure = self.stream.write(&windows);
        }
    }
}

fn simulate(work: impl Future<Output = ()> + 'static) {
    Builder::simulate(SimConfig::new(1), work).expect("it is never stuck");
}

async fn pause(server: &SimServer) {
    pause_for(server, PAUSE, || ()).await;
}

/// Reads nothing for so long. Something happens at the beginning.
async fn pause_for(server: &SimServer, length: Duration, happens: impl FnOnce()) {
    let core = server.core().expect("there is a connection");
    core.budget().is_receiving_paused.set(true);
    happens();
    sleep(length).await;
    core.budget().is_receiving_paused.set(false);
    core.connections().all().iter().for_each(|connection| connection.wake());
}

#[test]
fn a_handshake_that_is_not_read_is_not_late() {
    simulate(async {
        let server = SimServer::new(Settings::default(), Plain);
        let mut client = HeldClient::of(&server).await;
        let said = client.call();
        let (mark, rest) = said.split_at(20); // the protocol is known by then, and no more
        let _pressure = client.stream.write(mark);
        sleep(Duration::from_secs(1)).await;
        let _pressure = client.stream.write(rest);
        pause(&server).await;
        let answer = timeout(LIMIT, client.answer()).await.expect("in time");
        assert_eq!(answer.as_deref(), Some(&b"hi"[..]));
    });
}

#[test]
fn a_client_that_is_not_read_is_not_silent() {
    simulate(async {
        let server = SimServer::new(Settings::default(), Plain);
        let mut client = HeldClient::of(&server).await;
        for _ in 0..2 {
            let said = client.call();
            let _pressure = client.stream.write(&said);
            let answer = timeout(LIMIT, client.answer()).await.expect("in time");
            assert_eq!(answer.as_deref(), Some(&b"hi"[..]));
            pause(&server).await;
        }
    });
}

#[test]
fn a_request_whose_rest_was_not_read_is_not_late() {
    simulate(async {
        let server = SimServer::new(Settings::default(), Plain);
        let mut client = HeldClient::of(&server).await;
        let said = client.call();
        let _pressure = client.stream.write(&said);
        assert!(timeout(LIMIT, client.answer()).await.expect("in time").is_some());
        let said = client.call_with(&[7; 300_000]);
        let mut front = 0; // whole frames
        while front < 100_000 {
            let header = said[front..].first_chunk().expect("a header");
            front += HEADER_LEN + Header::decode(header).expect("a good one").len as usize;
        }
        let (front, rest) = said.split_at(front);
        let other = client.call();
        let _pressure = client.stream.write(front);
        sleep(Duration::from_secs(1)).await;
        // Longer than a request may stand still. What comes in it is of another call.
        let length = Duration::from_secs(400);
        pause_for(&server, length, || _ = client.stream.write(&other)).await;
        let answer = timeout(LIMIT, client.answer()).await.expect("in time");
        assert_eq!(answer.as_deref(), Some(&b"hi"[..]));
        let _pressure = client.stream.write(rest);
        let answer = timeout(LIMIT, client.answer()).await.expect("in time");
        assert_eq!(answer.map(|it| it.len()), Some(300_000));
    });
}

#[test]
fn a_client_that_says_nothing_is_given_up_once_it_is_read_again() {
    simulate(async {
        let server = SimServer::new(Settings::default(), Plain);
        let mut client = HeldClient::of(&server).await;
        let said = client.call();
        let _pressure = client.stream.write(&said[..20]);
        sleep(Duration::from_secs(1)).await;
        pause(&server).await;
        timeout(LIMIT, &mut client.serving).await.expect("in time").expect("no panic");
    });
}

#[test]
fn a_client_that_has_said_all_is_not_waited_for() {
    simulate(async {
        let server = SimServer::new(Settings::default(), Plain);
        let mut client = HeldClient::of(&server).await;
        let said = client.call();
        let _pressure = client.stream.write(&said);
        let answer = timeout(LIMIT, client.answer()).await.expect("in time");
        assert_eq!(answer.as_deref(), Some(&b"hi"[..]));
        // The reply needs more credit than the client has given.
        let said = client.call_with(&[7; 900_000]);
        assert!(said.len() > 900_000, "all of it leaves");
        let _pressure = client.stream.write(&said);
        client.stream.shutdown();
        let reads = async { while client.stream.recv().await.expect("no reset").is_some() {} };
        timeout(LIMIT, reads).await.expect("the connection is closed");
        timeout(LIMIT, &mut client.serving).await.expect("in time").expect("no panic");
    });
}
