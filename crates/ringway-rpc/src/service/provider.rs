//! The source of a service's implementation for each core of a server.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Provides the implementation of a service to each core: one that all share, or one per core.
pub struct Provider<T> {
    provide: Arc<dyn Fn() -> Instance<T> + Send + Sync>,
}

/// The implementation that a core uses.
#[derive(Debug)]
pub enum Instance<T> {
    /// An implementation that all cores share.
    Shared(Arc<T>),
    /// An implementation of this core only.
    Own(T),
}

impl<T: 'static> Provider<T> {
    /// Makes all cores share `service`.
    pub fn shared(service: T) -> Self
    where
        T: Send + Sync,
    {
        let service = Arc::new(service);
        Self { provide: Arc::new(move || Instance::Shared(Arc::clone(&service))) }
    }

    /// Makes an implementation for each core, which needs no locks inside.
    pub fn per_core(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self { provide: Arc::new(move || Instance::Own(make())) }
    }

    /// Returns the implementation for one core.
    pub fn instance(&self) -> Instance<T> {
        (self.provide)()
    }
}

impl<T> Deref for Instance<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Self::Shared(service) => service,
            Self::Own(service) => service,
        }
    }
}

impl<T> Clone for Provider<T> {
    fn clone(&self) -> Self {
        Self { provide: Arc::clone(&self.provide) }
    }
}

impl<T> fmt::Debug for Provider<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider<{}>", std::any::type_name::<T>())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn provider_shares_one_or_makes_one_per_core() {
        let shared = Provider::shared(AtomicU32::new(0));
        shared.instance().store(3, Ordering::Relaxed);
        assert_eq!(shared.clone().instance().load(Ordering::Relaxed), 3);
        let own = Provider::per_core(|| Cell::new(0_u32)); // not `Sync`
        own.instance().set(3);
        assert_eq!(own.instance().get(), 0);
    }
}
