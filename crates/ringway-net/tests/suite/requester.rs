//! Requests and replies over real sockets.

use std::cell::{Cell, RefCell};
use std::net::TcpStream;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ringway_net::{Backend, Client, Connection, Framed, Requester};
use ringway_runtime::{block_on, spawn, timeout};
use ringway_wire::{LengthField, Line};

use crate::support::peer::{LIMIT, read_all, read_lines, with_peer, write};
use crate::support::server::{echo, end, server};

const LINE: Line = Line::new(1024);

fn in_order(connection: Connection, in_flight_max: usize) -> Requester<Line> {
    Requester::in_order(Framed::new(connection, LINE), in_flight_max)
}

/// Makes a requester over lines of the form `id request`.
fn by_id(connection: Connection, in_flight_max: usize) -> Requester<Line> {
    Requester::by_id(
        Framed::new(connection, LINE),
        in_flight_max,
        |id, request, payload| {
            payload.extend_from_slice(format!("{id} ").as_bytes());
            payload.extend_from_slice(request);
        },
        |payload| {
            let space = payload.iter().position(|&byte| byte == b' ')?;
            let id: u32 = std::str::from_utf8(&payload[..space]).ok()?.parse().ok()?;
            Some((id.into(), &payload[space + 1..]))
        },
    )
}

/// Sends all requests at the same time and returns the replies in their order.
async fn request_all(requester: &Requester<Line>, count: usize) -> Vec<String> {
    let tasks: Vec<_> = (0..count)
        .map(|n| {
            let requester = requester.clone();
            spawn(async move { requester.request(format!("r{n}").as_bytes(), LIMIT).await })
        })
        .collect();
    let mut replies = Vec::new();
    for task in tasks {
        let reply = task.await.expect("no panic").expect("a reply");
        replies.push(String::from_utf8(reply.to_vec()).expect("text"));
    }
    replies
}

#[test]
fn replies_in_order_reach_their_callers() {
    let answer = |socket: TcpStream| {
        for line in read_lines(&socket, 100) {
            write(&socket, format!("re {line}\n"));
        }
        read_all(&socket)
    };
    let (rest, replies) = with_peer(answer, async |connection| {
        let requester = in_order(connection, 100);
        let replies = request_all(&requester, 100).await;
        assert_eq!(requester.in_flight(), 0);
        replies
    });
    assert_eq!(replies, (0..100).map(|n| format!("re r{n}")).collect::<Vec<_>>());
    assert!(rest.is_empty(), "the last requester closes the connection");
}

#[test]
fn replies_by_id_may_come_in_any_order() {
    let answer = |socket: TcpStream| {
        for line in read_lines(&socket, 50).iter().rev() {
            write(&socket, format!("{line}!\n"));
        }
    };
    let (_, replies) =
        with_peer(answer, async |connection| request_all(&by_id(connection, 50), 50).await);
    assert_eq!(replies, (0..50).map(|n| format!("r{n}!")).collect::<Vec<_>>());
}

#[test]
fn late_reply_is_discarded() {
    for start in [in_order, by_id] {
        // The first request is answered only after the second has arrived.
        let answer = |socket: TcpStream| {
            for line in read_lines(&socket, 2) {
                write(&socket, format!("{line} done\n"));
            }
        };
        with_peer(answer, async move |connection| {
            let requester = start(connection, 2);
            let first = requester.request(b"first", Duration::from_millis(20)).await;
            assert!(first.as_ref().is_err_and(|error| error.is_timeout()), "{first:?}");
            let second = requester.request(b"second", LIMIT).await.expect("a reply");
            assert_eq!(second, "second done");
            assert_eq!(requester.in_flight(), 0);
        });
    }
}

#[test]
fn requests_time_out_in_the_order_of_their_deadlines() {
    let (_, ended) = with_peer(
        |socket| read_all(&socket),
        async |connection| {
            let requester = by_id(connection, 8);
            let (sender, receiver) = ringway_runtime::sync::channel::bounded(8);
            for limit_ms in [60, 20, 40] {
                let (requester, sender) = (requester.clone(), sender.clone());
                spawn(async move {
                    let limit = Duration::from_millis(limit_ms);
                    let reply = requester.request(b"?", limit).await;
                    assert!(reply.unwrap_err().is_timeout());
                    sender.send(limit_ms).await.expect("the test waits");
                });
            }
            let mut ended = Vec::new();
            while ended.len() < 3 {
                ended.push(receiver.recv().await.expect("three tasks"));
            }
            ended
        },
    );
    assert_eq!(ended, [20, 40, 60]);
}

#[test]
fn dropped_request_is_abandoned() {
    for start in [in_order, by_id] {
        let answer = |socket: TcpStream| {
            for line in read_lines(&socket, 2) {
                write(&socket, format!("{line}\n"));
            }
        };
        with_peer(answer, async move |connection| {
            let requester = start(connection, 2);
            {
                let given_up = pin!(requester.request(b"given up", LIMIT));
                assert!(timeout(Duration::ZERO, given_up).await.is_err());
            }
            assert_eq!(requester.request(b"wanted", LIMIT).await.expect("a reply"), "wanted");
            assert_eq!(requester.in_flight(), 0);
        });
    }
}

#[test]
fn failed_connection_fails_all_requests_with_its_reason() {
    with_peer(
        |socket| drop(read_lines(&socket, 3)),
        async |connection| {
            let requester = in_order(connection, 8);
            let tasks = [0, 1, 2].map(|_| {
                let requester = requester.clone();
                spawn(async move { requester.request(b"?", LIMIT).await })
            });
            for task in tasks {
                let error = task.await.expect("no panic").unwrap_err();
                assert!(error.is_closed(), "{error:?}");
            }
            let error = requester.request(b"?", LIMIT).await.unwrap_err();
            assert!(error.is_closed() && requester.is_closed(), "{error:?}");
            assert!(error.to_string().contains("connect again"), "{error}");
        },
    );
}

#[test]
fn unexpected_reply_ends_the_connection() {
    for (start, reply) in [(in_order as fn(_, _) -> _, "a\nb\n"), (by_id, "no id\n")] {
        let answer = move |socket: TcpStream| {
            read_lines(&socket, 1);
            write(&socket, reply);
            read_all(&socket);
        };
        with_peer(answer, async move |connection| {
            let requester: Requester<Line> = start(connection, 8);
            let mut ended = requester.request(b"?", LIMIT).await.err();
            while ended.is_none() {
                ended = requester.request(b"?", LIMIT).await.err();
            }
            let error = ended.expect("just asked");
            assert!(error.is_protocol() && requester.is_closed(), "{error:?}");
        });
    }
}

#[test]
fn requests_over_the_limit_are_rejected_and_not_sent() {
    let (sent, _) = with_peer(
        |socket| read_all(&socket),
        async |connection| {
            let requester = in_order(connection, 1);
            let waiting = requester.clone();
            let first = spawn(async move { waiting.request(b"first", LIMIT).await });
            while requester.in_flight() == 0 {
                ringway_runtime::yield_now().await;
            }
            let refused = requester.request(b"second", LIMIT).await.unwrap_err();
            assert!(refused.is_limit(), "{refused:?}");
            let unfit = requester.request(b"two\nlines", LIMIT).await.unwrap_err();
            assert!(!unfit.is_closed() && !requester.is_closed(), "{unfit:?}");
            first.abort();
        },
    );
    assert_eq!(sent, b"first\n");
}

#[test]
fn panic_while_reading_replies_fails_the_requests() {
    let answer = |socket: TcpStream| {
        read_lines(&socket, 1);
        write(&socket, "boom\n");
        read_all(&socket);
    };
    with_peer(answer, async |connection| {
        let requester = Requester::by_id(
            Framed::new(connection, LINE),
            8,
            |_, request, payload| payload.extend_from_slice(request),
            |_| panic!("a bug of the program"),
        );
        let error = requester.request(b"?", LIMIT).await.unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
    });
}

#[test]
fn requests_wait_while_the_peer_does_not_read() {
    const LENGTH: usize = 1 << 20;
    const COUNT: usize = 64;
    let (start_reading, may_read) = mpsc::channel();
    let answer = move |socket: TcpStream| {
        may_read.recv_timeout(LIMIT).expect("the test says when");
        for line in read_lines_long(&socket, COUNT) {
            write(&socket, format!("{line}\n"));
        }
    };
    with_peer(answer, async move |connection| {
        let codec = Line::new(LENGTH);
        let requester = Requester::in_order(Framed::new(connection, codec), COUNT);
        let tasks = [(); COUNT].map(|()| {
            let requester = requester.clone();
            spawn(async move { requester.request(&[b'x'; LENGTH], LIMIT).await })
        });
        for _ in 0..100 {
            ringway_runtime::yield_now().await;
        }
        let begun = requester.in_flight();
        assert!((1..COUNT).contains(&begun), "{begun} of {COUNT} requests were queued at once");
        start_reading.send(()).expect("the peer waits");
        for task in tasks {
            let reply = task.await.expect("no panic").expect("a reply");
            assert_eq!(reply, LENGTH.to_string());
        }
    });
}

thread_local! {
    /// The requester that code of the program uses whenever it runs.
    static USED: RefCell<Option<Requester<Line>>> = const { RefCell::new(None) };
}

/// Counts the successful uses.
static USES: AtomicUsize = AtomicUsize::new(0);

fn use_requester() {
    USED.with_borrow(|used| {
        if let Some(requester) = used {
            let _shown = (requester.in_flight(), requester.is_closed(), format!("{requester:?}"));
            USES.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// A value of the session.
struct UsesWhenDropped;

impl Drop for UsesWhenDropped {
    fn drop(&mut self) {
        use_requester();
    }
}

/// A waker that also panics.
struct UsesWhenWoken;

impl Wake for UsesWhenWoken {
    fn wake(self: Arc<Self>) {
        use_requester();
        panic!("a bug in a waker");
    }
}

#[test]
fn program_code_may_use_the_requester_wherever_it_runs() {
    let answer = |socket: TcpStream| {
        for line in read_lines(&socket, 2) {
            write(&socket, format!("{line}\n"));
        }
    };
    with_peer(answer, async |connection| {
        connection.session().insert(UsesWhenDropped);
        let requester = Requester::by_id(
            Framed::new(connection, LINE),
            8,
            |id, request, payload| {
                use_requester();
                payload.extend_from_slice(format!("{id} ").as_bytes());
                payload.extend_from_slice(request);
            },
            |payload| {
                use_requester();
                let text = std::str::from_utf8(payload).ok()?;
                let id: u32 = text.split(' ').next()?.parse().ok()?;
                Some((id.into(), payload))
            },
        );
        USED.set(Some(requester.clone()));
        // Its waker is the program's own, and panics; the other request is still answered.
        let mut woken = pin!(requester.request(b"a", LIMIT));
        let waker = Arc::new(UsesWhenWoken).into();
        assert!(woken.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(requester.request(b"b", LIMIT).await.expect("a reply"), "2 b");
        assert_eq!(woken.await.expect("a reply"), "1 a");
        // The peer closes after two lines: the connection is dropped, and its session's values with
        // it.
        let error = requester.request(b"c", LIMIT).await.expect_err("closed");
        assert!(error.is_closed(), "{error:?}");
        ringway_runtime::yield_now().await;
        drop(USED.take());
    });
    // The third request was written only if the end had not been noticed before.
    let uses = USES.load(Ordering::Relaxed);
    assert!(uses >= 6, "{uses}: two written, two read, one woken, one dropped");
}

#[test]
fn request_within_a_request_is_rejected() {
    with_peer(
        |socket| {
            let line = read_lines(&socket, 1).remove(0);
            write(&socket, format!("{line}\n"));
            read_all(&socket)
        },
        async |connection| {
            let within: Rc<RefCell<Option<Requester<Line>>>> = Rc::default();
            let (of_writer, refused) = (Rc::clone(&within), Rc::new(Cell::new(false)));
            let tell = Rc::clone(&refused);
            let requester = Requester::by_id(
                Framed::new(connection, LINE),
                8,
                move |id, request, payload| {
                    if let Some(requester) = of_writer.take() {
                        let mut cx = Context::from_waker(Waker::noop());
                        let polled = pin!(requester.request(b"?", LIMIT)).poll(&mut cx);
                        tell.set(matches!(polled, Poll::Ready(Err(_))));
                    }
                    payload.extend_from_slice(format!("{id} ").as_bytes());
                    payload.extend_from_slice(request);
                },
                |payload| Some((1u32.into(), payload)),
            );
            within.replace(Some(requester.clone()));
            assert_eq!(requester.request(b"!", LIMIT).await.expect("a reply"), "1 !");
            assert!(refused.get());
            assert_eq!(requester.in_flight(), 0);
        },
    );
}

#[test]
fn large_requests_and_replies_do_not_wait_for_each_other() {
    const LENGTH: usize = 256 * 1024;
    const COUNT: usize = 128;
    let handle = server(Backend::Uring).threads(1).start(echo).expect("the server starts");
    let address = handle.addresses()[0].clone();
    let ended = block_on(timeout(LIMIT, async move {
        let connection = Client::connect(&address).await?;
        let framed = Framed::new(connection, LengthField::u32_be());
        let requester = Requester::in_order(framed, COUNT);
        let tasks = [(); COUNT].map(|()| {
            let requester = requester.clone();
            spawn(async move { requester.request(&[7; LENGTH], LIMIT).await })
        });
        for task in tasks {
            assert_eq!(task.await??.len(), LENGTH);
        }
        Ok::<_, ringway_net::Error>(())
    }));
    ended.expect("a core").expect("in time").expect("replies to all");
    end(&handle);
}

/// Returns the lengths of long lines.
fn read_lines_long(socket: &TcpStream, count: usize) -> impl Iterator<Item = usize> {
    use std::io::BufRead;
    let lines = std::io::BufReader::with_capacity(1 << 20, socket).lines();
    lines.take(count).map(|line| line.expect("a line in time").len())
}
