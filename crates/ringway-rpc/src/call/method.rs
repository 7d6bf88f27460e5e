//! Descriptions of methods.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The kind of a method: one message or a stream in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// One request, one reply.
    Unary,
    /// A stream of requests, one reply.
    ClientStream,
    /// One request, a stream of replies.
    ServerStream,
    /// A stream in each direction.
    Bidi,
}

impl Kind {
    /// Whether the client sends a stream.
    pub const fn streams_in(self) -> bool {
        matches!(self, Self::ClientStream | Self::Bidi)
    }

    /// Whether the server sends a stream.
    pub const fn streams_out(self) -> bool {
        matches!(self, Self::ServerStream | Self::Bidi)
    }
}

/// A method of a service: its name, its kind and its declared options. Each is a `static`.
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
    /// 0 until it is first asked for.
    number: AtomicU32,
}

impl Method {
    /// Describes a method named `package.Service/Method`, without options.
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

    /// Declares that executing it twice is harmless, so that it may be retried and hedged.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Declares that executing it changes nothing. It is [idempotent](Self::idempotent) and may also be
    /// called with GET, which browsers send on behalf of any page and caches may repeat.
    #[must_use]
    pub const fn no_side_effects(mut self) -> Self {
        self.no_side_effects = true;
        self.idempotent()
    }

    /// Declares that its handler blocks or computes for long, so that it runs on the blocking pool.
    #[must_use]
    pub const fn offload(mut self) -> Self {
        self.offload = true;
        self
    }

    /// Sets the time limit of calls whose caller sets none. The client applies it, since only the
    /// client knows what its caller has set.
    #[must_use]
    pub const fn timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.timeout = Some(Duration::from_millis(timeout_ms));
        self
    }

    /// Sets how many calls of it a server runs at once.
    #[must_use]
    pub const fn concurrency(mut self, calls_max: u32) -> Self {
        self.concurrency = Some(calls_max);
        self
    }

    /// Sets the names of its arguments, for protocols that pass them by name.
    #[must_use]
    pub const fn parameters(mut self, names: &'static [&'static str]) -> Self {
        self.parameters = names;
        self
    }

    /// Returns the full name, `package.Service/Method`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the name of the service, `package.Service`.
    pub fn service(&self) -> &'static str {
        self.name.rsplit_once('/').map_or("", |(service, _)| service)
    }

    /// Returns the name of the method within its service.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit_once('/').map_or(self.name, |(_, method)| method)
    }

    /// Returns the kind of the method.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether executing it twice is harmless.
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

    /// Returns the time limit of calls whose caller sets none.
    pub const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns how many calls of it a server runs at once.
    pub const fn concurrency_max(&self) -> Option<u32> {
        self.concurrency
    }

    /// Returns its number in this process, an index for tables: numbers are dense, begin at 1 and
    /// are assigned at first use.
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

/// The methods with a number, in that order; the program's statics bound them.
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
            let known = KNOWN.lock().expect("no panic under the lock");
            assert!(std::ptr::eq(known[number as usize - 1], method));
        }
    }
}
