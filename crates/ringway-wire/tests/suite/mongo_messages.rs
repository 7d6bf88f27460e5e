//! Commands and replies of MongoDB: framing, matching, compression, and servers that lie.

use bson::{Bson, RawDocumentBuf, rawdoc};
use ringway_wire::mongo::{
    CommandReply, CommandTemplate, CommandWriter, CursorReply, MongoCompressor, MongoFault,
    MongoReplies, MsgFlags, NESTING_MAX, OpMsg, ServerFailure, check_nesting,
};

use crate::support::alone::alone;
use crate::support::{allocations_of, for_seeds};

const LEN_MAX: usize = 1 << 20;

/// The answer to the command `to`, as a server writes it.
fn reply(to: i32, body: &RawDocumentBuf) -> Vec<u8> {
    reply_with(to, 0, body, false)
}

fn reply_with(to: i32, flags: u32, body: &RawDocumentBuf, has_sum: bool) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(1000 + to).to_le_bytes());
    out.extend_from_slice(&to.to_le_bytes());
    out.extend_from_slice(&2013_i32.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.push(0);
    out.extend_from_slice(body.as_bytes());
    let len = out.len() + if has_sum { 4 } else { 0 };
    out[..4].copy_from_slice(&(len as i32).to_le_bytes());
    if has_sum {
        let sum = crc32c::crc32c(&out);
        out.extend_from_slice(&sum.to_le_bytes());
    }
    out
}

fn waiting(commands: i32) -> MongoReplies {
    let mut replies = MongoReplies::new(64, LEN_MAX);
    for expected in 1..=commands {
        assert_eq!(replies.begin(), Some(expected));
    }
    replies
}

type Taken = Vec<(i32, RawDocumentBuf)>;

fn take(replies: &mut MongoReplies, stream: &[u8], piece: usize) -> Result<Taken, MongoFault> {
    let mut taken = Vec::new();
    for mut input in stream.chunks(piece.max(1)) {
        while let Some(reply) = replies.next(&mut input)? {
            taken.push((reply.request_id(), reply.body().to_owned()));
        }
        assert!(input.is_empty());
    }
    Ok(taken)
}

#[track_caller]
fn fails(stream: &[u8], expected: &MongoFault) {
    for piece in [1, 7, stream.len()] {
        let mut replies = waiting(2);
        assert_eq!(take(&mut replies, stream, piece).as_ref(), Err(expected), "pieces of {piece}");
        assert_eq!(replies.next(&mut &stream[..]).err().as_ref(), Some(expected), "it is repeated");
        assert!(!replies.is_idle());
    }
}

#[test]
fn replies_come_in_any_order_and_cut_anywhere() {
    let (first, second) = (rawdoc! { "ok": 1.0, "n": 1 }, rawdoc! { "ok": 1.0, "text": "zwei" });
    let mut stream = reply(2, &second);
    stream.extend(reply_with(1, 1, &first, true));
    for cut in 0..=stream.len() {
        let mut replies = waiting(2);
        let mut taken = take(&mut replies, &stream[..cut], cut).expect("nothing wrong");
        taken.extend(take(&mut replies, &stream[cut..], stream.len()).expect("nothing wrong"));
        assert_eq!(taken, [(2, second.clone()), (1, first.clone())], "cut at {cut}");
        assert!(replies.is_idle());
    }
    for_seeds(50, |random| {
        let mut replies = waiting(2);
        let mut taken = Vec::new();
        for piece in random.pieces(&stream, 40) {
            taken.extend(take(&mut replies, piece, piece.len()).expect("nothing wrong"));
        }
        assert_eq!(taken, [(2, second.clone()), (1, first.clone())]);
    });
}

#[test]
fn a_reply_to_no_command_is_a_fault() {
    let stray = rawdoc! { "ok": 1.0, "text": "x".repeat(100) };
    fails(&reply(99, &stray), &MongoFault::ResponseTo(99));
    fails(&[reply(1, &stray), reply(1, &stray)].concat(), &MongoFault::ResponseTo(1));
}

#[test]
fn the_reply_of_a_command_that_was_given_up_passes_by_without_memory() {
    let long = rawdoc! { "ok": 1.0, "text": "x".repeat(100_000) };
    let stream = [reply(1, &long), reply(2, &rawdoc! { "ok": 1.0 })].concat();
    for is_late in [false, true] {
        let mut replies = waiting(2);
        let mut taken = Vec::new();
        for (index, piece) in stream.chunks(1000).enumerate() {
            if index == usize::from(is_late) * 50 {
                replies.abandon(1);
            }
            taken.extend(take(&mut replies, piece, 1000).expect("nothing wrong"));
            assert!(is_late || replies.capacity() < 20_000);
        }
        assert_eq!(taken.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2]);
        assert_eq!(replies.in_flight(), 0);
    }
}

#[test]
fn a_stream_of_replies_continues_from_reply_to_reply() {
    const MORE: u32 = 2;
    let body = rawdoc! { "ok": 1.0 };
    let mut stream = reply_with(1, MORE, &body, false);
    stream.extend(reply_with(1001, MORE, &body, false));
    stream.extend(reply_with(2001, 0, &body, false));
    let mut replies = waiting(1);
    let taken = take(&mut replies, &stream, stream.len()).expect("nothing wrong");
    assert_eq!(taken.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 1, 1]);
    assert!(replies.is_idle());
}

#[test]
fn only_so_many_commands_wait() {
    let mut replies = MongoReplies::new(2, LEN_MAX);
    assert_eq!((replies.begin(), replies.begin(), replies.begin()), (Some(1), Some(2), None));
    assert_eq!(replies.begin_unanswered(), 3);
    replies.take_back(1);
    assert_eq!((replies.in_flight(), replies.begin()), (1, Some(4)));
    assert_eq!(replies.begin(), None);
}

#[test]
fn lies_of_a_server_end_the_connection() {
    let body = rawdoc! { "ok": 1.0 };
    let good = reply(1, &body);
    let changed = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let number = |number: i32| number.to_le_bytes();
    fails(&changed(0, &number(15)), &MongoFault::Length(15));
    fails(&changed(0, &number(-1)), &MongoFault::Length(-1));
    fails(&changed(0, &number(18))[..18], &MongoFault::Length(18));
    let max = LEN_MAX;
    fails(&changed(0, &number(48_000_000)), &MongoFault::TooLong { len: 48_000_000, max });
    fails(&changed(12, &number(1)), &MongoFault::Opcode(1));
    fails(&changed(16, &number(4)), &MongoFault::Flags(4));
    fails(&changed(16, &number(1)), &MongoFault::Checksum);
    fails(&changed(20, &[2]), &MongoFault::SectionKind(2));
    fails(&changed(21, &number(3)), &MongoFault::Section);
    fails(&changed(21, &number(i32::MAX)), &MongoFault::Section);
    fails(&changed(good.len() - 1, &[1]), &MongoFault::Document("a section"));
    // A sequence may never stand alone, and a body only once.
    fails(&changed(20, &[1]), &MongoFault::Section);
    let mut twice = good.clone();
    twice.push(0);
    twice.extend_from_slice(body.as_bytes());
    let len = twice.len() as i32;
    twice[..4].copy_from_slice(&number(len));
    fails(&twice, &MongoFault::Body);
}

#[test]
fn any_byte_of_a_reply_may_be_wrong() {
    let body =
        rawdoc! { "cursor": { "id": 7_i64, "ns": "a.b", "firstBatch": [{ "_id": 1 }] }, "ok": 1 };
    let good = reply_with(1, 1, &body, true);
    for at in 0..good.len() {
        for change in [1, 0x80, 0xFF] {
            let mut bytes = good.clone();
            bytes[at] ^= change;
            let mut replies = waiting(1);
            let taken = take(&mut replies, &bytes, bytes.len());
            // The sender's own number and, by it, nothing else may change unseen.
            let is_silent = taken.as_ref().is_ok_and(|taken| taken.is_empty());
            assert!(taken.is_err() || is_silent, "byte {at}: {taken:?}");
        }
    }
}

#[test]
fn templates_write_what_a_server_reads() {
    let template = CommandTemplate::new("find", "things", "shop").with_session();
    let mut out = b"before".to_vec();
    let mut find = template.begin(7, Some(&[9; 16]), &mut out);
    find.document("filter", &rawdoc! { "a": 1 });
    find.i64("limit", 5);
    find.bool("singleBatch", true);
    let len = find.finish().expect("short");
    assert_eq!(out.len(), 6 + len);
    let message = OpMsg::read(&out[6..]).expect("well formed");
    let session = bson::Uuid::from_bytes([9; 16]);
    assert_eq!(
        bson::Document::try_from(message.body()).expect("BSON"),
        bson::doc! {
            "find": "things",
            "$db": "shop",
            "lsid": { "id": session },
            "filter": { "a": 1 },
            "limit": 5_i64,
            "singleBatch": true,
        }
    );
    assert_eq!(message.flags(), MsgFlags::NONE);
}

#[test]
fn every_kind_of_argument_is_bson() {
    let id = bson::oid::ObjectId::new();
    let body = CommandWriter::document_of(|writer| {
        writer.i32("a", -1);
        writer.i64("b", i64::MIN);
        writer.f64("c", 0.5);
        writer.bool("d", false);
        writer.str("e", "ä");
        writer.object_id("f", id);
        writer.binary("g", b"\0\xFF");
        writer.documents("h", [&*rawdoc! { "x": 1 }, &*rawdoc! {}]);
        writer.strs("i", ["p", "q"]);
        writer.nested("j", |inner| {
            inner.nested("k", |_empty| {});
        });
        writer.fields(&rawdoc! { "l": null });
    });
    let binary = bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 255] };
    assert_eq!(
        bson::Document::try_from(body).expect("BSON"),
        bson::doc! {
            "a": -1, "b": i64::MIN, "c": 0.5, "d": false, "e": "ä", "f": id, "g": binary,
            "h": [{ "x": 1 }, {}], "i": ["p", "q"], "j": { "k": {} }, "l": Bson::Null,
        }
    );
}

#[test]
fn documents_travel_in_sequences() {
    let mut out = Vec::new();
    let insert =
        CommandTemplate::new("insert", "c", "d").with(|insert| insert.bool("ordered", false));
    let mut command = insert.begin(1, None, &mut out);
    command.flags(MsgFlags::MORE_TO_COME);
    let mut documents = command.sequence("documents");
    let some = [rawdoc! { "_id": 1 }, rawdoc! {}, rawdoc! { "_id": 3 }];
    for document in &some {
        documents.document(document);
    }
    documents.with(|document| document.i32("_id", 4));
    assert_eq!(documents.finish(), Ok(out.len()));
    let message = OpMsg::read(&out).expect("well formed");
    assert_eq!(message.flags(), MsgFlags::MORE_TO_COME);
    let sequences: Vec<_> = message.sequences().collect();
    let [sequence] = &sequences[..] else { panic!("{sequences:?}") };
    assert_eq!(sequence.identifier(), "documents");
    let documents: Vec<_> = sequence.documents().map(ToOwned::to_owned).collect();
    assert_eq!(documents[..3], some);
    assert_eq!(documents[3], rawdoc! { "_id": 4 });
}

#[test]
fn a_command_that_no_server_takes_is_cut_off_again() {
    let mut out = b"before".to_vec();
    let mut command = CommandTemplate::new("insert", "c", "d").begin(1, None, &mut out);
    command.binary("data", &vec![0; 48_000_000]);
    assert!(matches!(command.finish(), Err(MongoFault::TooLong { max: 48_000_000, .. })));
    assert_eq!(out, b"before");
}

#[test]
fn compressed_messages_become_what_they_were() {
    let body = rawdoc! { "ok": 1.0, "text": "again and again ".repeat(500) };
    for compressor in [MongoCompressor::Snappy, MongoCompressor::Zlib(-1), MongoCompressor::Zstd] {
        let mut packed = b"before".to_vec();
        packed.extend(reply(1, &body));
        let len = packed.len();
        compressor.compress(6, &mut packed);
        assert!(packed.len() < len / 2, "{compressor:?}");
        for piece in [1, packed.len()] {
            let taken = take(&mut waiting(1), &packed[6..], piece);
            assert_eq!(taken, Ok(vec![(1, body.clone())]), "{compressor:?}");
        }
        // What cannot become shorter stays as it is.
        let mut short = reply(1, &rawdoc! { "ok": 1.0 });
        let before = short.clone();
        compressor.compress(0, &mut short);
        assert_eq!(short, before);
        broken_envelopes(&packed[6..]);
    }
}

/// Any change of an envelope is noticed, or is none to the message.
fn broken_envelopes(packed: &[u8]) {
    let changed = |at: usize, value: i32| {
        let mut changed = packed.to_vec();
        changed[at..at + 4].copy_from_slice(&value.to_le_bytes());
        changed
    };
    fails(&changed(16, 2012), &MongoFault::Opcode(2012));
    fails(&changed(20, -1), &MongoFault::Length(-1));
    fails(&changed(20, 5), &MongoFault::Compressed);
    fails(&changed(20, 500_000), &MongoFault::Compressed);
    let (len, max) = (LEN_MAX + 16, LEN_MAX);
    fails(&changed(20, LEN_MAX as i32), &MongoFault::TooLong { len, max });
    let mut unknown = packed.to_vec();
    unknown[24] = 4;
    fails(&unknown, &MongoFault::Compressor(4));
    for at in 25..packed.len() {
        let mut bytes = packed.to_vec();
        bytes[at] ^= 0x55;
        let _never_panics = take(&mut waiting(1), &bytes, bytes.len());
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        let mut document = rawdoc! {};
        for _ in 1..levels {
            document = rawdoc! { "a": document };
        }
        document
    };
    assert_eq!(check_nesting(&nested(NESTING_MAX)), Ok(()));
    let fault = MongoFault::Nesting { max: NESTING_MAX };
    assert_eq!(check_nesting(&nested(NESTING_MAX + 1)), Err(fault.clone()));
    // A million levels, written by hand: opened, never closed.
    let mut bomb = Vec::new();
    for left in (1..=1_000_000).rev() {
        let len: i32 = 8 * left + 5;
        bomb.extend_from_slice(&len.to_le_bytes());
        bomb.extend_from_slice(b"\x03a\0");
    }
    bomb.extend_from_slice(b"\x05\0\0\0\0");
    bomb.resize(8_000_005, 0);
    let bomb = RawDocumentBuf::from_bytes(bomb).expect("its own ends are right");
    assert_eq!(check_nesting(&bomb), Err(fault));
}

#[test]
fn failures_are_read_wherever_they_stand() {
    let failed = rawdoc! { "ok": 0.0, "code": 26, "codeName": "NamespaceNotFound", "errmsg": "no",
    "errorLabels": ["RetryableWriteError"] };
    let Ok(CommandReply::Failed(failure)) = CommandReply::of(&failed) else { panic!("{failed:?}") };
    assert_eq!(
        (failure.code(), failure.code_name(), failure.message()),
        (26, "NamespaceNotFound", "no")
    );
    assert!(failure.has_label("RetryableWriteError") && !failure.has_label("Other"));

    let written = rawdoc! { "ok": 1, "n": 1, "writeErrors": [{ "index": 1, "code": 11000, "errmsg": "E11000" }],
    "writeConcernError": { "code": 64 } };
    assert!(matches!(CommandReply::of(&written), Ok(CommandReply::Ok(_))));
    let failure = ServerFailure::of_write(&written).expect("well formed").expect("a failure");
    assert_eq!((failure.code(), failure.index()), (11000, 1));
    assert_eq!(ServerFailure::of_writes(&written).expect("well formed").len(), 1);
    let concern = ServerFailure::of_write_concern(&written).expect("well formed").expect("one");
    assert_eq!(concern.code(), 64);

    assert!(ServerFailure::of_write(&rawdoc! { "ok": 1 }).expect("well formed").is_none());
    assert!(ServerFailure::of_write(&rawdoc! { "writeErrors": 1 }).is_err());
    assert!(ServerFailure::of_write(&rawdoc! { "writeErrors": [1] }).is_err());
    assert_eq!(CommandReply::of(&rawdoc! {}).err(), Some(MongoFault::Field("ok")));
    assert!(CommandReply::of(&rawdoc! { "ok": "1" }).is_err());
}

#[test]
fn batches_are_borrowed() {
    let body = rawdoc! { "cursor": { "id": i64::MAX, "ns": "d.c", "nextBatch": [{ "a": 1 }, { "a": 2 }] }, "ok": 1.0 };
    let cursor = CursorReply::of(&body).expect("well formed");
    assert_eq!((cursor.id, cursor.namespace), (i64::MAX, "d.c"));
    let within = body.as_bytes().as_ptr_range();
    assert!(within.contains(&cursor.batch.as_bytes().as_ptr()));
    assert_eq!(cursor.batch.into_iter().count(), 2);
    let without = rawdoc! { "cursor": { "ns": "d.c", "firstBatch": [] } };
    assert_eq!(CursorReply::of(&without).err(), Some(MongoFault::Field("cursor.id")));
}

#[test]
fn a_round_trip_allocates_nothing() {
    alone(|| {
        let template = CommandTemplate::new("find", "c", "d").with_session();
        let filter = rawdoc! { "_id": 1 };
        let mut replies = MongoReplies::new(1, LEN_MAX);
        let answer = rawdoc! { "cursor": { "id": 0_i64, "ns": "d.c", "firstBatch": [{ "_id": 1 }] }, "ok": 1.0 };
        let (mut out, mut received) = (Vec::with_capacity(4096), reply(1, &answer));
        let mut once = || {
            out.clear();
            let id = replies.begin().expect("idle");
            let mut find = template.begin(id, Some(&[7; 16]), &mut out);
            find.document("filter", &filter);
            find.finish().expect("short");
            received[8..12].copy_from_slice(&id.to_le_bytes());
            let mut input = &received[..];
            let reply = replies.next(&mut input).expect("right").expect("whole");
            let cursor = CursorReply::of(reply.body()).expect("well formed");
            assert_eq!(cursor.batch.into_iter().count(), 1);
        };
        once();
        assert_eq!(allocations_of(once), 0);
    });
}
