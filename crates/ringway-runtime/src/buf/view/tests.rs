use std::rc::Rc;
use std::sync::Weak;
use std::thread;

use bytes::Bytes;

use super::View;
use crate::buf::here::settle;
use crate::sys::Pool;

const LEN: usize = 64;

fn pool() -> Rc<Pool> {
    let pool = Pool::new(LEN, 4, &Weak::new()).expect("memory");
    settle(&pool);
    pool
}

fn received(pool: &Rc<Pool>, byte: u8) -> View {
    let mut buffer = pool.take().expect("a free buffer");
    buffer.as_mut_slice().fill(byte);
    View::filled(buffer, LEN)
}

#[test]
fn a_buffer_stays_out_until_its_last_reader_has_ended() {
    let pool = pool();
    let view = received(&pool, 7);
    let shared = view.share(8..40).expect("half of the buffer");
    let part = shared.slice(..4);
    drop((view, shared));
    assert_eq!((pool.free_count(), &part[..]), (3, &[7; 4][..]));
    drop(part);
    assert_eq!(pool.free_count(), 4);
}

#[test]
fn readers_may_end_on_other_threads() {
    let pool = pool();
    let shared = received(&pool, 9).share(..).expect("all of the buffer");
    let sum = thread::spawn(move || shared.iter().map(|&byte| u32::from(byte)).sum::<u32>());
    assert_eq!(sum.join().expect("no panic"), 9 * LEN as u32);
    assert_eq!(pool.free_count(), 3, "nobody has looked yet");
    let lent: Vec<_> = (0..4).map(|_| pool.take().expect("all are free")).collect();
    assert!(pool.take().is_none());
    drop(lent);
    assert_eq!(pool.free_count(), 4);
}

#[test]
fn few_bytes_and_scarce_buffers_are_better_copied() {
    let pool = pool();
    let view = received(&pool, 1);
    assert!(view.share(..LEN / 4 - 1).is_none(), "it would pin four times its length");
    let kept: Vec<Bytes> = (0..2).map_while(|_| received(&pool, 1).share(..)).collect();
    assert_eq!((kept.len(), pool.free_count()), (1, 2), "the second would leave less than half");
    drop((view, kept));
    assert_eq!(pool.free_count(), 4);
}

#[test]
fn what_is_shared_outlives_its_pool() {
    let pool = pool();
    let shared = received(&pool, 3).share(..).expect("all of the buffer");
    drop(pool);
    assert_eq!(shared, [3; LEN][..]);
}

#[test]
#[should_panic(expected = "of 4 bytes")]
fn a_range_beyond_every_length_is_beyond_this_one() {
    let _empty = View::copied(b"view").slice(..=usize::MAX);
}
