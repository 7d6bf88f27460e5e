//! The W3C trace context of a call.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;

/// The trace that a call belongs to and the span that made the call: W3C's `traceparent`.
///
/// ```
/// use ringway_rpc::TraceContext;
///
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let parent = TraceContext::parse(text).expect("a traceparent");
/// assert!(parent.is_sampled());
/// assert_eq!(parent.to_string(), text);
/// assert_eq!(parent.child().trace_id(), parent.trace_id());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// High and low half. One `u128` would align containing types to 16 bytes.
    trace_id: [u64; 2],
    span_id: NonZeroU64,
    flags: u8,
}

impl TraceContext {
    /// The length of the binary form: trace id, span id, flags.
    pub const BYTES: usize = 25;

    /// Makes the first span of a new trace, with random ids.
    pub fn root(sampled: bool) -> Self {
        let trace_id = [random().get(), random().get()];
        Self { trace_id, span_id: random(), flags: u8::from(sampled) }
    }

    /// Makes a span of ids, as other tracing libraries provide them; `None` if one of them is 0.
    ///
    /// ```
    /// use ringway_rpc::TraceContext;
    ///
    /// let span = TraceContext::new(0xABC, 0x12, true).expect("ids");
    /// assert_eq!((span.trace_id(), span.span_id(), span.is_sampled()), (0xABC, 0x12, true));
    /// assert!(TraceContext::new(0, 0x12, true).is_none());
    /// ```
    pub fn new(trace_id: u128, span_id: u64, sampled: bool) -> Option<Self> {
        Self::of(trace_id, span_id, u8::from(sampled))
    }

    /// Makes a new span of the same trace.
    #[must_use]
    pub fn child(self) -> Self {
        Self { span_id: random(), ..self }
    }

    /// Returns the id of the trace; never 0.
    pub fn trace_id(self) -> u128 {
        let [high, low] = self.trace_id.map(u128::from);
        (high << 64) | low
    }

    /// Returns the id of the span; never 0.
    pub fn span_id(self) -> u64 {
        self.span_id.get()
    }

    /// Whether the originator of the trace records it.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Parses a `traceparent` header. Later versions may have more fields after the flags (W3C
    /// Trace Context, section 3.2).
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let version = hex(fields.next()?, 2)?;
        let trace_id = hex(fields.next()?, 32)?;
        let span_id = u64::try_from(hex(fields.next()?, 16)?).ok()?;
        let flags = u8::try_from(hex(fields.next()?, 2)?).ok()?;
        let known = version != 0xFF && (version != 0 || fields.next().is_none());
        known.then(|| Self::of(trace_id, span_id, flags))?
    }

    /// Reads the binary form; `None` if it is malformed.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (trace_id, rest) = bytes.split_first_chunk()?;
        let (span_id, flags) = rest.split_first_chunk()?;
        let &[flags] = flags else { return None };
        let trace_id = u128::from_be_bytes(*trace_id);
        let span_id = u64::from_be_bytes(*span_id);
        Self::of(trace_id, span_id, flags)
    }

    /// Returns the binary form, with ids in network byte order.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [self.flags; Self::BYTES];
        bytes[..16].copy_from_slice(&self.trace_id().to_be_bytes());
        bytes[16..24].copy_from_slice(&self.span_id().to_be_bytes());
        bytes
    }

    fn of(trace_id: u128, span_id: u64, flags: u8) -> Option<Self> {
        let halves = [(trace_id >> 64) as u64, trace_id as u64];
        let span_id = NonZeroU64::new(span_id)?;
        (trace_id != 0).then_some(Self { trace_id: halves, span_id, flags })
    }
}

const SAMPLED: u8 = 1;

/// Parses lower-case hexadecimal of exactly this length, as the standard requires.
fn hex(text: &str, len: usize) -> Option<u128> {
    let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (text.len() == len && digits).then(|| u128::from_str_radix(text, 16).ok())?
}

/// Prints a `traceparent` header.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id(), self.span_id, self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

thread_local! {
    /// The state of this thread's generator, seeded by the system through the standard library.
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
}

/// Returns a random number that is not 0 (splitmix64). It is not suitable for secrets.
fn random() -> NonZeroU64 {
    STATE.with(|state| {
        let next = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(next);
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        NonZeroU64::new(mixed ^ (mixed >> 31)).unwrap_or(NonZeroU64::MIN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn text_and_binary_forms_are_read_back() {
        let parent = TraceContext::parse(TEXT).expect("a traceparent");
        assert_eq!(parent.trace_id(), 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(TraceContext::from_bytes(&parent.to_bytes()), Some(parent));
        assert_eq!(parent.to_bytes()[..2], [0x0a, 0xf7]);
        assert_eq!(parent.to_bytes()[24], 1);
    }

    #[test]
    fn malformed_trace_contexts_are_rejected() {
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
        let later = TEXT.replacen("00", "01", 1) + "-more";
        assert!(TraceContext::parse(&later).is_some(), "a later version may have more fields");
        let bytes = TraceContext::root(false).to_bytes();
        assert_eq!(TraceContext::from_bytes(&bytes[..24]), None);
        assert_eq!(TraceContext::from_bytes(&[0; 25]), None);
    }

    #[test]
    fn child_has_a_new_span_in_the_same_trace() {
        let root = TraceContext::root(true);
        let child = root.child();
        assert_eq!((child.trace_id(), child.is_sampled()), (root.trace_id(), true));
        assert_ne!(child.span_id(), root.span_id());
        assert_ne!(TraceContext::root(false).trace_id(), root.trace_id());
    }
}
