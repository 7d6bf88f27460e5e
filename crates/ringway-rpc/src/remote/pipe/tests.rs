use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::limits;
use crate::remote::pipe::{Receiver, Sender, Weigh, pipe};

struct Item {
    number: usize,
    bytes: usize,
}

impl Weigh for Item {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

type Ends = (Sender<Item, &'static str, &'static str>, Receiver<Item, &'static str, &'static str>);

fn has_room(sender: &Sender<Item, &'static str, &'static str>) -> bool {
    match sender.poll_room(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(room) => room.map(|()| true).expect("the pipe is open"),
        Poll::Pending => false,
    }
}

fn take(
    receiver: &Receiver<Item, &'static str, &'static str>,
) -> Poll<Result<Vec<usize>, Option<&'static str>>> {
    let mut items = VecDeque::new();
    let taken = receiver.poll_take(&mut Context::from_waker(Waker::noop()), &mut items);
    taken.map_ok(|()| items.iter().map(|item| item.number).collect())
}

#[test]
fn items_and_bytes_are_bounded() {
    for (bytes, items) in [(0, limits::PIPE_MESSAGES_MAX), (limits::PIPE_BYTES_MAX / 4, 4)] {
        let (sender, receiver): Ends = pipe();
        let mut number = 0;
        while has_room(&sender) {
            sender.push(Item { number, bytes }).expect("it is open");
            number += 1;
        }
        assert_eq!(number, items, "of {bytes} bytes");
        assert_eq!(take(&receiver), Poll::Ready(Ok((0..items).collect())));
        assert!(has_room(&sender) && take(&receiver).is_pending());
    }
}

#[test]
fn pushed_item_is_taken_or_its_push_fails() {
    let (sender, receiver): Ends = pipe();
    sender.push(Item { number: 1, bytes: limits::PIPE_BYTES_MAX }).expect("it is open");
    assert_eq!(receiver.take_last("over").len(), 1);
    assert_eq!(sender.push(Item { number: 2, bytes: 1 }), Err(Some("over")));
    assert!(receiver.take_last("again").is_empty() && take(&receiver).is_pending());
    sender.end("done");
    assert_eq!(take(&receiver), Poll::Ready(Err(Some("done"))));
}

#[test]
fn end_comes_after_the_items_and_abort_at_once() {
    let (sender, receiver): Ends = pipe();
    sender.push(Item { number: 1, bytes: 1 }).expect("it is open");
    sender.end("done");
    assert_eq!(take(&receiver), Poll::Ready(Ok(vec![1])));
    assert_eq!(take(&receiver), Poll::Ready(Err(Some("done"))));
    assert_eq!(take(&receiver), Poll::Ready(Err(None)));

    let (sender, receiver): Ends = pipe();
    let mut cx = Context::from_waker(Waker::noop());
    sender.push(Item { number: 1, bytes: 1 }).expect("it is open");
    assert!(receiver.poll_aborted(&mut cx).is_pending());
    sender.abort("cancelled");
    assert_eq!(receiver.poll_aborted(&mut cx), Poll::Ready(Some("cancelled")));
    assert_eq!(take(&receiver), Poll::Ready(Err(None)));
}

#[test]
fn close_reaches_the_sender_with_or_without_a_value() {
    let mut cx = Context::from_waker(Waker::noop());
    let (sender, receiver): Ends = pipe();
    receiver.close("full");
    assert_eq!(sender.poll_room(&mut cx), Poll::Ready(Err(Some("full"))));
    let (sender, receiver): Ends = pipe();
    drop(receiver);
    assert_eq!(sender.poll_room(&mut cx), Poll::Ready(Err(None)));
    assert_eq!(sender.push(Item { number: 1, bytes: 1 }), Err(None), "it goes nowhere");
}

#[test]
fn two_threads_lose_neither_items_nor_wake_ups() {
    const ITEMS: usize = 200_000;
    let (sender, receiver): Ends = pipe();
    let sending = thread::spawn(move || {
        ringway_runtime::block_on(async move {
            for number in 0..ITEMS {
                poll_fn(|cx| sender.poll_room(cx)).await.expect("the receiver takes all");
                sender.push(Item { number, bytes: number % 10_000 }).expect("it is open");
            }
            sender.end("done");
        })
    });
    let received = ringway_runtime::block_on(async move {
        let mut received = 0;
        loop {
            let mut items = VecDeque::new();
            match poll_fn(|cx| receiver.poll_take(cx, &mut items)).await {
                Ok(()) => {}
                Err(end) => break (received, end),
            }
            for item in items {
                assert_eq!(item.number, received);
                received += 1;
            }
        }
    });
    sending.join().expect("no panic").expect("a core");
    assert_eq!(received.expect("a core"), (ITEMS, Some("done")));
}
