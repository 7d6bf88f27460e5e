//! Every bound of this crate, with its reason.

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

/// Most message bytes in a frame before SETTINGS, which cannot lower it.
pub(crate) const NATIVE_PAYLOAD_DEFAULT: u32 = 64 << 10;

/// Most message bytes in a frame after SETTINGS: a longer one would hold up the other streams of
/// its connection for a millisecond even at 2 Gbit/s.
pub(crate) const NATIVE_PAYLOAD_MAX: u32 = 256 << 10;
