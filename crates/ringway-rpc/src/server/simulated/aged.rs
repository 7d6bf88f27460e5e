//! Connections that end at their age: no call of a client fails for it, and those that last too long do.

use std::time::Duration;

use bytes::Bytes;
use ringway_runtime::sim::{Faults, SimConfig};
use ringway_runtime::{Builder, sleep, spawn, timeout};

use super::mutation::Moody;
use super::relay::Relay;
use super::{SimServer, accept, listen};
use crate::call::codec::Codec;
use crate::call::method::{Kind, Method};
use crate::call::status::Code;
use crate::client::Client;
use crate::server::settings::Settings;

const SECOND: Duration = Duration::from_secs(1);
/// Virtual time in which whatever is waited for has happened.
const LIMIT: Duration = Duration::from_secs(600);

static SAY: Method = Method::new("a.B/Say", Kind::Unary);
static CHAT: Method = Method::new("a.B/Chat", Kind::Bidi);

fn simulate(test: impl AsyncFnOnce() + 'static) {
    let config = SimConfig { faults: Faults::none(), ..SimConfig::new(7) };
    Builder::simulate(config, async move { test().await }).expect("it is never stuck");
}

fn settings(grace: Duration) -> Settings {
    let connection_age_max = Some(10 * SECOND);
    Settings { connection_age_max, connection_age_grace: grace, ..Settings::default() }
}

#[test]
fn clients_come_back_and_no_call_fails() {
    simulate(async || {
        let relay = Relay::start(Some(SimServer::new(settings(Duration::MAX), Moody)));
        let client = Client::connect(&*format!("tcp://{}", relay.address)).expect("an address");
        let raw = Codec::<Bytes>::raw();
        for call in 0..600 {
            let mine = Bytes::from(format!("call {call}"));
            let back = client.unary(&SAY, raw, raw, mine.clone()).await;
            assert_eq!(back.expect("it is served"), mine);
            sleep(SECOND / 5).await;
        }
        // Two minutes, in which eleven to thirteen connections have come of age.
        let count = relay.accepted();
        assert!((11..=14).contains(&count), "{count} connections");
    });
}

#[test]
fn no_stream_fails_that_crosses_the_announcement() {
    simulate(async || {
        let connection_age_max = Some(SECOND / 10);
        let settings = Settings { connection_age_max, ..settings(Duration::MAX) };
        let relay = Relay::start(Some(SimServer::new(settings, Moody)));
        let client = Client::connect(&*format!("tcp://{}", relay.address)).expect("an address");
        let callers = (0..20).map(|caller| {
            let client = client.clone();
            spawn(async move {
                let raw = Codec::<Bytes>::raw();
                for turn in 0..2_000 {
                    let mine = Bytes::from(format!("turn {turn} of {caller}"));
                    let (mut to, mut from) = client.bidi(&CHAT, raw, raw);
                    let _may_have_ended = to.send(mine.clone()).await;
                    to.finish();
                    assert_eq!(from.next().await.expect("it is served"), Some(mine));
                    assert_eq!(from.next().await.expect("it is served"), None);
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.expect("no panic");
        }
        assert!(relay.accepted() >= 5, "{} connections", relay.accepted());
    });
}

#[test]
fn a_stream_lasts_as_long_as_the_grace() {
    simulate(async || {
        for (grace, expected) in [(Duration::MAX, None), (20 * SECOND, Some(Code::Unavailable))] {
            let relay = Relay::start(Some(SimServer::new(settings(grace), Moody)));
            let client = Client::connect(&*format!("tcp://{}", relay.address)).expect("an address");
            let raw = Codec::<Bytes>::raw();
            let (mut to, mut from) = client.bidi(&CHAT, raw, raw);
            let mut ended = None;
            for turn in 0..60 {
                let mine = Bytes::from(format!("turn {turn}"));
                let _may_have_ended = to.send(mine.clone()).await;
                match from.next().await {
                    Ok(back) => assert_eq!(back, Some(mine)),
                    Err(status) => {
                        ended = Some((turn, status.code()));
                        break;
                    }
                }
                sleep(SECOND).await;
            }
            assert_eq!(ended.map(|(_, code)| code), expected, "{grace:?}");
            if let Some((turn, _)) = ended {
                assert!((28..=33).contains(&turn), "at {turn} seconds");
            }
        }
    });
}

#[test]
fn an_idle_connection_of_grpc_is_told_and_closed() {
    simulate(async || {
        let server = SimServer::new(settings(Duration::MAX), Moody);
        let (listener, address) = listen();
        let serving = server.serve(address);
        let peer = accept(&listener).await;
        let greeting =
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";
        let _sent = peer.write(greeting);
        let mut heard = Vec::new();
        let told = timeout(LIMIT, async {
            while let Ok(Some(view)) = peer.recv().await {
                heard.extend_from_slice(&view);
            }
        });
        told.await.expect("it is closed");
        timeout(LIMIT, serving).await.expect("it ends").expect("no panic");
        // GOAWAY, of the highest stream that there can be and then of none, without an error.
        let go_away =
            |last: u32| [&[0, 0, 8, 7, 0, 0, 0, 0, 0][..], &last.to_be_bytes(), &[0; 4]].concat();
        for last in [i32::MAX as u32, 0] {
            let wanted = go_away(last);
            assert!(heard.windows(wanted.len()).any(|part| part == wanted), "{heard:?}");
        }
    });
}
