//! Ejection: a failing host is left out for a while, tried with one call, and used again when that
//! succeeds. Runs on the virtual clock of a simulation.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::{Call, Client, Codec, Kind, Method, Policy, Sink, Status, Streaming};
use ringway_runtime::io::{ListenOptions, Listener};
use ringway_runtime::{now, sleep, spawn, timeout};
use ringway_wire::native::{Config, Reply};

use super::{MS, echo, poll_once, simulate};
use crate::support::hand_server::{HandConnection, HandServer, Request};

static CHAT: Method = Method::new("test.Test/Chat", Kind::Bidi);

const SECOND: Duration = Duration::from_secs(1);

/// How the first of three servers treats its calls; the others answer.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mood {
    Answers,
    Fails,
    /// It holds its calls and sends nothing.
    Holds,
}

/// Three servers and a client that uses them in turn.
struct Lab {
    moody: RefCell<HandServer>,
    others: [HandServer; 2],
    mood: Rc<Cell<Mood>>,
    client: Client,
}

impl Lab {
    /// Starts them; all are connected and have answered.
    async fn start() -> Result<Self, Status> {
        let mood = Rc::new(Cell::new(Mood::Answers));
        let moody = serve_moodily(&mood);
        let others = [HandServer::echo(), HandServer::echo()];
        let mut builder = Client::builder().balance(Policy::RoundRobin).connect_timeout(SECOND);
        builder = builder.address(&*moody.url());
        for other in &others {
            builder = builder.address(&*other.url());
        }
        let lab = Self { moody: RefCell::new(moody), others, mood, client: builder.build()? };
        while lab.seen() == 0 || lab.others.iter().any(|other| other.requests() == 0) {
            lab.call().await?;
        }
        Ok(lab)
    }

    /// Makes a call that the first server holds.
    async fn held(&self) -> Pin<Box<Call<Bytes>>> {
        let before = self.seen();
        loop {
            let mut call = Box::pin(echo(&self.client, "patience").no_timeout());
            assert!(poll_once(call.as_mut()).await.is_pending());
            sleep(MS).await;
            if self.seen() > before {
                return call;
            }
        }
    }

    /// Opens a stream that the first server holds.
    async fn held_stream(&self) -> (Sink<Bytes>, Streaming<Bytes>) {
        let before = self.seen();
        loop {
            let (mut sink, replies) = self.client.bidi(&CHAT, Codec::raw(), Codec::raw());
            sink.send(Bytes::new()).await.expect("it is open");
            sleep(MS).await;
            if self.seen() > before {
                return (sink, replies);
            }
        }
    }

    /// Returns the number of calls that the first server has got.
    fn seen(&self) -> usize {
        self.moody.borrow().requests()
    }

    async fn call(&self) -> Result<(), Status> {
        echo(&self.client, "hello").timeout(20 * MS).await.map(drop)
    }

    /// Calls until ten in a row avoid the first server; returns how many have failed.
    async fn until_it_is_left_out(&self) -> usize {
        let mut failed = 0;
        for _ in 0..100 {
            let before = self.seen();
            for _ in 0..10 {
                failed += usize::from(self.call().await.is_err());
            }
            if self.seen() == before {
                return failed;
            }
        }
        panic!("it still gets calls after {failed} failures");
    }

    /// Calls all the time: all calls succeed, and none goes to the first server.
    async fn is_left_out_for(&self, time: Duration) -> Result<(), Status> {
        let (before, until) = (self.seen(), now() + time);
        let others = || self.others.each_ref().map(HandServer::requests);
        let [first, second] = others();
        while now() < until {
            self.call().await?;
        }
        assert_eq!(self.seen(), before);
        assert!(others()[0] > first && others()[1] > second);
        Ok(())
    }

    /// Makes thirty calls at once; returns how many have failed.
    async fn burst(&self) -> usize {
        let call = || spawn(echo(&self.client, "hello").timeout(20 * MS));
        let calls: Vec<_> = (0..30).map(|_| call()).collect();
        let mut failed = 0;
        for call in calls {
            failed += usize::from(call.await.expect("no panic").is_err());
        }
        failed
    }
}

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7_000))
}

fn serve_moodily(mood: &Rc<Cell<Mood>>) -> HandServer {
    let mood = Rc::clone(mood);
    let behave = move |connection: &Rc<_>, request: Request| answer(&mood, connection, request);
    HandServer::at(address(), Config::default(), Rc::new(behave))
}

fn answer(mood: &Cell<Mood>, connection: &HandConnection, request: Request) {
    let failure = Reply { status: 14, meta: &[], message: None };
    match mood.get() {
        Mood::Answers => connection.echo(request),
        Mood::Fails => drop(connection.respond(request.stream, failure)),
        Mood::Holds => {}
    }
}

#[test]
fn failing_host_is_ejected_tried_once_and_used_again() {
    for mood in [Mood::Fails, Mood::Holds] {
        simulate(move || async move {
            let lab = Lab::start().await?;
            lab.mood.set(mood);
            let failed = lab.until_it_is_left_out().await;
            assert!((1..=20).contains(&failed), "{mood:?}: {failed} calls failed");
            // The first ejection takes 100 ms, of which those ten calls took a few.
            lab.is_left_out_for(80 * MS).await?;

            // There is one trial, however many calls there are. It fails, so the next ejection
            // takes twice as long.
            sleep(20 * MS).await;
            let before = lab.seen();
            assert_eq!((lab.burst().await, lab.seen() - before), (1, 1), "{mood:?}");
            lab.is_left_out_for(150 * MS).await?;

            lab.mood.set(Mood::Answers);
            sleep(50 * MS).await;
            let before = lab.seen();
            assert_eq!(lab.burst().await, 0, "{mood:?}");
            assert_eq!(lab.seen() - before, 1, "{mood:?}: the trial alone until it succeeds");
            assert_eq!(lab.burst().await, 0, "{mood:?}");
            let share = lab.seen() - before - 1;
            assert!((9..=11).contains(&share), "{mood:?}: {share} of 30 calls");
            Ok(())
        });
    }
}

#[test]
fn host_that_refused_connections_is_tried_once_when_it_is_back() {
    simulate(|| async {
        let lab = Lab::start().await?;
        lab.moody.borrow().kill();
        is_avoided_and_tried_once_when_it_is_back(&lab, || {}).await
    });
}

#[test]
fn silent_host_is_tried_once_when_it_is_back() {
    simulate(|| async {
        let lab = Lab::start().await?;
        lab.moody.borrow().kill();
        sleep(MS).await;
        let listener = Listener::bind(&address().into(), ListenOptions::default())?;
        let mute = spawn(async move {
            let mut accepted = Vec::new();
            while let Ok(connection) = listener.accept().await {
                accepted.push(connection);
            }
        });
        is_avoided_and_tried_once_when_it_is_back(&lab, || mute.abort()).await
    });
}

async fn is_avoided_and_tried_once_when_it_is_back(
    lab: &Lab,
    make_way: impl FnOnce(),
) -> Result<(), Box<dyn Error>> {
    // Enough time for five attempts to connect, with growing pauses.
    let (mut failed, until) = (0, now() + 15 * SECOND);
    while now() < until {
        failed += usize::from(lab.call().await.is_err());
        sleep(10 * MS).await;
    }
    assert!(failed <= 1, "{failed} calls went to a host that is not there");

    make_way();
    sleep(MS).await;
    lab.mood.set(Mood::Holds);
    lab.moody.replace(serve_moodily(&lab.mood));
    let (mut failed, until) = (0, now() + 60 * SECOND);
    while lab.seen() == 0 && now() < until {
        failed += lab.burst().await;
        sleep(10 * MS).await;
    }
    assert_eq!((lab.seen(), failed), (1, 1), "one trial");

    lab.mood.set(Mood::Answers);
    let until = now() + 60 * SECOND;
    while lab.seen() < 10 && now() < until {
        lab.call().await?;
        sleep(10 * MS).await;
    }
    assert_eq!(lab.seen(), 10, "it is used again");
    Ok(())
}

#[test]
fn cancelled_earlier_call_does_not_allow_a_second_trial() {
    simulate(|| async {
        let lab = Lab::start().await?;
        lab.mood.set(Mood::Holds);
        let from_before = lab.held().await;
        lab.until_it_is_left_out().await;
        sleep(100 * MS).await;
        let _trial = lab.held().await;
        drop(from_before);
        let before = lab.seen();
        assert_eq!((lab.burst().await, lab.seen()), (0, before));
        Ok(())
    });
}

#[test]
fn long_trial_does_not_keep_a_host_out_of_use() {
    for is_stream in [false, true] {
        simulate(move || async move {
            let lab = Lab::start().await?;
            lab.mood.set(Mood::Fails);
            lab.until_it_is_left_out().await;
            sleep(100 * MS).await;
            lab.mood.set(Mood::Holds);
            let held = match is_stream {
                true => Held::Stream(Box::new(lab.held_stream().await)),
                false => Held::Call(lab.held().await),
            };
            lab.mood.set(Mood::Answers);
            let before = lab.seen();
            assert_eq!((lab.burst().await, lab.seen() - before), (0, 0), "it is on trial");
            sleep(SECOND).await;
            assert_eq!((lab.burst().await, lab.burst().await), (0, 0));
            let share = lab.seen() - before;
            assert!(share >= 9, "{share} of 60 calls, {held:?}");
            Ok(())
        });
    }
}

/// Calls that run while a test makes other calls.
#[derive(Debug)]
#[expect(dead_code, reason = "they are held")]
enum Held {
    Call(Pin<Box<Call<Bytes>>>),
    Stream(Box<(Sink<Bytes>, Streaming<Bytes>)>),
}

#[test]
fn cancelled_trial_without_an_answer_counts_as_a_failure() {
    simulate(|| async {
        let lab = Lab::start().await?;
        lab.mood.set(Mood::Holds);
        lab.until_it_is_left_out().await;
        let (before, until) = (lab.seen(), now() + 10 * SECOND);
        while now() < until {
            let _dropped = timeout(20 * MS, echo(&lab.client, "hello")).await;
        }
        let trials = lab.seen() - before;
        assert!((5..50).contains(&trials), "{trials} in ten seconds");

        lab.mood.set(Mood::Answers);
        let until = now() + 60 * SECOND;
        while lab.seen() < before + trials + 10 && now() < until {
            lab.call().await?;
            sleep(50 * MS).await;
        }
        assert_eq!(lab.seen(), before + trials + 10, "it is used again");
        Ok(())
    });
}
