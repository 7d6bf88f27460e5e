//! Any bytes as the replies of a server.

use super::{
    CommandReply, CursorReply, HelloReply, MongoFault, MongoReplies, OpMsg, check_nesting,
};

/// Longest message, small enough to be exceeded.
const LEN_MAX: usize = 4 << 10;

/// Commands that wait for replies.
const COMMANDS: i32 = 4;

type Seen = (Vec<(i32, Vec<u8>)>, Option<MongoFault>);

/// The first byte tells how the others are cut.
pub fn fuzz(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    let _one_message = OpMsg::read(stream).map(|message| look_at(&message));
    let whole = read(stream, stream.len().max(1));
    for piece in [1, usize::from(piece) + 1] {
        assert_eq!(read(stream, piece), whole, "in pieces of {piece}");
    }
}

fn read(stream: &[u8], piece: usize) -> Seen {
    let mut replies = MongoReplies::new(COMMANDS as usize, LEN_MAX);
    for expected in 1..=COMMANDS {
        assert_eq!(replies.begin(), Some(expected));
    }
    assert_eq!(replies.begin(), None);
    replies.abandon(COMMANDS);
    let mut seen = Vec::new();
    for mut input in stream.chunks(piece) {
        loop {
            match replies.next(&mut input) {
                Ok(Some(reply)) => {
                    seen.push((reply.request_id(), reply.body().as_bytes().to_vec()));
                    look_at(&OpMsg::read(&reply.into_parts().0).expect("it was read before"));
                }
                Ok(None) => break,
                Err(fault) => {
                    assert_eq!(replies.next(&mut &stream[..]).err().as_ref(), Some(&fault));
                    assert_eq!(replies.capacity(), 0, "what has failed keeps nothing");
                    return (seen, Some(fault));
                }
            }
        }
        assert!(input.is_empty());
        assert!(replies.capacity() <= LEN_MAX + 256);
    }
    (seen, None)
}

/// Reads all that a driver would.
fn look_at(message: &OpMsg<'_>) {
    let body = message.body();
    assert_eq!(body.as_bytes().len(), message.body_range().len());
    for sequence in message.sequences() {
        let _checked: Vec<_> = sequence.documents().map(check_nesting).collect();
    }
    if check_nesting(body).is_ok() {
        let _decoded = bson::Document::try_from(body);
    }
    let _hello =
        HelloReply::of(body).map(|hello| (hello.mechanism(), hello.has_compressor("zlib")));
    match CommandReply::of(body) {
        Ok(CommandReply::Ok(body)) => {
            let _cursor = CursorReply::of(body).map(|cursor| cursor.batch.into_iter().count());
            let _write = super::ServerFailure::of_write(body).map(describe);
            let _writes = super::ServerFailure::of_writes(body);
        }
        Ok(CommandReply::Failed(failure)) => drop(describe(Some(failure))),
        Err(_) => {}
    }
}

fn describe(failure: Option<super::ServerFailure<'_>>) -> Option<String> {
    let failure = failure?;
    let is_retryable = failure.has_label("RetryableWriteError");
    let (code, name, text) = (failure.code(), failure.code_name(), failure.message());
    Some(format!("{code} {name} {text} {} {is_retryable}", failure.index()))
}
