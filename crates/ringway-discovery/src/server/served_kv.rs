//! The service KV as it is served. What a range has found is put together from the keys' messages, as the store has them,
//! while the registry is locked.

use std::cell::Cell;
use std::future::ready;

use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use ringway_rpc::{Codec, Methods, Service, ServiceDescriptor, Status};

use super::{Registry, failure, read};
use crate::etcd::api::etcdserverpb::{KvServer, RangeRequest, RangeResponse};
use crate::limits;
use crate::store::{KeyRange, Revision, put_element};

/// KV, with a Range of its own.
struct ServedKv {
    registry: Registry,
    whole: KvServer<Registry>,
}

impl Registry {
    /// KV, to be served.
    pub(super) fn served_kv(&self) -> impl Service + use<> {
        ServedKv { registry: self.clone(), whole: KvServer::new(self.clone()) }
    }
}

impl Service for ServedKv {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.whole.descriptor()
    }

    fn register(&self, methods: &mut Methods) {
        self.whole.register(methods);
        let mut all = self.descriptor().methods.iter();
        let range = all.find(|method| method.short_name() == "Range").expect("etcd's API has it");
        let registry = self.registry.clone();
        let answer = move |_, request| ready(registry.answer(request));
        methods.unary(range, Codec::<RangeRequest>::protobuf(), RangeAnswer::CODEC, answer);
    }
}

/// What a Range is answered.
enum RangeAnswer {
    /// A message that is encoded.
    Encoded(Vec<u8>),
    Message(RangeResponse),
}

impl RangeAnswer {
    const CODEC: Codec<Self> = Codec {
        id: Codec::<RangeResponse>::protobuf().id,
        encode: |answer, out| match answer {
            Self::Message(message) => (Codec::protobuf().encode)(message, out),
            Self::Encoded(mut encoded) => {
                match out.is_empty() {
                    true => std::mem::swap(out, &mut encoded),
                    false => out.extend_from_slice(&encoded),
                }
                keep(encoded);
                Ok(None)
            }
        },
        decode: |_| Err(Status::internal("only a client reads an answer")),
        json: None,
    };
}

thread_local! {
    /// A buffer for the next answer.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Keeps a buffer for the next answer.
fn keep(mut buffer: Vec<u8>) {
    if buffer.capacity() <= 2 * limits::ENCODED_ANSWER_BYTES {
        buffer.clear();
        SPARE.set(buffer);
    }
}

impl Registry {
    fn answer(&self, mut request: RangeRequest) -> Result<RangeAnswer, Status> {
        read::check(&request)?;
        let (key, end) = (std::mem::take(&mut request.key), std::mem::take(&mut request.range_end));
        let range = KeyRange::from_wire(key, end);
        if let Some(limit) = read::plain_limit(&request)
            && let Some(encoded) = self.encoded(&request, &range, limit)?
        {
            return Ok(RangeAnswer::Encoded(encoded));
        }
        self.read_range(&request, &range).map(RangeAnswer::Message)
    }

    /// The answer to a request that asks for keys as they are, if it is a short one.
    fn encoded(
        &self,
        request: &RangeRequest,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, Status> {
        let mut out = SPARE.take();
        let mut shown = 0;
        let mut state = self.state();
        let present = state.visible();
        let at = read::revision_asked(request, present)?;
        self.put_header(present, &mut out);
        let visited = state.store.visit(range, Some(at), limit, |found| {
            if out.len() <= limits::ENCODED_ANSWER_BYTES {
                put_element(KVS, found.encoded(), &mut out);
                shown += 1;
            }
        });
        let begins = state.takes_duty();
        drop(state);
        if begins {
            self.begin_duty();
        }
        let count = visited.map_err(failure::compacted_or_future)?;
        if out.len() > limits::ENCODED_ANSWER_BYTES {
            keep(out);
            return Ok(None);
        }
        if count > shown {
            put_number(MORE, 1, &mut out);
        }
        if count > 0 {
            put_number(COUNT, count as u64, &mut out);
        }
        Ok(Some(out))
    }

    /// Begins the message with its header.
    fn put_header(&self, revision: Revision, out: &mut Vec<u8>) {
        let (begin, revision) = (&self.shared.header_begin, revision.0.cast_unsigned());
        let rest = 1 + encoded_len_varint(revision) + 1 + encoded_len_varint(limits::RAFT_TERM);
        encode_key(HEADER, WireType::LengthDelimited, out);
        encode_varint((begin.len() + rest) as u64, out);
        out.extend_from_slice(begin);
        put_number(REVISION, revision, out);
        put_number(RAFT_TERM, limits::RAFT_TERM, out);
    }
}

fn put_number(tag: u32, number: u64, out: &mut Vec<u8>) {
    encode_key(tag, WireType::Varint, out);
    encode_varint(number, out);
}

// Fields of RangeResponse.
const HEADER: u32 = 1;
const KVS: u32 = 2;
const MORE: u32 = 3;
const COUNT: u32 = 4;

// Fields of ResponseHeader.
const REVISION: u32 = 3;
const RAFT_TERM: u32 = 4;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;
    use ringway_runtime as runtime;

    use super::*;
    use crate::etcd::api::etcdserverpb::{Kv, PutRequest};

    #[test]
    fn an_answer_is_the_same_whichever_way_it_is_made() {
        runtime::block_on(async {
            let registry = Registry::new();
            let put = async |key: &str, bytes: usize| {
                let (key, value) = (Bytes::copy_from_slice(key.as_bytes()), vec![b'v'; bytes]);
                let request = PutRequest { key, value: value.into(), ..PutRequest::default() };
                registry.put(request).await.expect("it is put");
            };
            for (key, bytes) in [("a", 0), ("b/1", 10), ("b/2", 300), ("b/2", 5), ("c", 40_000)] {
                put(key, bytes).await;
            }
            let empty = RangeRequest::default();
            for (key, range_end) in [("a", ""), ("x", ""), ("b/", "b0"), ("\0", "\0"), ("z", "a")] {
                let request = RangeRequest {
                    key: Bytes::copy_from_slice(key.as_bytes()),
                    range_end: Bytes::copy_from_slice(range_end.as_bytes()),
                    ..RangeRequest::default()
                };
                for request in [
                    RangeRequest { ..request.clone() },
                    RangeRequest { limit: 2, ..request.clone() },
                    RangeRequest { limit: 3, revision: 4, ..request.clone() },
                    RangeRequest { revision: 99, ..request.clone() },
                    RangeRequest { count_only: true, ..request.clone() },
                    RangeRequest { keys_only: true, serializable: true, ..request.clone() },
                    RangeRequest { min_mod_revision: 3, ..request.clone() },
                    RangeRequest { sort_order: 2, ..request },
                ] {
                    let expected = registry.range(request.clone()).await;
                    let answer = registry.answer(request.clone()).map(|answer| {
                        let mut out = Vec::new();
                        (RangeAnswer::CODEC.encode)(answer, &mut out).expect("it can be encoded");
                        out
                    });
                    let expected =
                        expected.map(|it| it.encode_to_vec()).map_err(|it| it.to_string());
                    let answer = answer.map_err(|it| it.to_string());
                    assert_eq!(answer, expected, "{request:?}");
                }
            }
            assert!(registry.answer(empty).is_err(), "it names no key");
        })
        .expect("a core");
    }

    #[test]
    fn only_short_answers_are_made_under_the_lock() {
        runtime::block_on(async {
            let registry = Registry::new();
            let request = RangeRequest { key: "a".into(), ..RangeRequest::default() };
            for (bytes, is_short) in [(100, true), (limits::ENCODED_ANSWER_BYTES, false), (1, true)]
            {
                let value = vec![b'v'; bytes].into();
                let put = PutRequest { key: "a".into(), value, ..PutRequest::default() };
                registry.put(put).await.expect("it is put");
                let answer = registry.answer(request.clone()).expect("a key");
                assert_eq!(matches!(answer, RangeAnswer::Encoded(_)), is_short, "{bytes}");
                let mut out = b"before".to_vec();
                (RangeAnswer::CODEC.encode)(answer, &mut out).expect("it can be encoded");
                let decoded = RangeResponse::decode(&out[6..]).expect("a message");
                assert_eq!((decoded.count, decoded.kvs[0].value.len()), (1, bytes));
            }
        })
        .expect("a core");
    }
}
