//! What is known of a method before it is called.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The kind of a method: one message or a stream each way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// One request, one reply.
    Unary,
    /// A stream of requests, one reply.
    ClientStream,
    /// One request, a stream of replies.
    ServerStream,
    /// A stream each way.
    Bidi,
}

impl Kind {
    /// The client sends a stream.
    pub const fn streams_in(self) -> bool {
        matches!(self, Self::ClientStream | Self::Bidi)
    }

    /// The server sends a stream.
    pub const fn streams_out(self) -> bool {
        matches!(self, Self::ServerStream | Self::Bidi)
    }
}

/// A method of a service: its name, its kind and what was declared of it. One static each.
///
/// ```
/// use ringway_rpc::{Kind, Method};
///
/// static QUOTE: Method = Method::new("market.v1.Market/Quote", Kind::Unary).idempotent();
/// assert_eq!((QUOTE.service(), QUOTE.short_name()), ("market.v1.Market", "Quote"));
/// ```
pub struct Method {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) idempotent: bool,
    pub(crate) no_side_effects: bool,
    pub(crate) offload: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) concurrency: Option<u32>,
    pub(crate) parameters: &'static [&'static str],
    /// 0 until it is asked for.
    number: AtomicU32,
}

impl Method {
    /// A method named `package.Service/Method`, nothing declared of it.
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            kind,
            idempotent: false,
            no_side_effects: false,
            offload: false,
            timeout: None,
            concurrency: None,
            parameters: &[],
            number: AtomicU32::new(0),
        }
    }

    /// Carrying it out twice does no harm: it may be retried and hedged.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// It changes nothing: besides being [idempotent](Self::idempotent), it may be called by GET, which
    /// browsers send on behalf of any page and caches may repeat.
    #[must_use]
    pub const fn no_side_effects(mut self) -> Self {
        self.no_side_effects = true;
        self.idempotent()
    }

    /// Its handler blocks or computes for long: it runs on the blocking pool.
    #[must_use]
    pub const fn offload(mut self) -> Self {
        self.offload = true;
        self
    }

    /// How long a call takes at most, where the caller does not say. It is the client that knows
    /// whether its caller has said anything, and that gives the call its deadline.
    #[must_use]
    pub const fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.timeout = Some(Duration::from_millis(timeout_ms));
        self
    }

    /// The most calls of it that a server runs at once.
    #[must_use]
    pub const fn concurrency(mut self, calls_max: u32) -> Self {
        self.concurrency = Some(calls_max);
        self
    }

    /// What its arguments are called, for protocols that give them by name.
    #[must_use]
    pub const fn parameters(mut self, names: &'static [&'static str]) -> Self {
        self.parameters = names;
        self
    }

    /// `package.Service/Method`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// `package.Service`.
    pub fn service(&self) -> &'static str {
        self.name.rsplit_once('/').map_or("", |(service, _)| service)
    }

    /// `Method`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit_once('/').map_or(self.name, |(_, method)| method)
    }

    /// The kind of a method: one message or a stream each way.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether carrying it out twice does no harm.
    pub const fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Whether it changes nothing, so that it may be called by GET.
    pub const fn has_no_side_effects(&self) -> bool {
        self.no_side_effects
    }

    /// Whether its handler runs on the blocking pool.
    pub const fn is_offloaded(&self) -> bool {
        self.offload
    }

    /// How long a call takes at most, where the caller does not say.
    pub const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The most calls of it that a server runs at once.
    pub const fn concurrency_max(&self) -> Option<u32> {
        self.concurrency
    }

    /// Its number in this process: dense, from 1, given at first use. Tables may be indexed by it.
    #[inline]
    pub fn number(&'static self) -> u32 {
        match self.number.load(Ordering::Relaxed) {
            0 => self.assign_number(),
            number => number,
        }
    }

    #[cold]
    fn assign_number(&'static self) -> u32 {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.number.load(Ordering::Relaxed);
        if number != 0 {
            return number; // another thread was faster
        }
        known.push(self);
        let number = u32::try_from(known.len()).expect("a program has fewer statics");
        self.number.store(number, Ordering::Relaxed);
        number
    }
}

/// The methods that have a number, in its order; as many as the program has statics.
static KNOWN: Mutex<Vec<&'static Method>> = Mutex::new(Vec::new());

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Method({}, {:?})", self.name, self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_the_same_for_every_thread() {
        static METHODS: [Method; 8] = [const { Method::new("s/M", Kind::Unary) }; 8];
        let ask = || METHODS.iter().map(Method::number).collect::<Vec<_>>();
        let others: Vec<_> = (0..4).map(|_| std::thread::spawn(ask)).collect();
        let mine = ask();
        for other in others {
            assert_eq!(other.join().expect("no panic"), mine);
        }
        for (method, &number) in METHODS.iter().zip(&mine) {
            assert!(number > 0);
            let known = KNOWN.lock().expect("nobody panics with it");
            assert!(std::ptr::eq(known[number as usize - 1], method));
        }
    }
}
