use std::collections::HashSet;

use bytes::Bytes;
use ringway_wire::native::Piece;

use crate::call::codec::{self, Codec};
use crate::connection::batch::Batch;
use crate::connection::carrier::fake_connection::{digits, raw};
use crate::limits;

/// Takes all messages of a batch, as bytes.
fn drain(batch: &mut Batch) -> Vec<Bytes> {
    let mut messages = Vec::new();
    while let Some(len) = batch.next_len() {
        let message = match batch.begin_raw(len, &raw()) {
            true => batch.take_raw(len),
            false => batch.decode_next(len, &raw()).expect("bytes are bytes"),
        };
        assert_eq!(message.len(), len);
        messages.push(message);
    }
    messages
}

fn numbered(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|index| (seed + index) as u8).collect()
}

#[test]
fn messages_of_every_size_and_form_keep_their_order() {
    let borrowed = limits::STREAM_BORROWED_COPIED_MAX;
    let owned = limits::STREAM_OWNED_COPIED_MAX;
    let sizes = [0, 1, 128, owned, owned + 1, 0, borrowed, borrowed + 1, 100_000, 3];
    let mut batch = Batch::default();
    let mut expected = Vec::new();
    for (index, len) in sizes.into_iter().cycle().take(200).enumerate() {
        let message = numbered(index, len);
        batch.push(match index % 2 {
            0 => Piece::Borrowed(&message),
            _ => Piece::Owned(message.clone().into()),
        });
        expected.push(Bytes::from(message));
    }
    assert_eq!(batch.len(), expected.len());
    assert_eq!(batch.bytes(), expected.iter().map(Bytes::len).sum::<usize>());
    assert_eq!(drain(&mut batch), expected);
    assert_eq!((batch.is_empty(), batch.bytes()), (true, 0));
}

#[test]
fn a_large_owned_message_is_not_copied() {
    let message = Bytes::from(vec![7; limits::STREAM_OWNED_COPIED_MAX + 1]);
    let mut batch = Batch::default();
    batch.push(Piece::Owned(message.clone()));
    assert_eq!(drain(&mut batch)[0].as_ptr(), message.as_ptr());
}

#[test]
fn memory_is_reused_once_messages_are_dropped() {
    let (mut filled, mut used) = (Batch::default(), Batch::default());
    let mut round = |number: usize| {
        for index in 0..4 {
            filled.push(Piece::Borrowed(&numbered(number + index, 100)));
        }
        filled.exchange(&mut used);
        let messages = drain(&mut used);
        assert_eq!(messages[3], numbered(number + 3, 100));
        messages[0].as_ptr() as usize
    };
    let addresses: HashSet<_> = (0..50).map(&mut round).collect();
    for number in 50..500 {
        let address = round(number);
        assert!(addresses.contains(&address), "round {number} has new memory");
    }
}

#[test]
fn kept_messages_keep_their_contents() {
    let (mut filled, mut used) = (Batch::default(), Batch::default());
    let mut kept = Vec::new();
    for round in 0..100 {
        filled.push(Piece::Borrowed(&numbered(round, 700)));
        filled.exchange(&mut used);
        kept.append(&mut drain(&mut used));
    }
    for (round, message) in kept.iter().enumerate() {
        assert_eq!(*message, numbered(round, 700));
    }
}

#[test]
fn memory_of_a_burst_is_freed() {
    let (mut filled, mut used) = (Batch::default(), Batch::default());
    for index in 0..2 * limits::STREAM_CHUNK_BYTES_KEPT / 1000 {
        filled.push(Piece::Borrowed(&numbered(index, 1000)));
    }
    filled.exchange(&mut used);
    let bytes = used.bytes();
    assert!(bytes > limits::STREAM_CHUNK_BYTES_KEPT);
    drop(drain(&mut used));
    filled.push(Piece::Borrowed(b"a"));
    filled.exchange(&mut used);
    assert!(!filled.chunk.try_reclaim(bytes), "the memory of the burst is still there");
    assert_eq!(drain(&mut used), [&b"a"[..]]);
}

#[test]
fn message_that_cannot_be_decoded_does_not_affect_the_next() {
    let mut batch = Batch::default();
    for text in ["7", "seven", "8"] {
        batch.push(Piece::Borrowed(text.as_bytes()));
    }
    let mut next = || batch.decode_next(batch.next_len().expect("three messages"), &digits());
    assert_eq!(next().expect("a number"), 7);
    assert_eq!(next().expect_err("no number").message(), "no number");
    assert_eq!(next().expect("a number"), 8);
}

#[test]
fn panicking_decoder_does_not_affect_the_next_message() {
    let panics = Codec {
        decode: |piece| match &*piece {
            b"panic" => panic!("as types may"),
            message => Ok(Bytes::copy_from_slice(message)),
        },
        id: codec::JSON,
        ..raw()
    };
    let mut batch = Batch::default();
    let words = [&b"panic"[..], b"next"];
    words.into_iter().for_each(|word| batch.push(Piece::Borrowed(word)));
    let first = std::panic::AssertUnwindSafe(|| batch.decode_next(5, &panics));
    assert!(std::panic::catch_unwind(first).is_err());
    assert_eq!(batch.decode_next(4, &panics).expect("a message"), "next");
}

#[test]
fn memory_of_a_small_batch_is_reused_clean() {
    let mut first = Batch::default();
    first.push(Piece::Borrowed(b"not read"));
    let memory = first.chunk.as_ptr();
    first.recycle();
    let mut second = Batch::default();
    second.push(Piece::Borrowed(b"another"));
    assert_eq!((second.len(), second.bytes()), (1, 7));
    assert_eq!(second.chunk.as_ptr(), memory);
    assert_eq!(drain(&mut second), ["another"]);
    second.push(Piece::Borrowed(&[0; limits::STREAM_BORROWED_COPIED_MAX]));
    second.push(Piece::Borrowed(&[0; limits::STREAM_BORROWED_COPIED_MAX]));
    second.recycle();
    let mut third = Batch::default();
    third.push(Piece::Borrowed(b"small"));
    assert_eq!(third.chunk.capacity(), limits::STREAM_CHUNK_BYTES_MIN, "a large chunk is not kept");
}

#[test]
fn batches_of_a_stream_reuse_the_memory_of_an_ended_one() {
    let stream = || {
        let (mut filled, mut used) = (Batch::default(), Batch::default());
        let addresses = [0, 1].map(|round| {
            filled.push(Piece::Borrowed(&numbered(round, 100)));
            filled.exchange(&mut used);
            drain(&mut used)[0].as_ptr() as usize
        });
        filled.recycle();
        used.recycle();
        addresses
    };
    let chunks = stream().map(|start| start..start + limits::STREAM_CHUNK_BYTES_MIN);
    assert_ne!(chunks[0], chunks[1]);
    for address in (0..50).flat_map(|_| stream()) {
        assert!(chunks.iter().any(|chunk| chunk.contains(&address)), "{address} is new memory");
    }
}
