//! The limits of this crate, each with its reason.

use std::time::Duration;

use crate::rates::Rate;

/// Default limit on the frames of a length-field codec: 16 MiB.
///
/// Large enough for any message a service should send in one piece, small enough that one peer
/// cannot take a noticeable share of a server's memory.
pub const FRAME_LEN_MAX_DEFAULT: usize = 16 << 20;

/// Longest varint length field in bytes. Five groups of seven bits hold every 32-bit length; a
/// longer field could only announce frames of 32 GiB and more.
pub(crate) const VARINT_LEN_MAX: usize = 5;

/// Capacity in bytes that an empty [`Framer`](crate::Framer) may keep. Frames up to this size
/// straddle two slices without an allocation each; after larger ones the memory is freed.
pub(crate) const ACCUMULATOR_KEPT: usize = 4 << 10;

/// Capacity in bytes that may be reserved because a peer *announced* a long frame. Above it, memory
/// grows with the bytes received, so that a five-byte message cannot reserve 16 MiB.
pub(crate) const ACCUMULATOR_EAGER: usize = 16 << 10;

/// Least number of bytes that a [`Framer`](crate::Framer) copies to a straddling frame, to complete
/// it in one step if possible. Most short frames fit in a cache line.
pub(crate) const READ_AHEAD_MIN: usize = 64;

/// Most bytes that a [`Framer`](crate::Framer) copies beyond what the codec asked for. A codec that
/// searches asks for one byte at a time, and bytes behind the end that it finds were copied for
/// nothing.
pub(crate) const READ_AHEAD_MAX: usize = 4 << 10;

/// Most requests that a matcher keeps in flight, whatever its caller asks for: 2^20. The id table
/// then has at most 2^21 entries, so that a 32-bit id is reused only after billions of requests.
pub(crate) const IN_FLIGHT_MAX: usize = 1 << 20;

/// Size of the smallest id table of a matcher; a connection rarely has more requests in flight.
pub(crate) const ID_TABLE_MIN: usize = 16;

/// Deadlines of finished requests that may stay in the heap, in addition to one per live request,
/// before they are removed. Spreads the cost of removal over at least as many requests.
pub(crate) const STALE_DEADLINES: usize = 32;

// The native protocol: limits that the specification fixes.

/// Longest reason of a GOAWAY or RST, in bytes: a sentence for a log line, too short for a peer to
/// store data with us.
pub(crate) const NATIVE_REASON_MAX: usize = 1 << 10;

/// Longest body of a SETTINGS frame in bytes: 64 settings. There are ten; the others leave room for
/// later versions, whose settings are skipped.
pub(crate) const NATIVE_SETTINGS_LEN_MAX: usize = 64 * 6;

/// Smallest initial credit in bytes, so that a body of up to 64 KiB never waits for CREDIT.
pub(crate) const NATIVE_INITIAL_CREDIT_MIN: u32 = 64 << 10;

/// Largest credit of a stream in bytes: 2^31 − 1, so that sums fit 32 bits.
pub(crate) const NATIVE_CREDIT_MAX: u32 = i32::MAX as u32;

/// Number of streams before SETTINGS, which a server must be able to address even if it accepts
/// fewer, because a client need not wait for its settings.
pub(crate) const NATIVE_STREAMS_DEFAULT: u32 = 128;

/// Number of method numbers before SETTINGS, which a server always supports: each one in use takes
/// some 30 bytes.
pub(crate) const NATIVE_METHODS_DEFAULT: u32 = 4096;

/// Most memory, in bytes, that incomplete messages of a connection may take: 64 MiB, or one message
/// if longer ones are accepted. Each stream may be within its limits while a thousand of them would
/// exhaust a server.
pub(crate) const NATIVE_ASSEMBLY_MAX: usize = 64 << 20;

/// Memory of a request that waits for its message, its metadata included: what it may take beside the longest message
/// that is accepted.
pub(crate) const NATIVE_REQUEST_HEAD_MAX: usize = 64 << 10;

/// Largest payload of a frame in bytes before SETTINGS, which cannot lower it.
pub(crate) const NATIVE_PAYLOAD_DEFAULT: u32 = 64 << 10;

/// Largest payload of a frame in bytes after SETTINGS: a longer one would hold up the other streams
/// of its connection for a millisecond even at 2 Gbit/s.
pub(crate) const NATIVE_PAYLOAD_MAX: u32 = 256 << 10;

// The native protocol: limits that our ends choose.

/// Default number of streams that a peer may have open: 1,024 calls in flight keep any connection
/// busy, and their table takes 32 KiB. Each call with more than one frame in a direction takes half
/// a KiB more.
pub(crate) const NATIVE_STREAMS: u32 = 1 << 10;

/// Default window of a stream in bytes: 1 MiB, so that 1 GiB/s flows over a path with a round trip
/// of one millisecond.
pub(crate) const NATIVE_INITIAL_CREDIT: u32 = 1 << 20;

/// Most credit that is collected before it is returned, in bytes: half the window above. More would
/// only make large windows less useful.
pub(crate) const NATIVE_CREDIT_STEP_MAX: u32 = NATIVE_INITIAL_CREDIT / 2;

/// Default limit in bytes for the growth of a stream's window: 16 MiB, so that 1 Gbit/s flows over
/// a path of 100 ms. Kernels do not buffer more for one connection.
pub(crate) const NATIVE_WINDOW_MAX: u32 = 16 << 20;

/// Bytes by which all windows of a connection together may grow: four windows at the limit, or
/// sixty-four doubled once.
pub(crate) const NATIVE_GROWN_MAX: usize = 64 << 20;

/// Number of streams that one PING measures; others wait for the next. Each takes 40 bytes, and few
/// streams fill their windows.
pub(crate) const NATIVE_MEASURED_MAX: usize = 8;

/// Time between measuring PINGs: ten a second cost nothing, are a sixth of what our peers accept, and
/// let a window reach its limit within half a second if round trips are short.
pub(crate) const NATIVE_MEASURE_PAUSE: Duration = Duration::from_millis(100);

/// Rate of a stream, in bytes per second, above which its window does not grow: 1 GiB, about what a
/// core can process. So windows of 1 MiB stay as they are if round trips take less than 1 ms.
pub(crate) const NATIVE_RATE_ENOUGH: u128 = 1 << 30;

/// Time between measuring PINGs if windows are large enough for that rate, in case the path becomes
/// longer.
pub(crate) const NATIVE_REMEASURE_PAUSE: Duration = Duration::from_secs(10);

/// Smallest credit that a frame with a part of a message costs, in bytes. Otherwise empty messages
/// would be free and a peer could fill our memory with them; the record of one takes 16 bytes.
pub(crate) const NATIVE_COST_MIN: u32 = 16;

/// A PING is sent after 30 s without input, and the connection fails 10 s later: within a minute,
/// after which people would look for a fault.
pub(crate) const NATIVE_PING_AFTER: Duration = Duration::from_secs(30);

/// Shortest time without input before a PING, whatever the configuration says: 20 ms. Fifty PINGs a
/// second, and those that measure windows, are fewer than our peers accept.
pub(crate) const PING_AFTER_MIN: Duration = Duration::from_millis(20);

/// Time to answer a PING; see [`NATIVE_PING_AFTER`].
pub(crate) const NATIVE_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Time to answer an RST: a cancelled call that stays unanswered keeps its slot forever, so the
/// connection fails after 30 s.
pub(crate) const NATIVE_RESET_TIMEOUT: Duration = Duration::from_secs(30);

/// Time without progress of an incomplete request or an unread reply, which take up memory and a
/// slot: 5 min. When a hundred streams share a line of 1 Mbit/s, each has its turn within one
/// minute.
pub(crate) const NATIVE_STALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Time that a byte of such a request or reply may take, all together: 10 bytes a second. Common clients give
/// credit by 4 KiB, so those of them that make progress within the time above are faster.
pub(crate) const BYTE_TIME: Duration = Duration::from_millis(100);

/// Time for the peer's preface and SETTINGS, two frames that are sent at once: 3 s is three lost
/// packets.
pub(crate) const NATIVE_PREFACE_TIMEOUT: Duration = Duration::from_secs(3);

/// Smallest buffer for a frame that arrives in pieces, in bytes, so that the frame need not move
/// when its length is known.
pub(crate) const NATIVE_FRAME_LEAST: usize = 512;

/// Size in bytes of a reused buffer for large messages: the largest frame before SETTINGS, with its
/// header and a page of metadata.
pub(crate) const NATIVE_SPARE_BYTES: usize = NATIVE_PAYLOAD_DEFAULT as usize + (4 << 10);

/// Largest frame buffer, in bytes, that a connection keeps for the next frame: 16 KiB, with which
/// most messages need no allocation, and idle connections hold little.
pub(crate) const NATIVE_REUSED_MAX: usize = 16 << 10;

/// Shortest message, in bytes, that is put into a reused buffer: half its size, so that a message
/// that is kept holds at most twice its length.
pub(crate) const NATIVE_SPARE_LEN_MIN: usize = NATIVE_SPARE_BYTES / 2;

/// Number of reused buffers that a thread keeps, 1 MiB in total: as much as stays in a second-level
/// cache, and what one turn of a core gives back.
pub(crate) const NATIVE_SPARES_MAX: usize = 15;

/// Smallest buffer for a message that arrives in fragments, in bytes. Otherwise its memory is at
/// most twice what has arrived: an announced length reserves nothing.
pub(crate) const NATIVE_MESSAGE_LEAST: usize = 256;

/// Longest message, in bytes, that is never fragmented, is written at once and goes before
/// fragments: a page, which takes 3 µs at 10 Gbit/s.
pub(crate) const NATIVE_SMALL_MAX: usize = 4 << 10;

/// Longest body, in bytes, that is written at once although it is not small: one frame before
/// SETTINGS. Small messages behind it wait as long as for a fragment.
pub(crate) const NATIVE_DIRECT_MAX: usize = 64 << 10;

/// Number of small messages after which a fragment is sent, so that long messages always make
/// progress.
pub(crate) const NATIVE_SMALL_TURN: usize = 16;

/// Shortest fragment, in bytes, that is cut for lack of credit or budget: below it headers and
/// system calls cost more than the payload.
pub(crate) const NATIVE_FRAGMENT_MIN: usize = 4 << 10;

/// Unsent written bytes above which messages are queued by their streams, where credit and
/// [`UNSENT_MARK`] limit them.
pub(crate) const NATIVE_WRITTEN_MARK: usize = 64 << 10;

/// Unsent bytes of one stream above which its writer should wait: 64 KiB. It is told to go on when
/// half of them have left.
pub const UNSENT_MARK: usize = 64 << 10;

/// Unsent bytes of all streams of a connection above which a writer should wait if its own stream
/// has any: 4 MiB, which is 64 KiB for each of sixty-four streams, while a peer that reads nothing
/// may have a thousand.
pub(crate) const NATIVE_QUEUED_MARK: usize = 4 << 20;

/// Memory of a stream, in bytes, from which it is ranked among the largest, and by which its rank
/// changes. Otherwise every message of a reader that keeps up would change the ranks.
pub(crate) const NATIVE_RANKED_MIN: usize = 4 << 10;

/// Queued bytes by which a stream's rank changes: a quarter of [`UNSENT_MARK`].
pub(crate) const NATIVE_RANKED_STEP: usize = UNSENT_MARK / 4;

/// Capacity in bytes of the output buffer that a connection keeps after a burst.
pub(crate) const NATIVE_OUTPUT_KEPT: usize = 256 << 10;

/// Memory, in bytes, that tables take for a stream beside its own: the tables of calls, streams,
/// ranks and deadlines, each of which may be half empty.
pub(crate) const NATIVE_STREAM_TABLES: usize = 160;

/// Capacity in bytes of a stream's buffer of small messages that is kept for the next stream.
pub(crate) const NATIVE_STREAM_KEPT: usize = 16 << 10;

/// Capacity of a stream's list of unread messages that is kept for the next stream.
pub(crate) const NATIVE_COSTS_KEPT: usize = 1 << 10;

/// Capacity of a stream's queue that is kept for the next stream; each run of small messages is one
/// entry.
pub(crate) const NATIVE_ITEMS_KEPT: usize = 8;

/// Memory, in bytes, of finished streams that a connection keeps for new ones: a thousand with
/// small buffers, or some fifty with the largest. Callers count it, and can free it.
pub(crate) const NATIVE_STREAMS_KEPT: usize = 1 << 20;

/// Unsent frames that a peer may cause (ACKs, refusals, answers to RST) without reading them:
/// 16,384, at 16 to 80 bytes each about a megabyte. A normal peer has a thousand calls in flight.
pub(crate) const NATIVE_ANSWERS_MAX: usize = 16 << 10;

/// Rate limit for a peer's PINGs: keepalive and window measurements send a few a second.
pub(crate) const NATIVE_PING_RATE: Rate = Rate { burst: 256, per_second: 64 };

/// Rate limit for a peer's SETTINGS: one at the start, then one when its memory becomes short or
/// recovers.
pub(crate) const NATIVE_SETTINGS_RATE: Rate = Rate { burst: 16, per_second: 4 };

/// Rate limit for calls that a peer cancels in the moment it opens them; two requests add one. Such
/// calls cost us work and the peer none (CVE-2023-44487). Cancelling calls that have run for a
/// while is free, since it is normal and often happens to many at once.
pub(crate) const NATIVE_RESET_RATE: Rate = Rate { burst: 4096, per_second: 1024 };

/// Rate limit for requests that are refused because of such calls. A client whose calls time out
/// while the server is too slow to read them makes some ten thousand a second, and should be
/// refused, not cut off; above that it is an attack.
pub(crate) const NATIVE_REFUSED_RATE: Rate = Rate { burst: 16 << 10, per_second: 16 << 10 };

/// Rate limit for a peer's frames without content; each request adds two. These are GOAWAY, LEASE,
/// answers to PING, CREDIT of a few bytes, empty DATA and skipped frames. Leases change with each
/// stream that starts or ends; of the others a few a second are normal.
pub(crate) const NATIVE_IDLE_RATE: Rate = Rate { burst: 16 << 10, per_second: 16 << 10 };

/// Smallest CREDIT that is worth its frame, in bytes: a fraction of what every peer collects, which
/// is half of the smallest window.
pub(crate) const NATIVE_CREDIT_WORTH: u32 = 4 << 10;

// HTTP/2: limits that our ends choose. They equal those of the native protocol where both have
// the same question.

/// Default number of streams that a client may have open.
pub(crate) const HTTP2_STREAMS: u32 = NATIVE_STREAMS;

/// Number of streams that a client opens before it knows the server's setting: RFC 9113 asks
/// servers to allow at least that many (section 6.5.2).
pub(crate) const HTTP2_STREAMS_DEFAULT: u32 = 100;

/// Most streams that a client has open, whatever the server allows: many servers set no limit. A
/// cancelled stream counts until its RST_STREAM is sent, of which few are a second, so a client whose
/// calls a server never answers would otherwise keep more and more of them. 64 Ki streams take some
/// 30 MB, and callers with more calls open further connections.
pub(crate) const HTTP2_OWN_STREAMS_MAX: u32 = 1 << 16;

/// Default window of a stream in bytes.
pub(crate) const HTTP2_INITIAL_WINDOW: u32 = NATIVE_INITIAL_CREDIT;

/// Default limit in bytes for the growth of a stream's window.
pub(crate) const HTTP2_WINDOW_MAX: u32 = NATIVE_WINDOW_MAX;

/// Bytes by which all windows of a connection together may grow.
pub(crate) const HTTP2_GROWN_MAX: u32 = NATIVE_GROWN_MAX as u32;

/// Time between measuring PINGs.
pub(crate) const HTTP2_MEASURE_PAUSE: Duration = NATIVE_MEASURE_PAUSE;

/// Number of streams that one PING measures.
pub(crate) const HTTP2_MEASURED_MAX: usize = NATIVE_MEASURED_MAX;

/// Rate of a stream, in bytes per second, above which its window does not grow.
pub(crate) const HTTP2_RATE_ENOUGH: u128 = NATIVE_RATE_ENOUGH;

/// Window of a connection: 64 MiB. Its credit returns as bytes arrive, so it bounds only bytes in
/// flight; the windows of streams bound memory.
pub(crate) const HTTP2_CONNECTION_WINDOW: u32 = 64 << 20;

/// Default size of a message's header list, with 32 bytes added for each field: 16 KiB, as gRPC
/// suggests and the native protocol has it.
pub(crate) const HTTP2_HEADER_LIST: u32 = 16 << 10;

/// Longest field block in bytes before it is decoded: four times the fields that are kept, since a
/// sender may not know that limit yet. A longer block cannot be a message.
pub(crate) const HTTP2_BLOCK_MAX: usize = 64 << 10;

/// Most frames of a field block: the longest block in frames of 1 KiB. One byte per frame would be
/// endless work (CVE-2024-27316).
pub(crate) const HTTP2_BLOCK_FRAMES_MAX: u32 = 64;

/// Time for the rest of a field block, which is sent at once: 10 s are several lost packets.
pub(crate) const HTTP2_BLOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for the ACK of SETTINGS, which may wait behind much data: 30 s.
pub(crate) const HTTP2_SETTINGS_TIMEOUT: Duration = Duration::from_secs(30);

/// Time without input after which a PING is sent; see [`NATIVE_PING_AFTER`].
pub(crate) const HTTP2_PING_AFTER: Duration = NATIVE_PING_AFTER;

/// Time without input after which a client with open streams sends a PING: gRPC servers forbid more
/// than one in five minutes.
pub(crate) const HTTP2_CLIENT_PING_AFTER: Duration = Duration::from_secs(310);

/// Time to answer a PING; see [`NATIVE_PING_TIMEOUT`].
pub(crate) const HTTP2_PING_TIMEOUT: Duration = NATIVE_PING_TIMEOUT;

/// Time for the peer's preface and SETTINGS; see [`NATIVE_PREFACE_TIMEOUT`].
pub(crate) const HTTP2_HANDSHAKE_TIMEOUT: Duration = NATIVE_PREFACE_TIMEOUT;

/// Time without progress of a stream's output; see [`NATIVE_STALL_TIMEOUT`].
pub(crate) const HTTP2_STALL_TIMEOUT: Duration = NATIVE_STALL_TIMEOUT;

/// Number of streams that this end reset and whose late frames are recognised: more than can be
/// open, since all may be reset at once, in 4 KiB. Frames of older ones are tolerated as well.
pub(crate) const HTTP2_RESETS_REMEMBERED: usize = 1 << 10;

/// Unsent frames that a peer may cause without reading them; see [`NATIVE_ANSWERS_MAX`].
pub(crate) const HTTP2_ANSWERS_MAX: usize = NATIVE_ANSWERS_MAX;

/// Rate limit for a peer's PINGs beside those that requests and DATA frames allow.
pub(crate) const HTTP2_PING_RATE: Rate = Rate { burst: 512, per_second: 128 };

/// Rate limit for a peer's SETTINGS, each of which may change the windows of all streams.
pub(crate) const HTTP2_SETTINGS_RATE: Rate = NATIVE_SETTINGS_RATE;

/// Rate limit for streams that a peer resets in the turn in which they arrive, or makes us reset;
/// each completed stream adds one. Such streams cost us work and the peer none (CVE-2023-44487,
/// CVE-2025-8671). A reset one turn later or at any time after that is free: nothing tells it from
/// a call that was given up, and the limit of open streams bounds how many of those there are. Such a
/// call costs about twice one that is answered, so a client gains little over ordinary calls.
pub(crate) const HTTP2_RESET_RATE: Rate = NATIVE_RESET_RATE;

/// Rate limit for streams that our clients reset; each completed stream adds one. Servers that
/// count resets close the connection after 500 (Envoy, for streams that end early) or after 1,000
/// and then 33 a second (nghttp2); ours allow more.
pub(crate) const HTTP2_OWN_RESET_RATE: Rate = Rate { burst: 500, per_second: 100 };

/// Rate limit for a peer's frames without content; each request and each DATA frame adds two. Small
/// DATA frames on streams that this end has reset count only beyond the windows that those streams
/// had: an honest peer sends on for a round trip.
pub(crate) const HTTP2_IDLE_RATE: Rate = NATIVE_IDLE_RATE;

/// Smallest WINDOW_UPDATE that is worth its frame, in bytes.
pub(crate) const HTTP2_UPDATE_WORTH: u32 = NATIVE_CREDIT_WORTH;

/// Largest DATA frame that this end sends, in bytes, whatever the peer accepts, so that streams
/// take turns: 64 KiB and the little that a message of 64 KiB has around it, so that such a message
/// is one frame.
pub(crate) const HTTP2_DATA_MAX: u32 = 65 << 10;

/// Default size, in bytes, of the largest frame that is accepted: as large as those that our own
/// ends send. DATA and frames of unknown types are not buffered whole, so they cost no memory; the
/// others are bounded by this size whatever is configured, and field blocks by [`HTTP2_BLOCK_MAX`].
pub(crate) const HTTP2_FRAME_MAX: u32 = HTTP2_DATA_MAX;

/// Longest payload, in bytes, that is copied behind its header; longer ones are sent from the
/// caller's memory.
pub(crate) const HTTP2_SMALL_MAX: usize = NATIVE_SMALL_MAX;

/// Number of messages that are written at once ahead of queued streams, before further ones are
/// queued as well.
pub(crate) const HTTP2_SMALL_TURN: u32 = NATIVE_SMALL_TURN as u32;

/// Unsent written bytes above which DATA is queued by streams.
pub(crate) const HTTP2_WRITTEN_MARK: usize = NATIVE_WRITTEN_MARK;

/// Unsent bytes of all streams above which a writer should wait if its own stream has any.
pub(crate) const HTTP2_QUEUED_MARK: usize = NATIVE_QUEUED_MARK;

/// Capacity in bytes of the output buffer that a connection keeps after a burst.
pub(crate) const HTTP2_OUTPUT_KEPT: usize = NATIVE_OUTPUT_KEPT;

/// Memory of a stream that has something queued, beside the bytes of it: its slot, the list of its queue, and what the
/// buffers of a few bytes take more. A peer whose windows are closed has a thousand of them wait at no cost of its own.
pub(crate) const HTTP2_QUEUED_COST: usize = 512;

/// Capacity of a stream's queue that is kept for the next stream.
pub(crate) const HTTP2_CHUNKS_KEPT: usize = NATIVE_ITEMS_KEPT;

/// Capacity in bytes of a stream's buffer that is kept for the next stream.
pub(crate) const HTTP2_SMALL_KEPT: usize = 1 << 10;

/// Capacity in bytes of a buffer for incomplete frames and blocks that a connection keeps.
pub(crate) const HTTP2_PARTIAL_KEPT: usize = 4 << 10;

/// Longest reason of a GOAWAY that is reported, in bytes.
pub(crate) const HTTP2_REASON_MAX: usize = NATIVE_REASON_MAX;

/// Smallest cost of an unread gRPC message in bytes: the memory of its record here and at its
/// reader, in lists that grow by doubling.
pub(crate) const GRPC_COST_MIN: usize = 24;

/// Capacity of a call's list of unread messages that is kept for the next call: half a KiB for each
/// slot of a connection.
pub(crate) const GRPC_SPARE_COSTS: usize = 64;

/// Bytes of fields, 32 more for each, to which a status message is shortened for a client that has not said how much it
/// accepts: 8 KiB, which gRPC suggests.
pub(crate) const GRPC_FIELDS_MAX: usize = 8 << 10;

/// What clients say that they accept without taking it all: C's gRPC, which is that of Python and others, announces 16 KiB
/// and refuses some answers of more than 8 KiB.
pub(crate) const GRPC_FIELDS_DOUBTED: u32 = 16 << 10;

/// Smallest buffer for a gRPC message that arrives in pieces, in bytes.
pub(crate) const GRPC_MESSAGE_LEAST: usize = NATIVE_MESSAGE_LEAST;

/// Number of bytes of a gzip message that are decompressed at a time: two pages, on the stack.
#[cfg(feature = "compression")]
pub(crate) const GRPC_INFLATE_CHUNK: usize = 8 << 10;

/// Unread bytes of a connection above which no more messages are decompressed for it: a few bytes
/// may become a thousand times as many, for which their sender needs no credit. 64 MiB, as for
/// incomplete messages.
pub(crate) const GRPC_INFLATED_MAX: usize = NATIVE_ASSEMBLY_MAX;

/// The level of zstd: fast, because calls wait for it, but not one of those that hardly compress.
#[cfg(feature = "compression")]
pub(crate) const GRPC_ZSTD_LEVEL: i32 = 1;

/// Time that a client has to acknowledge a drain, after which it is assumed to know: several round
/// trips of the slowest networks, as long as other implementations wait.
pub(crate) const DRAIN_KNOWN: Duration = Duration::from_secs(5);

/// Most levels of arrays and objects inside of a member of a JSON-RPC message: far more than anybody means,
/// and fewer than the 127 at which `serde_json` refuses to decode.
pub(crate) const JSONRPC_DEPTH_MAX: u32 = 100;

/// Messages that a JSON-RPC batch has at most unless told otherwise: each may be two bytes, and its reply is
/// forty times as long.
pub const JSONRPC_BATCH_MAX_DEFAULT: usize = 1000;

/// Bytes below which a message of a WebSocket is not compressed: what a block's head and the tables' reset cost
/// exceeds what so few bytes can save.
#[cfg(feature = "compression")]
pub(crate) const WEBSOCKET_DEFLATE_MIN: usize = 64;

/// Final blocks that each compressed message may have, and how many bytes allow one more. Behind each the decompressor
/// begins anew: a message of nothing else would cost many times what its bytes do.
#[cfg(feature = "compression")]
pub(crate) const WEBSOCKET_FINAL_BLOCKS: usize = 16;
#[cfg(feature = "compression")]
pub(crate) const WEBSOCKET_FINAL_BLOCK_BYTES: usize = 1 << 10;

/// Bytes that a decompressed message grows by at first, and at least.
#[cfg(feature = "compression")]
pub(crate) const WEBSOCKET_INFLATE_CHUNK: usize = 1 << 10;

/// Bytes after which other tasks run before more of a message is decompressed: about a millisecond of work, in which most
/// messages are whole.
#[cfg(feature = "compression")]
pub(crate) const WEBSOCKET_INFLATE_STEP: usize = 1 << 20;

/// What a byte that is taken counts among them, beside those that are made of it: a block whose tables are all that it has
/// takes eleven bytes, and a microsecond.
#[cfg(feature = "compression")]
pub(crate) const WEBSOCKET_TAKEN_WORK: usize = 64;

/// Payload of a WebSocket control frame (RFC 6455 section 5.5).
pub(crate) const WEBSOCKET_CONTROL_MAX: usize = 125;

/// Memory in bytes that may be reserved because the head of a WebSocket frame announces as much; above it,
/// memory grows with what has come.
pub(crate) const WEBSOCKET_MESSAGE_EAGER: usize = ACCUMULATOR_EAGER;

/// Memory of a field of a request that is no call of gRPC, beside its bytes: its entry in a table of fields, and the
/// allocation of its value.
pub(crate) const GUEST_FIELD_COST: usize = 128;
