//! Where the cores of a server get the implementation of a service from.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Gives each core the implementation of a service: the one that all share, or one of its own.
pub struct Provider<T> {
    provide: Arc<dyn Fn() -> Instance<T> + Send + Sync>,
}

/// The implementation that a core uses.
#[derive(Debug)]
pub enum Instance<T> {
    /// Also that of other cores.
    Shared(Arc<T>),
    /// Nobody else's.
    Own(T),
}

impl<T: 'static> Provider<T> {
    /// All cores share `service`.
    pub fn shared(service: T) -> Self
    where
        T: Send + Sync,
    {
        let service = Arc::new(service);
        Self { provide: Arc::new(move || Instance::Shared(Arc::clone(&service))) }
    }

    /// Each core makes one of its own, which therefore needs no lock inside.
    pub fn per_core(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self { provide: Arc::new(move || Instance::Own(make())) }
    }

    /// The implementation for one core.
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
    fn one_for_all_or_one_for_each() {
        let shared = Provider::shared(AtomicU32::new(0));
        shared.instance().store(3, Ordering::Relaxed);
        assert_eq!(shared.clone().instance().load(Ordering::Relaxed), 3);
        let own = Provider::per_core(|| Cell::new(0_u32)); // not `Sync`
        own.instance().set(3);
        assert_eq!(own.instance().get(), 0);
    }
}
