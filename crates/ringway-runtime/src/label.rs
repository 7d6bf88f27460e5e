//! Labels for parts of a poll.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use crate::core::{CoreShared, with_current};
use crate::names::NameId;

/// A name that the stall watchdog shows for a poll of this core while it works on one of several
/// things, such as the calls of a connection.
///
/// Creating a label takes a lock; [`put`](Self::put) is one store.
///
/// ```
/// use ringway_runtime::PollLabel;
///
/// ringway_runtime::block_on(async {
///     let label = PollLabel::new("market.v1.Market/Quote");
///     label.put(); // until this task waits, or another label is put
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct PollLabel {
    core: Arc<CoreShared>,
    name: NameId,
    /// Keeps the label on its core, which alone may name its polls.
    _of_this_core: PhantomData<Rc<()>>,
}

impl PollLabel {
    /// Creates a name for polls of the calling core.
    ///
    /// # Panics
    /// Panics outside a runtime's thread.
    pub fn new(name: &'static str) -> Self {
        let core = with_current(|core| Arc::clone(&core.shared));
        Self { core, name: NameId::of(name), _of_this_core: PhantomData }
    }

    /// Gives the current poll this name, until it ends or gets another one.
    #[inline]
    pub fn put(&self) {
        self.core.counters.poll_renamed(self.name);
    }
}

impl fmt::Debug for PollLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PollLabel").field(&NameId::resolve(self.name.bits())).finish()
    }
}
