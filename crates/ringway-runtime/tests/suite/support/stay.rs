//! A check that tests leave nothing behind. Each test holds a `Stay` while it runs; when the last one is dropped, the
//! process must hold no more than it did before the first.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::held::Held;

/// One test's time in the suite.
pub(crate) struct Stay(());

impl Stay {
    pub(crate) fn begin() -> Self {
        let mut suite = suite();
        if suite.staying == 0 {
            suite.before = Held::now();
        }
        suite.staying += 1;
        Self(())
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut suite = suite();
        suite.staying -= 1;
        // A test that fails has said what is wrong, so its leftovers are not reported.
        suite.failed |= std::thread::panicking();
        if suite.staying == 0 && !suite.failed {
            let left = suite.before.is_left(); // under the lock, so that no test begins meanwhile
            suite.failed = left.is_err();
            drop(suite);
            left.unwrap_or_else(|left| panic!("something was left behind: {left}"));
        }
    }
}

struct Suite {
    staying: usize,
    failed: bool,
    before: Held,
}

fn suite() -> MutexGuard<'static, Suite> {
    const NOTHING: Held = Held { descriptors: 0, threads: 0, cores: 0 };
    static SUITE: Mutex<Suite> = Mutex::new(Suite { staying: 0, failed: false, before: NOTHING });
    SUITE.lock().unwrap_or_else(PoisonError::into_inner)
}
