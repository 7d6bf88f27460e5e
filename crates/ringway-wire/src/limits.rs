//! Every bound of this crate, with its reason.

use std::time::Duration;

use crate::rates::Rate;

/// Longest frame that a length-field codec lets through unless told otherwise, in bytes: 16 MiB.
///
/// Large enough for any message a service should send in one piece, small enough that one peer
/// cannot take a noticeable share of a server's memory.
pub const FRAME_LEN_MAX_DEFAULT: usize = 16 << 20;

/// Bytes of the longest varint length field. Five groups of seven bits hold every 32-bit length;
/// a longer field could only announce frames of 32 GiB and more.
pub(crate) const VARINT_LEN_MAX: usize = 5;

/// Bytes of accumulator that an empty [`Framer`](crate::Framer) may keep. Frames up to this size
/// straddle two slices without an allocation each; larger ones give their memory back.
pub(crate) const ACCUMULATOR_KEPT: usize = 4 << 10;

/// Bytes of accumulator that may be reserved because a peer *announced* a long frame. Above it,
/// memory follows the bytes that really arrived, so that a five-byte message cannot reserve 16 MiB.
pub(crate) const ACCUMULATOR_EAGER: usize = 16 << 10;

/// Bytes that a [`Framer`](crate::Framer) copies at least to a straddling frame, needed or not, in
/// the hope of ending it in one step. Most short frames fit in a cache line.
pub(crate) const READ_AHEAD_MIN: usize = 64;

/// Bytes that it copies at most beyond what the codec asked for. A codec that searches asks for
/// one byte at a time; what is copied behind the end it finds is copied in vain.
pub(crate) const READ_AHEAD_MAX: usize = 4 << 10;

/// Most requests that a matcher keeps in flight, whatever it was asked for: 2^20. The id table is
/// then at most 2^21 entries, so that a 32-bit id comes round only after billions of requests.
pub(crate) const IN_FLIGHT_MAX: usize = 1 << 20;

/// Entries of the smallest id table of a matcher; a connection rarely has more in flight.
pub(crate) const ID_TABLE_MIN: usize = 16;

/// Deadlines of finished requests that may wait in the heap in addition to one per live request,
/// before they are swept out. Spreads the sweep over at least as many requests.
pub(crate) const STALE_DEADLINES: usize = 32;

// The native protocol: what the specification fixes.

/// Longest reason of a GOAWAY or RST, in bytes: a sentence for a log line, and nothing that a peer
/// could use to store data with us.
pub(crate) const NATIVE_REASON_MAX: usize = 1 << 10;

/// Longest body of a SETTINGS, in bytes: 64 settings. There are ten; the others leave room for
/// later versions, whose settings are skipped.
pub(crate) const NATIVE_SETTINGS_LEN_MAX: usize = 64 * 6;

/// Least initial credit, in bytes, so that a body up to 64 KiB never waits for CREDIT.
pub(crate) const NATIVE_INITIAL_CREDIT_MIN: u32 = 64 << 10;

/// Most credit that a stream may hold, in bytes: 2^31 − 1, so that sums fit 32 bits.
pub(crate) const NATIVE_CREDIT_MAX: u32 = i32::MAX as u32;

/// Streams at a time before SETTINGS, which a server must be able to tell apart even if it takes
/// fewer: a client need not wait for its settings.
pub(crate) const NATIVE_STREAMS_DEFAULT: u32 = 128;

/// Method numbers before SETTINGS, and those that a server always keeps: some 30 bytes for each that
/// was named.
pub(crate) const NATIVE_METHODS_DEFAULT: u32 = 4096;

/// Bytes of memory for messages that are not whole which a connection may make us keep: 64 MiB, or
/// one message where longer ones are taken. Each stream by itself may be within its bounds, and a
/// thousand of them still exhaust a server.
pub(crate) const NATIVE_ASSEMBLY_MAX: usize = 64 << 20;

/// Most message bytes in a frame before SETTINGS, which cannot lower it.
pub(crate) const NATIVE_PAYLOAD_DEFAULT: u32 = 64 << 10;

/// Most message bytes in a frame after SETTINGS: a longer one would hold up the other streams of
/// its connection for a millisecond even at 2 Gbit/s.
pub(crate) const NATIVE_PAYLOAD_MAX: u32 = 256 << 10;

// The native protocol: what an endpoint of ours chooses.

/// Streams that a peer may have open at a time unless told otherwise: 1,024 calls in flight keep
/// any connection busy, and their table takes 32 KiB. Each that is more than one frame in a direction
/// takes half a KiB besides.
pub(crate) const NATIVE_STREAMS: u32 = 1 << 10;

/// Bytes that a stream may bring before CREDIT goes back, unless told otherwise: 1 MiB, so that
/// 1 GiB/s flows over a path of one millisecond.
pub(crate) const NATIVE_INITIAL_CREDIT: u32 = 1 << 20;

/// Most credit that is collected before it is returned: half of the window above. More would only
/// make large windows less useful.
pub(crate) const NATIVE_CREDIT_STEP_MAX: u32 = NATIVE_INITIAL_CREDIT / 2;

/// Bytes to which the window of a stream grows, unless told otherwise: 16 MiB, so that 1 Gbit/s
/// flows over a path of 100 ms. More is beyond what kernels buffer for one connection.
pub(crate) const NATIVE_WINDOW_MAX: u32 = 16 << 20;

/// Bytes by which all windows of a connection together may have grown: four that are as large as
/// they can be, or all of sixty-four streams once doubled.
pub(crate) const NATIVE_GROWN_MAX: usize = 64 << 20;

/// Streams that are measured by one PING; others are by the next ones. Each takes 40 bytes,
/// and streams that fill their windows are few.
pub(crate) const NATIVE_MEASURED_MAX: usize = 8;

/// Time between PINGs that measure: ten a second cost nothing, are a sixth of what a peer of ours
/// bears, and enlarge a window to its most within half a second where round trips are short.
pub(crate) const NATIVE_MEASURE_PAUSE: Duration = Duration::from_millis(100);

/// Bytes a second of one stream above which its window is not enlarged: 1 GiB, about what a core
/// makes use of. So windows of 1 MiB stay as they are where round trips take less than 1 ms.
pub(crate) const NATIVE_RATE_ENOUGH: u128 = 1 << 30;

/// Time between PINGs where windows are large enough for that, in case the path becomes longer.
pub(crate) const NATIVE_REMEASURE_PAUSE: Duration = Duration::from_secs(10);

/// Bytes of credit that a frame with a part of a message uses up at least. Messages of no bytes
/// would be free without it, and a peer could fill our memory with them; 16 is what remembering
/// one takes.
pub(crate) const NATIVE_COST_MIN: u32 = 16;

/// An idle connection is probed after 30 s, and given up 10 s later: within the minute after which
/// people look for a fault.
pub(crate) const NATIVE_PING_AFTER: Duration = Duration::from_secs(30);

/// See [`NATIVE_PING_AFTER`].
pub(crate) const NATIVE_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// A cancelled call that stays unanswered so long keeps a slot busy for ever: 30 s.
pub(crate) const NATIVE_RESET_TIMEOUT: Duration = Duration::from_secs(30);

/// A request that does not become whole, and a reply that the client takes no more of, take up memory
/// and a slot: 5 min without a byte. Where a hundred streams take turns on a line of 1 Mbit/s, each has
/// its turn within one.
pub(crate) const NATIVE_STALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Preface and SETTINGS are two frames that a peer sends at once: 3 s is three lost packets.
pub(crate) const NATIVE_PREFACE_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes reserved at least for a frame that came in pieces, so that learning its length does not
/// move what is there.
pub(crate) const NATIVE_FRAME_LEAST: usize = 512;

/// Bytes of a buffer for large messages that is used again: the largest frame before SETTINGS, with
/// its header and a page of metadata.
pub(crate) const NATIVE_SPARE_BYTES: usize = NATIVE_PAYLOAD_DEFAULT as usize + (4 << 10);

/// Bytes of memory up to which a connection keeps what a frame came in, to use it again when the frame
/// is read: 16 KiB, with which most messages cost no allocation, and an idle connection little.
pub(crate) const NATIVE_REUSED_MAX: usize = 16 << 10;

/// Shortest message, in bytes, that is put into such a buffer: half of it, so that a message which
/// is kept holds at most twice its memory.
pub(crate) const NATIVE_SPARE_LEN_MIN: usize = NATIVE_SPARE_BYTES / 2;

/// Such buffers that a thread keeps unused, 1 MiB: as much as stays in a second-level cache, and
/// what one turn of a core gives back.
pub(crate) const NATIVE_SPARES_MAX: usize = 15;

/// Bytes reserved at least for a message that comes in fragments. Otherwise memory follows the bytes
/// that came, by a factor of two at most: an announcement reserves nothing.
pub(crate) const NATIVE_MESSAGE_LEAST: usize = 256;

/// Longest message, in bytes, that is never cut, is written at once and goes before fragments: a
/// page, which takes 3 µs at 10 Gbit/s.
pub(crate) const NATIVE_SMALL_MAX: usize = 4 << 10;

/// Longest body, in bytes, that is written at once although it is not small: one frame before
/// SETTINGS. Small messages behind it wait as they would for a fragment.
pub(crate) const NATIVE_DIRECT_MAX: usize = 64 << 10;

/// Small messages after which a fragment is let through, so that long messages always advance.
pub(crate) const NATIVE_SMALL_TURN: usize = 16;

/// Shortest fragment, in bytes, that is cut for want of credit or of room: below it headers and
/// system calls cost more than the bytes.
pub(crate) const NATIVE_FRAGMENT_MIN: usize = 4 << 10;

/// Bytes written and not sent above which messages of streams wait in queues of their own, where
/// credit and [`UNSENT_MARK`] hold them back.
pub(crate) const NATIVE_WRITTEN_MARK: usize = 64 << 10;

/// Bytes of one stream that wait for credit or for the socket and above which its writer should
/// wait: 64 KiB. It is told that there is room when half of them have gone.
pub const UNSENT_MARK: usize = 64 << 10;

/// Bytes of all streams of a connection that wait to be sent and above which each writer should wait
/// as soon as anything of its own stream waits: 4 MiB are sixty-four streams with as much as above,
/// and a peer that reads nothing may have a thousand.
pub(crate) const NATIVE_QUEUED_MARK: usize = 4 << 20;

/// Bytes that a stream keeps from which on it is counted among those that may keep most, and by which it is
/// ranked anew. Otherwise each message of a reader that keeps up would be counted in and out.
pub(crate) const NATIVE_RANKED_MIN: usize = 4 << 10;

/// Bytes of its queue by which a stream is ranked anew: a quarter of what makes its writer wait.
pub(crate) const NATIVE_RANKED_STEP: usize = UNSENT_MARK / 4;

/// Bytes of output buffer that a connection keeps after a burst.
pub(crate) const NATIVE_OUTPUT_KEPT: usize = 256 << 10;

/// Bytes that tables have for a stream, besides its own: in those of calls, of places, of ranks and of
/// deadlines, each of which may be half empty.
pub(crate) const NATIVE_STREAM_TABLES: usize = 160;

/// Bytes of a stream's buffer of small messages that outlive it.
pub(crate) const NATIVE_STREAM_KEPT: usize = 16 << 10;

/// Entries of a stream's list of unread messages that outlive it.
pub(crate) const NATIVE_COSTS_KEPT: usize = 1 << 10;

/// Entries of a stream's queue that outlive it: runs of small messages are one each.
pub(crate) const NATIVE_ITEMS_KEPT: usize = 8;

/// Bytes of streams and of such buffers that a connection keeps for streams to come: a thousand streams
/// with small ones, or the largest of some fifty. Callers count them, and can have them given back.
pub(crate) const NATIVE_STREAMS_KEPT: usize = 1 << 20;

/// Frames of ours that a peer may have caused (ACKs, refusals, answers to RST) without reading
/// them: 16,384, at 16 to 80 bytes each a megabyte. A sane peer has a thousand calls in flight.
pub(crate) const NATIVE_ANSWERS_MAX: usize = 16 << 10;

/// PINGs of a peer: keepalive and the measuring of delays take a few a second.
pub(crate) const NATIVE_PING_RATE: Rate = Rate { burst: 256, per_second: 64 };

/// SETTINGS of a peer: one at the start, then when its memory runs short or recovers.
pub(crate) const NATIVE_SETTINGS_RATE: Rate = Rate { burst: 16, per_second: 4 };

/// Calls that a peer gives up at the moment at which it opens them, besides one for every two
/// requests: what is opened only to be cancelled is work for us and none for it (CVE-2023-44487).
/// Others cost nothing: who gives up a call that has run for a while is ordinary, and often not alone.
pub(crate) const NATIVE_RESET_RATE: Rate = Rate { burst: 4096, per_second: 1024 };

/// Requests that are refused because of such calls. A client whose calls run into their deadlines while
/// the server is too slow to read them makes some ten thousand a second, and is to be refused, not cut
/// off; above that it is an attack.
pub(crate) const NATIVE_REFUSED_RATE: Rate = Rate { burst: 16 << 10, per_second: 16 << 10 };

/// Frames of a peer that ask for nothing and bring next to nothing, besides two for each request:
/// GOAWAY, LEASE, answers to PING, CREDIT of a few bytes, empty DATA, frames that are skipped. Leases
/// change with each stream that begins or ends; of the others there are a few in a second.
pub(crate) const NATIVE_IDLE_RATE: Rate = Rate { burst: 16 << 10, per_second: 16 << 10 };

/// Bytes from which on a CREDIT is worth its frame: a small part of what every peer collects at least,
/// which is half of the smallest window.
pub(crate) const NATIVE_CREDIT_WORTH: u32 = 4 << 10;

// HTTP/2: what an endpoint of ours chooses. Where the native protocol has the same question, it
// has the same answer.

/// Streams that a client may have open at a time unless told otherwise.
pub(crate) const HTTP2_STREAMS: u32 = NATIVE_STREAMS;

/// Streams that a client opens at a time before it knows the server's setting: what RFC 9113 asks
/// each server to allow (section 6.5.2).
pub(crate) const HTTP2_STREAMS_DEFAULT: u32 = 100;

/// Bytes that a stream may bring before the reader has taken some.
pub(crate) const HTTP2_INITIAL_WINDOW: u32 = NATIVE_INITIAL_CREDIT;

/// Bytes to which the window of a stream grows.
pub(crate) const HTTP2_WINDOW_MAX: u32 = NATIVE_WINDOW_MAX;

/// Bytes by which all windows of a connection together may have grown.
pub(crate) const HTTP2_GROWN_MAX: u32 = NATIVE_GROWN_MAX as u32;

/// Time between PINGs that measure.
pub(crate) const HTTP2_MEASURE_PAUSE: Duration = NATIVE_MEASURE_PAUSE;

/// Streams that are measured by one PING.
pub(crate) const HTTP2_MEASURED_MAX: usize = NATIVE_MEASURED_MAX;

/// Bytes a second of one stream above which its window is not enlarged.
pub(crate) const HTTP2_RATE_ENOUGH: u128 = NATIVE_RATE_ENOUGH;

/// Bytes of the window of a connection: 64 MiB. It is given back as bytes arrive, so it bounds only
/// what is on its way; memory is bounded by the windows of streams.
pub(crate) const HTTP2_CONNECTION_WINDOW: u32 = 64 << 20;

/// Bytes of a message's fields, counted with 32 for each, unless told otherwise: 16 KiB, as gRPC
/// suggests and the native protocol has it.
pub(crate) const HTTP2_HEADER_LIST: u32 = 16 << 10;

/// Bytes of a field block before it is decoded: four times the fields that are kept, since a sender
/// may not know of that limit yet. What is longer is no message.
pub(crate) const HTTP2_BLOCK_MAX: usize = 64 << 10;

/// Frames of a field block: a block of the longest size in frames of 1 KiB. One byte in each would
/// be work without end (CVE-2024-27316).
pub(crate) const HTTP2_BLOCK_FRAMES_MAX: u32 = 64;

/// A field block is sent at once: 10 s are several lost packets.
pub(crate) const HTTP2_BLOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// SETTINGS are acknowledged as soon as they are read, but may wait behind much data: 30 s.
pub(crate) const HTTP2_SETTINGS_TIMEOUT: Duration = Duration::from_secs(30);

/// See [`NATIVE_PING_AFTER`].
pub(crate) const HTTP2_PING_AFTER: Duration = NATIVE_PING_AFTER;

/// Time after which a client probes a silent server: gRPC's servers forbid more than one PING in five
/// minutes.
pub(crate) const HTTP2_CLIENT_PING_AFTER: Duration = Duration::from_secs(310);

/// See [`NATIVE_PING_TIMEOUT`].
pub(crate) const HTTP2_PING_TIMEOUT: Duration = NATIVE_PING_TIMEOUT;

/// See [`NATIVE_PREFACE_TIMEOUT`].
pub(crate) const HTTP2_HANDSHAKE_TIMEOUT: Duration = NATIVE_PREFACE_TIMEOUT;

/// See [`NATIVE_STALL_TIMEOUT`].
pub(crate) const HTTP2_STALL_TIMEOUT: Duration = NATIVE_STALL_TIMEOUT;

/// Streams that we reset and whose late frames are borne: more than are open at a time, since all
/// may be reset at once. 4 KiB; older ones are borne as well, at the cost of an error less.
pub(crate) const HTTP2_RESETS_REMEMBERED: usize = 1 << 10;

/// Frames of ours that a peer may have caused without reading them. See [`NATIVE_ANSWERS_MAX`].
pub(crate) const HTTP2_ANSWERS_MAX: usize = NATIVE_ANSWERS_MAX;

/// PINGs of a peer: some implementations measure each path with one for every few frames.
pub(crate) const HTTP2_PING_RATE: Rate = Rate { burst: 512, per_second: 128 };

/// SETTINGS of a peer: each may change the windows of all streams.
pub(crate) const HTTP2_SETTINGS_RATE: Rate = NATIVE_SETTINGS_RATE;

/// Streams that a peer resets at the moment at which it opens them, or makes us reset, besides one for
/// each that has come to its end: what is opened in vain is work for us and none for it (CVE-2023-44487,
/// CVE-2025-8671). Others cost nothing: who gives up a call that has run for a while is ordinary.
pub(crate) const HTTP2_RESET_RATE: Rate = NATIVE_RESET_RATE;

/// Streams that a client of ours resets, besides one for each that has come to its end. Servers that
/// count resets close the connection after 500 (Envoy, of streams that end early) or 1,000 and then 33 a
/// second (nghttp2); ours bears more.
pub(crate) const HTTP2_OWN_RESET_RATE: Rate = Rate { burst: 500, per_second: 100 };

/// Frames of a peer that bring nothing, besides two for each request and for each DATA frame.
pub(crate) const HTTP2_IDLE_RATE: Rate = NATIVE_IDLE_RATE;

/// Bytes from which on a WINDOW_UPDATE is worth its frame.
pub(crate) const HTTP2_UPDATE_WORTH: u32 = NATIVE_CREDIT_WORTH;

/// Most bytes in a DATA frame of ours, whatever the peer takes, so that streams take turns.
pub(crate) const HTTP2_DATA_MAX: u32 = 64 << 10;

/// Longest payload, in bytes, that is copied behind its header; longer ones leave from the caller's
/// memory.
pub(crate) const HTTP2_SMALL_MAX: usize = NATIVE_SMALL_MAX;

/// Messages that are written at once while others wait for their turn, before they wait as well.
pub(crate) const HTTP2_SMALL_TURN: u32 = NATIVE_SMALL_TURN as u32;

/// Bytes written and not sent above which DATA waits in queues of streams.
pub(crate) const HTTP2_WRITTEN_MARK: usize = NATIVE_WRITTEN_MARK;

/// Bytes of all streams that wait above which each writer should wait.
pub(crate) const HTTP2_QUEUED_MARK: usize = NATIVE_QUEUED_MARK;

/// Bytes of output buffer that a connection keeps after a burst.
pub(crate) const HTTP2_OUTPUT_KEPT: usize = NATIVE_OUTPUT_KEPT;

/// Entries of a stream's queue that outlive it.
pub(crate) const HTTP2_CHUNKS_KEPT: usize = NATIVE_ITEMS_KEPT;

/// Bytes of a stream's buffer that outlive it.
pub(crate) const HTTP2_SMALL_KEPT: usize = 1 << 10;

/// Bytes of a buffer for cut frames and blocks that a connection keeps.
pub(crate) const HTTP2_PARTIAL_KEPT: usize = 4 << 10;

/// Longest reason of a GOAWAY that is handed on, in bytes.
pub(crate) const HTTP2_REASON_MAX: usize = NATIVE_REASON_MAX;

/// Bytes that an unread message of gRPC counts for at least, however short: what remembering it takes here
/// and at its reader, in lists that grow by doubling.
pub(crate) const GRPC_COST_MIN: usize = 24;

/// Entries of a call's list of unread messages that outlive it: half a KiB for each place of a connection.
pub(crate) const GRPC_SPARE_COSTS: usize = 64;

/// Bytes reserved at least for a message of gRPC that comes in pieces.
pub(crate) const GRPC_MESSAGE_LEAST: usize = NATIVE_MESSAGE_LEAST;

/// Bytes of a gzip message that are decompressed at a time: two pages, on the stack.
#[cfg(feature = "compression")]
pub(crate) const GRPC_INFLATE_CHUNK: usize = 8 << 10;

/// Bytes of messages that a connection keeps and above which none is decompressed for it any more: some
/// bytes may become a thousand times as many, for which their sender needs no credit. 64 MiB, as for
/// messages that are not whole.
pub(crate) const GRPC_INFLATED_MAX: usize = NATIVE_ASSEMBLY_MAX;

/// The level of zstd: its fastest but for those that hardly compress, since calls wait for it.
#[cfg(feature = "compression")]
pub(crate) const GRPC_ZSTD_LEVEL: i32 = 1;

/// A client that drains has so long to answer that it knows; one that does not is taken to know then. It
/// is several round trips of the slowest networks, and what others wait.
pub(crate) const GRPC_DRAIN_KNOWN: Duration = Duration::from_secs(5);
